/**
 * A text of the application that looks like a ciphertext or hash of svc is published with a backslash in front: `\ENC(…)`. A
 * text that already begins so gets one more, and readers remove one: every text comes back unchanged.
 */
const looksLikeOurs = /^\\*(?:ENC|HASH)\(/;
const marked = /^\\+(?:ENC|HASH)\(/;

/** How texts that svc did not make are published, and how readers get them back. */
export const ownText = {
  /** A text that svc did not make, as it is published. */
  mark(text: string): string {
    return looksLikeOurs.test(text) ? `\\${text}` : text;
  },

  /** The original of a published text. */
  unmark(text: string): string {
    return text.startsWith('\\') && marked.test(text) ? text.slice(1) : text;
  },

  /**
   * Whether a JSON text may hold such a text. Each of the `sealed` texts stands once in `json`, so counting is enough and no
   * value is parsed.
   */
  mayBeIn(json: string, sealed: readonly string[]): boolean {
    let ofOurForm = 0;
    for (let bracket = json.indexOf('('); bracket !== -1; bracket = json.indexOf('(', bracket + 1))
      if (isOurForm(json, bracket)) ofOurForm++;
    return ofOurForm !== sealed.length;
  },

  /** A payload as JSON, with the application's own texts marked. `undefined` if it is empty. */
  markedJson(payload: unknown, sealed: readonly string[]): string | undefined {
    const ours = new Set(sealed);
    return JSON.stringify(payload, (_, value: unknown) =>
      typeof value === 'string' && !ours.has(value) ? ownText.mark(value) : value,
    );
  },
};

/** Whether the bracket belongs to a text of that form, or to a field name. */
function isOurForm(json: string, bracket: number): boolean {
  const last = json.charCodeAt(bracket - 1);
  if (last !== 0x43 && last !== 0x48) return false;
  const word = last === 0x43 ? 'ENC' : 'HASH';
  let start = bracket - word.length;
  if (!json.startsWith(word, start)) return false;
  while (json.charCodeAt(start - 1) === 0x5c) start--;
  return json.charCodeAt(start - 1) === 0x22;
}

/**
 * The path of a value in a payload, which ciphertexts of format v1 are bound to: `customer.email`, `items[*].phone`,
 * `rates["a.b"]`, or `value` for a payload that is not an object. The elements of an array share one path, so that a reader may
 * reorder or drop some. All other paths are unique.
 */
export function memberPath(parent: string, key: string): string {
  if (!plainKey.test(key)) return `${parent}[${JSON.stringify(key)}]`;
  return parent === '' ? key : `${parent}.${key}`;
}

export function elementPath(parent: string): string {
  return `${parent}[*]`;
}

const plainKey = /^[\w$-]+$/;

/** A value that JSON has as text only (bytes, a BigInt), for an event format with a native type. JSON gets the text. */
export class NativeValue {
  readonly #text: string;
  readonly #isBigInt: boolean;

  /** @param text of bytes their Base64 */
  constructor(text: string, type: 'bytes' | 'bigint') {
    this.#text = text;
    this.#isBigInt = type === 'bigint';
  }

  get value(): Buffer | bigint {
    return this.#isBigInt ? BigInt(this.#text) : Buffer.from(this.#text, 'base64');
  }

  toJSON(): string {
    return this.#text;
  }
}
