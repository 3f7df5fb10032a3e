/**
 * What the application itself says in the form of a ciphertext or hash. It goes out with a backslash in front, so that readers
 * take nothing for svc's that is not: `\ENC(…)`. A text that already begins so gets one more, and readers take one away: every
 * text comes back as it was.
 */
const looksLikeOurs = /^\\*(?:ENC|HASH)\(/;
const marked = /^\\+(?:ENC|HASH)\(/;
const [letterE, letterH, backslash] = [0x45, 0x48, 0x5c];

/** Whether `markOwnText` has to look at a text; on the caller's path, so by its first character alone. */
export function mayNeedMark(text: string): boolean {
  const first = text.charCodeAt(0);
  return first === letterE || first === letterH || first === backslash;
}

/** A text that svc did not make, as it is published. */
export function markOwnText(text: string): string {
  return mayNeedMark(text) && looksLikeOurs.test(text) ? `\\${text}` : text;
}

/** What the application gave, of a text that was published. */
export function unmarkOwnText(text: string): string {
  return text.charCodeAt(0) === backslash && marked.test(text) ? text.slice(1) : text;
}
