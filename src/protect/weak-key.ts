/**
 * Whether a key or salt cannot be random: equal bytes, a short text over and over, or counting up. Chance makes none of it in
 * 32 random bytes, and in 32 random hexadecimal digits less than once in 100,000.
 */
export function isWeak(bytes: Uint8Array): boolean {
  const { length } = bytes;
  return new Set(bytes).size <= length / 4 || repeats(bytes) || mostEqualSteps(bytes) >= (length - 1) * 0.75;
}

/** A unit of up to half the length, the last one perhaps cut off. */
function repeats(bytes: Uint8Array): boolean {
  for (let unit = 1; unit <= bytes.length / 2; unit++)
    if (bytes.every((byte, index) => byte === bytes[index % unit])) return true;
  return false;
}

/** How often the step that is taken most often is taken from one byte to the next. */
function mostEqualSteps(bytes: Uint8Array): number {
  const counts = new Map<number, number>();
  for (let index = 1; index < bytes.length; index++) {
    const step = ((bytes[index] as number) - (bytes[index - 1] as number)) & 0xff;
    counts.set(step, (counts.get(step) ?? 0) + 1);
  }
  return Math.max(0, ...counts.values());
}
