const scratch = Buffer.allocUnsafe(1024);

/** The partition that the default partitioners of Java and kafkajs choose for a key. */
export function partitionOfKey(key: string, partitionCount: number): number {
  // A UTF-16 unit never takes more than three bytes.
  const fits = key.length * 3 <= scratch.length;
  const bytes = fits ? scratch : Buffer.from(key);
  const length = fits ? scratch.write(key) : bytes.length;
  return (murmur2(bytes, length) & 0x7fffffff) % partitionCount;
}

/** For single events. Without a key it needs no order, so any partition will do. */
export function partitionOf(key: string | null, partitionCount: number): number {
  return key === null ? Math.floor(Math.random() * partitionCount) : partitionOfKey(key, partitionCount);
}

const seed = 0x9747b28c;
const multiplier = 0x5bd1e995;

/** MurmurHash2 of bytes as a signed 32-bit integer, as in Kafka's own clients. */
export function murmur2(bytes: Uint8Array, length: number = bytes.length): number {
  let hash = seed ^ length;
  const rest = length & 3;
  const whole = length - rest;
  for (let at = 0; at < whole; at += 4) {
    let word =
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24);
    word = Math.imul(word, multiplier);
    word ^= word >>> 24;
    hash = Math.imul(hash, multiplier) ^ Math.imul(word, multiplier);
  }
  if (rest > 2) hash ^= (bytes[whole + 2] as number) << 16;
  if (rest > 1) hash ^= (bytes[whole + 1] as number) << 8;
  if (rest > 0) hash = Math.imul(hash ^ (bytes[whole] as number), multiplier);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, multiplier);
  return hash ^ (hash >>> 15);
}
