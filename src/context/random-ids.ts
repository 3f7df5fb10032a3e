import { randomFillSync } from 'node:crypto';

/** Random bytes are drawn and written as text in one go: a call per id costs ten times as much. */
const pool = Buffer.allocUnsafeSlow(1024);
let text = '';
let used = 0;

/** 32 hexadecimal digits. */
export function randomTraceId(): string {
  return randomHex(32);
}

/** 16 hexadecimal digits. */
export function randomSpanId(): string {
  return randomHex(16);
}

function randomHex(digitCount: number): string {
  if (used + digitCount > text.length) {
    text = randomFillSync(pool).toString('hex');
    used = 0;
  }
  used += digitCount;
  return text.slice(used - digitCount, used);
}
