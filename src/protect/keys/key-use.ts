import { SvcError } from '../../ground/errors.ts';

/**
 * Values that one key may encrypt: with random IVs of 96 bits, more of them make an IV that comes twice too likely (NIST SP
 * 800-38D, 8.3), and a second use of one gives both values away.
 */
export const mostMessages: number = 2 ** 32;

/** A key that has encrypted half of what it may, or all. */
export interface KeyUse {
  readonly keyId: string;
  readonly messages: number;
  readonly isUsedUp: boolean;
}

export interface KeyUseOptions {
  /** Default and maximum: 2^32. */
  readonly maxMessages?: number | undefined;
  /** Told once at half of it, and once when it is refused. Default: nobody. */
  readonly onWorn?: ((use: KeyUse) => void) | undefined;
}

/** Counts what one key encrypts, in this process: an integer and a comparison a value. */
export class KeyCounter {
  #messages = 0;
  /** Nothing to do up to here. */
  #limit: number;
  #told: 'nothing' | 'half' | 'all' = 'nothing';
  readonly #keyId: string;
  readonly #most: number;
  readonly #onWorn: KeyUseOptions['onWorn'];

  constructor(keyId: string, { maxMessages = mostMessages, onWorn }: KeyUseOptions) {
    this.#keyId = keyId;
    this.#most = Math.min(maxMessages, mostMessages);
    this.#limit = Math.ceil(this.#most / 2);
    this.#onWorn = onWorn;
  }

  get isUsedUp(): boolean {
    return this.#messages >= this.#most;
  }

  /** Throws what `count` would throw now. */
  check(): void {
    if (this.isUsedUp) throw usedUp(this.#keyId, this.#most);
  }

  /** Before each value. Throws `SVC_PROTECT_KEY_USED_UP` for the first one too many. */
  count(messages = 1): void {
    const after = this.#messages + messages;
    if (after > this.#limit) this.#passLimit(after);
    this.#messages = after;
  }

  #passLimit(after: number): void {
    const isUsedUp = after > this.#most;
    const tell = isUsedUp ? 'all' : 'half';
    this.#limit = this.#most;
    if (tell !== this.#told) {
      this.#told = tell;
      this.#onWorn?.({ keyId: this.#keyId, messages: this.#messages, isUsedUp });
    }
    if (isUsedUp) throw usedUp(this.#keyId, this.#most);
  }
}

function usedUp(keyId: string, most: number): SvcError {
  return new SvcError(
    'SVC_PROTECT_KEY_USED_UP',
    `the encryption key "${keyId}" has encrypted ${most} values, as many as one key may: make a new one the primary key`,
  );
}
