/**
 * What the application itself says in the form of a ciphertext or hash. It goes out with a backslash in front, so that readers
 * take nothing for svc's that is not: `\ENC(…)`. A text that already begins so gets one more, and readers take one away: every
 * text comes back as it was.
 */
const looksLikeOurs = /^\\*(?:ENC|HASH)\(/;
const marked = /^\\+(?:ENC|HASH)\(/;

/** A text that svc did not make, as it is published. */
export function markOwnText(text: string): string {
  return looksLikeOurs.test(text) ? `\\${text}` : text;
}

/** What the application gave, of a text that was published. */
export function unmarkOwnText(text: string): string {
  return text.startsWith('\\') && marked.test(text) ? text.slice(1) : text;
}

/**
 * Whether a JSON text may hold such a text. Asked of what is about to leave, in which each of the `sealed` texts stands once: so
 * they are counted, and none of its values has to be looked at.
 */
export function mayHoldOwnText(json: string, sealed: readonly string[]): boolean {
  let ofOurForm = 0;
  for (let bracket = json.indexOf('('); bracket !== -1; bracket = json.indexOf('(', bracket + 1))
    if (isOurForm(json, bracket)) ofOurForm++;
  return ofOurForm !== sealed.length;
}

/** Whether a text of that form, or a name of a field, has its bracket there. */
function isOurForm(json: string, bracket: number): boolean {
  const last = json.charCodeAt(bracket - 1);
  if (last !== 0x43 && last !== 0x48) return false;
  const word = last === 0x43 ? 'ENC' : 'HASH';
  let start = bracket - word.length;
  if (!json.startsWith(word, start)) return false;
  while (json.charCodeAt(start - 1) === 0x5c) start--;
  return json.charCodeAt(start - 1) === 0x22;
}

/** A payload as JSON, its own texts marked. `undefined` where nothing is left of it. */
export function markedJson(payload: unknown, sealed: readonly string[]): string | undefined {
  const ours = new Set(sealed);
  return JSON.stringify(payload, (_, value: unknown) =>
    typeof value === 'string' && !ours.has(value) ? markOwnText(value) : value,
  );
}

/**
 * Where a value stands in a payload, as ciphertexts of format v1 are bound to it: `customer.email`, `items[*].phone`,
 * `rates["a.b"]`; `value` for a payload that is no object. The elements of an array share one path, so that a reader may
 * reorder or drop some. Two places never have the same path otherwise.
 */
export function memberPath(parent: string, key: string): string {
  if (!plainKey.test(key)) return `${parent}[${JSON.stringify(key)}]`;
  return parent === '' ? key : `${parent}.${key}`;
}

export function elementPath(parent: string): string {
  return `${parent}[*]`;
}

const plainKey = /^[\w$-]+$/;
