/** What stands for a hidden value of which nothing may be told, its length included. */
export const fullMask = '****';

/** The code point that begins there. */
export function pointAt(text: string, at: number): string {
  return text.slice(at, at + (isHigh(text, at) ? 2 : 1));
}

/** The first `count` code points: never half of a pair of surrogates. Reads no more than it needs. */
export function firstPoints(text: string, count: number): string {
  let at = 0;
  for (let point = 0; point < count && at < text.length; point++) at += isHigh(text, at) ? 2 : 1;
  return text.slice(0, at);
}

/** The last `count` code points. */
export function lastPoints(text: string, count: number): string {
  let at = text.length;
  for (let point = 0; point < count && at > 0; point++) at -= at > 1 && isHigh(text, at - 2) ? 2 : 1;
  return text.slice(at);
}

/** How many code points, counted up to `most`. */
export function countPoints(text: string, most: number): number {
  let count = 0;
  for (let at = 0; at < text.length && count < most; count++) at += isHigh(text, at) ? 2 : 1;
  return count;
}

function isHigh(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  if (unit < 0xd800 || unit > 0xdbff) return false;
  const next = text.charCodeAt(at + 1);
  return next >= 0xdc00 && next <= 0xdfff;
}
