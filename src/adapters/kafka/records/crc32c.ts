/** Reversed polynomial of CRC-32C (Castagnoli), which Kafka's record batches carry. */
const polynomial = 0x82f63b78;

/** `tables[n * 256 + byte]`: the checksum of that byte followed by `n` zero bytes, so that eight bytes are taken in one step. */
const tables = makeTables();

const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
const noWords = new Int32Array(0);

/** CRC-32C of `bytes` from `start` to `end`, as a signed 32-bit number. `before`: that of what stands in front of them. */
export function crc32c(bytes: Uint8Array, start: number, end: number, before = 0): number {
  let crc = ~before;
  let at = start;
  for (; at < end && ((bytes.byteOffset + at) & 3) !== 0; at++) crc = oneByte(crc, bytes[at] as number);
  const pairs = isLittleEndian ? (end - at) >> 3 : 0;
  const words = pairs > 0 ? new Int32Array(bytes.buffer, bytes.byteOffset + at, pairs * 2) : noWords;
  for (let word = 0; word < words.length; word += 2) {
    const first = (words[word] as number) ^ crc;
    const second = words[word + 1] as number;
    crc =
      (tables[0x700 + (first & 0xff)] as number) ^
      (tables[0x600 + ((first >>> 8) & 0xff)] as number) ^
      (tables[0x500 + ((first >>> 16) & 0xff)] as number) ^
      (tables[0x400 + (first >>> 24)] as number) ^
      (tables[0x300 + (second & 0xff)] as number) ^
      (tables[0x200 + ((second >>> 8) & 0xff)] as number) ^
      (tables[0x100 + ((second >>> 16) & 0xff)] as number) ^
      (tables[second >>> 24] as number);
  }
  for (at += words.byteLength; at < end; at++) crc = oneByte(crc, bytes[at] as number);
  return ~crc;
}

function oneByte(crc: number, byte: number): number {
  return (tables[(crc ^ byte) & 0xff] as number) ^ (crc >>> 8);
}

function makeTables(): Int32Array {
  const made = new Int32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
    made[byte] = crc;
  }
  for (let at = 256; at < made.length; at++) {
    const before = made[at - 256] as number;
    made[at] = (made[before & 0xff] as number) ^ (before >>> 8);
  }
  return made;
}
