/** The field of a sealed value. Format v1 binds the ciphertext to it. */
export interface SealedField {
  /** `undefined`: the default key. An unknown id is an error, never the default key. */
  readonly keyId: string | undefined;
  readonly eventType: string;
  /** The path in the published payload. Only the walk in `protect.ts` builds it: readers must derive the same. */
  readonly path: string;
}

/**
 * PORT: encrypts and hashes single values. Synchronous, on the caller's path: keys are fetched and renewed beforehand. Throws
 * an `SvcError` (`SVC_PROTECT_KEY_UNAVAILABLE`, …) that names no value, and never returns its input. Called from one thread,
 * any number of times per event.
 */
export interface Sealer {
  encrypt(plain: string, field: SealedField): string;
  /** `HASH(…)`: deterministic for the same value and key. */
  hash(plain: string): string;
}
