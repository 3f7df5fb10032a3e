import assert from 'node:assert/strict';
import { produceBody } from '../../../../src/adapters/kafka/records/produce-request.ts';

describe('a produce request', () => {
  const produce = { topic: 'orders', partition: 3, timeoutMs: 30_000, batch: Buffer.from('batch') } as const;
  const hexOf = (version: number, acks: -1 | 0 | 1): string =>
    Buffer.concat([
      produceBody(version, { ...produce, acks })[0],
      Buffer.from('|'),
      produceBody(version, { ...produce, acks })[1],
    ]).toString('hex');

  it('says who has to confirm, and how long the broker may wait', () => {
    for (const [acks, hex] of [
      [-1, 'ffff'],
      [0, '0000'],
      [1, '0001'],
    ] as const) {
      assert.equal(hexOf(9, acks).slice(2, 14), `${hex}00007530`);
      assert.equal(hexOf(8, acks).slice(4, 16), `${hex}00007530`);
    }
  });

  it('is flexible from version 9 on', () => {
    const topic = Buffer.from('orders').toString('hex');
    assert.equal(hexOf(9, 1), `000001000075300207${topic}0200000003067c000000`);
    assert.equal(hexOf(8, 1), `ffff000100007530000000010006${topic}0000000100000003000000057c`);
  });

  it('takes the longest topic and a large batch', () => {
    const topic = 'a'.repeat(249);
    const batch = Buffer.alloc(200_000);
    const [before] = produceBody(11, { ...produce, topic, batch, acks: 1 });
    assert.equal(before.toString('hex', before.length - 3), 'c19a0c');
    assert.equal(before.includes(topic), true);
  });
});
