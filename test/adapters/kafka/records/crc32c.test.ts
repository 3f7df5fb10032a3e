import assert from 'node:assert/strict';
import fc from 'fast-check';
import { crc32c, loadChecksum } from '../../../../src/adapters/kafka/session.ts';

describe('crc32c', () => {
  it('gives the check value of the standard', () => {
    const text = Buffer.from('123456789');
    assert.equal(crc32c(text, 0, text.length) >>> 0, 0xe3069283);
  });

  it('is the same wherever the bytes begin and end', () => {
    const memory = new ArrayBuffer(96);
    const whole = new Uint8Array(memory);
    for (let at = 0; at < whole.length; at++) whole[at] = (at * 167 + 13) % 256;
    for (let offset = 0; offset < 9; offset++) {
      for (let start = 0; start < 9; start++) {
        for (let end = start; end < 64; end++) {
          const found = crc32c(new Uint8Array(memory, offset), start, end);
          assert.equal(found, bitByBit(whole.subarray(offset + start, offset + end)));
        }
      }
    }
  });
});

describe('the checksum of @node-rs/crc32', () => {
  it('is that of svc, of any bytes, from any place to any other', async () => {
    const native = await loadChecksum();
    assert.notEqual(native, crc32c);
    const place = fc.nat(5_000);
    const part = fc.tuple(fc.uint8Array({ maxLength: 5_000, size: 'max' }), place, place, place);
    fc.assert(
      fc.property(part, ([bytes, ...places]) => {
        const within = places.map((at) => Math.min(at, bytes.length)).sort((a, b) => a - b);
        const [start, middle, end] = within as [number, number, number];
        const expected = crc32c(bytes, start, end);
        assert.equal(native(bytes, start, end), expected);
        assert.equal(native(Buffer.from(bytes), start, end), expected);
        for (const checksum of [native, crc32c])
          assert.equal(checksum(bytes, middle, end, checksum(bytes, start, middle)), expected);
      }),
    );
  });

  it("is svc's own where the package is not there, has no binary, or gives something else", async () => {
    const missing = (): never => {
      throw Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' });
    };
    assert.equal(await loadChecksum(async () => missing()), crc32c);
    assert.equal(await loadChecksum(async () => ({ crc32c: missing })), crc32c);
    assert.equal(await loadChecksum(async () => ({}) as never), crc32c);
    assert.equal(await loadChecksum(async () => ({ crc32c: () => 0 })), crc32c);
  });
});

function bitByBit(bytes: Uint8Array): number {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return ~crc;
}
