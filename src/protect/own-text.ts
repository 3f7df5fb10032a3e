/**
 * What the application itself says in the form of a ciphertext or hash. It goes out with a backslash in front, so that readers
 * take nothing for svc's that is not: `\ENC(…)`. A text that already begins so gets one more, and readers take one away: every
 * text comes back as it was.
 */
const looksLikeOurs = /^\\*(?:ENC|HASH)\(/;
const marked = /^\\+(?:ENC|HASH)\(/;
/** JSON writes a backslash as two. Names of fields are met as well. */
const looksLikeOursInJson = /"(?:\\\\)*(?:ENC|HASH)\(/;

/** Whether `markOwnText` has to look at a text; on the caller's path, so by its first character alone. */
export function mayNeedMark(text: string): boolean {
  const first = text.charCodeAt(0);
  // A backslash, `E` or `H`.
  return first <= 0x5c && (first === 0x45 || first === 0x48 || first === 0x5c);
}

/** A text that svc did not make, as it is published. */
export function markOwnText(text: string): string {
  return mayNeedMark(text) && looksLikeOurs.test(text) ? `\\${text}` : text;
}

/**
 * Whether a JSON text may hold such a text as a value. Asked of what is about to leave, where nothing in it is svc's: looking for
 * one character in the whole text takes a tenth of the time that looking at each value of it does.
 */
export function mayHoldOwnText(json: string): boolean {
  return json.includes('(') && looksLikeOursInJson.test(json);
}

/** A payload as JSON, its own texts marked. `undefined` where nothing is left of it. */
export function markedJson(payload: unknown): string | undefined {
  return JSON.stringify(payload, (_, value: unknown) =>
    typeof value === 'string' ? markOwnText(value) : value,
  );
}

/** What the application gave, of a text that was published. */
export function unmarkOwnText(text: string): string {
  return text.startsWith('\\') && marked.test(text) ? text.slice(1) : text;
}
