import { randomFillSync } from 'node:crypto';

/** Random bytes are drawn in one go: a call per id costs ten times as much. */
const pool = Buffer.allocUnsafeSlow(4096);
let used = pool.length;

/** 32 hexadecimal digits. */
export function randomTraceId(): string {
  return randomHex(16);
}

/** 16 hexadecimal digits. */
export function randomSpanId(): string {
  return randomHex(8);
}

function randomHex(sizeBytes: number): string {
  if (used + sizeBytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const from = used;
  used += sizeBytes;
  return pool.toString('hex', from, used);
}
