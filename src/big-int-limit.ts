/** Larger ones take so long to multiply, and to write as text, that a few of them block the process. */
export const maxBigIntBits = 16_384;

const first = 1n << BigInt(maxBigIntBits);

/** Whether nothing is to be done with this number. Comparing is fast, however large it is. */
export function isTooBig(value: bigint): boolean {
  return value >= first || value <= -first;
}
