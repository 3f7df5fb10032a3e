let cachedSecond = Number.NaN;
let secondText = '';

/**
 * `2026-03-04T10:00:00.120Z`, as `toISOString` writes it, at a fraction of its price: a second's text is made once.
 * Throws a `RangeError` where `toISOString` does.
 */
export function isoTime(atMs: number): string {
  const wholeMs = Math.floor(atMs);
  const second = Math.floor(wholeMs / 1000);
  if (second !== cachedSecond) {
    secondText = new Date(second * 1000).toISOString().slice(0, -4);
    cachedSecond = second;
  }
  const ms = wholeMs - second * 1000;
  return `${secondText}${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}Z`;
}
