import assert from 'node:assert/strict';
import { patchProduce } from '../../../../src/adapters/kafkajs/wire/produce-patch.ts';
import { frameRoom, RequestFrame } from '../../../../src/adapters/kafkajs/wire/request-frame.ts';

interface Encoded {
  readonly buffer: Buffer;
}

/** Lengths and numbers that kafkajs writes in front of a request, besides the client id. */
const headBytes = 14;

describe('a request that is not copied', () => {
  const body = Buffer.from('the bytes of a batch');
  let createRequest: (options: object) => Promise<Encoded>;

  before(async () => {
    assert.equal(await patchProduce(), true);
    // @ts-expect-error kafkajs has no types for its inner modules.
    createRequest = (await import('kafkajs/src/protocol/request.js')).default;
  });

  const requestOf = (clientId: string, encoded: unknown): Promise<Encoded> =>
    createRequest({
      correlationId: 7,
      clientId,
      request: { apiKey: 0, apiVersion: 7, encode: async () => encoded },
    });

  const framed = (room: number): RequestFrame => {
    const memory = Buffer.alloc(room + body.length, '.');
    body.copy(memory, room);
    return new RequestFrame(memory.subarray(room), room);
  };

  for (const [where, length] of [
    ['no client id', 0],
    ['a usual client id', 12],
    ['the longest that there is room for', frameRoom - headBytes],
    ['one that is a byte longer', frameRoom - headBytes + 1],
    ['a much longer one', 3 * frameRoom],
  ] as const) {
    it(`is what kafkajs makes of it by itself: ${where}`, async () => {
      const clientId = 'c'.repeat(length);
      const theirs = await requestOf(clientId, { buf: body, buffer: body });
      const own = await requestOf(clientId, framed(frameRoom));
      assert.equal(own.buffer.toString('hex'), theirs.buffer.toString('hex'));
    });
  }

  it('lies where its batch was written', async () => {
    const frame = framed(frameRoom);
    const { buffer } = await requestOf('client', frame);
    assert.equal(buffer.buffer, frame.buffer.buffer);
    assert.equal(buffer.byteOffset, frameRoom - headBytes - 'client'.length);
  });

  it('never writes in front of its own memory', () => {
    const memory = Buffer.alloc(20 + body.length, '.');
    const frame = new RequestFrame(memory.subarray(20), 3);
    assert.equal(frame.behind(Buffer.from('1234')).buffer.toString(), `1234${'.'.repeat(body.length)}`);
    assert.equal(memory.subarray(0, 20).toString(), '.'.repeat(20));
    assert.equal(frame.behind(Buffer.from('123')).buffer.byteOffset, memory.byteOffset + 17);
  });
});
