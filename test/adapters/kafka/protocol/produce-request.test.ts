import assert from 'node:assert/strict';
import { ProtocolError } from '../../../../src/adapters/kafka/protocol.ts';
import { produceRequest } from '../../../../src/adapters/kafka/session.ts';

describe('a produce request', () => {
  const produce = { topic: 'orders', partition: 3, timeoutMs: 30_000, batch: Buffer.from('batch') } as const;
  const hexOf = (acks: -1 | 0 | 1): string =>
    Buffer.concat(produceRequest({ ...produce, acks }).write(8)).toString('hex');

  it('says who has to confirm, and how long the broker may wait', () => {
    for (const [acks, hex] of [
      [-1, 'ffff'],
      [0, '0000'],
      [1, '0001'],
    ] as const)
      assert.equal(hexOf(acks).slice(4, 16), `${hex}00007530`);
  });

  it('is of one topic and one partition, and its batch is not copied', () => {
    const [topic, batch] = ['orders', 'batch'].map((text) => Buffer.from(text).toString('hex'));
    assert.equal(hexOf(1), `ffff000100007530000000010006${topic}000000010000000300000005${batch}`);
    assert.equal(produceRequest({ ...produce, acks: 1 }).write(8)[1], produce.batch);
  });

  it('takes the longest topic', () => {
    const topic = 'a'.repeat(249);
    const [before] = produceRequest({ ...produce, topic, acks: 1 }).write(3);
    assert.equal(before?.includes(topic), true);
  });

  it('waits for no answer where nobody confirms', () => {
    assert.equal(produceRequest({ ...produce, acks: 0 }).read, undefined);
  });

  it('fails with what Kafka calls the error of its partition, and says the number of one that it does not know', () => {
    const answer = (code: number): Buffer => {
      const bytes = Buffer.alloc(60);
      bytes.writeInt32BE(1, 0);
      bytes.writeInt16BE(6, 4);
      bytes.write('orders', 6);
      bytes.writeInt32BE(1, 12);
      bytes.writeInt32BE(3, 16);
      bytes.writeInt16BE(code, 20);
      bytes.writeBigInt64BE(2n ** 40n, 22);
      return bytes;
    };
    const { read } = produceRequest({ ...produce, acks: -1 });
    assert.equal(read?.(answer(0), 8), 2 ** 40);
    for (const [code, type] of [
      [6, 'NOT_LEADER_OR_FOLLOWER'],
      [10, 'MESSAGE_TOO_LARGE'],
      [87, 'INVALID_RECORD'],
      [-1, 'UNKNOWN_SERVER_ERROR'],
      [999, 'ERROR_999'],
    ] as const)
      assert.throws(
        () => read?.(answer(code), 8),
        (error) => error instanceof ProtocolError && error.type === type,
      );
  });
});
