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
