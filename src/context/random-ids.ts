const words = new Uint32Array(256);
const bytes = Buffer.from(words.buffer);
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

/** From `Math.random`, as OpenTelemetry's own ids are: an id is no secret, and `node:crypto` takes 8 ms to load. */
function randomHex(digitCount: number): string {
  if (used + digitCount > text.length) {
    // In bulk: making each id on its own costs ten times as much.
    for (let at = 0; at < words.length; at++) words[at] = Math.random() * 2 ** 32;
    text = bytes.toString('hex');
    used = 0;
  }
  used += digitCount;
  return text.slice(used - digitCount, used);
}
