/** Below this the bit operations of JavaScript, which know 32 bits, still hold the doubled number. */
const fewBits = 2 ** 30;

/** Bytes that a whole number takes as Kafka writes it: zigzag, seven bits a byte. */
export function sizeOfVarint(value: number): number {
  let rest = zigzag(value);
  let size = 1;
  while (rest >= 0x80) {
    rest = rest < fewBits ? rest >>> 7 : Math.floor(rest / 0x80);
    size++;
  }
  return size;
}

/** Writes a whole number, up to 2 ** 52 in size, and returns the place behind it. */
export function writeVarint(bytes: Uint8Array, value: number, start: number): number {
  let rest = zigzag(value);
  let at = start;
  while (rest >= 0x80) {
    bytes[at++] = (rest % 0x80) | 0x80;
    rest = rest < fewBits ? rest >>> 7 : Math.floor(rest / 0x80);
  }
  bytes[at++] = rest;
  return at;
}

const zigzag = (value: number): number => (value < 0 ? -2 * value - 1 : 2 * value);
