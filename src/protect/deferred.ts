import { nodeCrypto } from '../ground/builtins.ts';
import { SvcError } from '../ground/errors.ts';
import type { SealedField, Sealer } from './sealer.ts';

/**
 * A payload that was read, and whose key cannot be had for now. Whoever knows nothing of waiting refuses the event, as with any
 * other error. It holds values in clear: in memory only, and in no text.
 */
export class UnsealedError<Sealed> extends SvcError {
  /** What the event is once the key is there; throws the reason again until then. */
  readonly seal: () => Sealed;

  constructor({ code, message, name }: SvcError, seal: () => Sealed) {
    super(code, message, { name });
    // In no dump of the error.
    Object.defineProperty(this, 'seal', { enumerable: false });
    this.seal = seal;
  }
}

interface Deferred {
  readonly token: string;
  readonly plain: string;
  readonly field: SealedField;
}

/** Seals the values of one event, and leaves tokens for those whose key is not there. */
export class DeferringSealer implements Sealer {
  readonly hash: Sealer['hash'];
  readonly #sealer: Sealer;
  readonly #deferred: Deferred[] = [];
  #reason: SvcError | undefined;

  constructor(sealer: Sealer) {
    this.#sealer = sealer;
    this.hash = (plain) => sealer.hash(plain);
  }

  /** Why a key is missing; `undefined`: none is. */
  get reason(): SvcError | undefined {
    return this.#reason;
  }

  encrypt(plain: string, field: SealedField): string {
    try {
      return this.#sealer.encrypt(plain, field);
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'SVC_PROTECT_KEY_UNAVAILABLE') throw error;
      this.#reason ??= error;
      const token = `ENC(${nodeCrypto().randomUUID()})`;
      const { keyId, eventType, path } = field;
      this.#deferred.push({ token, plain, field: { keyId, eventType, path } });
      return token;
    }
  }

  /** Puts ciphertexts in the place of the tokens: of all or of none, where it throws. */
  fill(payload: Record<string, unknown>, sealed: string[]): void {
    const texts = new Map(
      this.#deferred.map(({ token, plain, field }) => [token, this.#sealer.encrypt(plain, field)]),
    );
    replaceIn(payload, texts);
    replaceIn(sealed, texts);
  }
}

/** In the copy that the walk has made. */
function replaceIn(parts: Record<string, unknown> | unknown[], texts: ReadonlyMap<string, string>): void {
  const all = parts as Record<string, unknown>;
  for (const key of Object.keys(all)) {
    const part = all[key];
    if (typeof part === 'string') {
      const text = texts.get(part);
      if (text !== undefined) all[key] = text;
    } else if (typeof part === 'object' && part !== null) replaceIn(part as Record<string, unknown>, texts);
  }
}
