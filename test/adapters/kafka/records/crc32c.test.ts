import assert from 'node:assert/strict';
import { crc32c } from '../../../../src/adapters/kafka/records/crc32c.ts';

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

function bitByBit(bytes: Uint8Array): number {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return ~crc;
}
