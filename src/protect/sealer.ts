/** Which value is sealed: an encrypted one may be bound to its place. */
export interface SealedField {
  /** `undefined`: the default key. An unknown id is an error, never the default key. */
  readonly keyId: string | undefined;
  readonly eventType: string;
  /** Where the value stands in the published payload, made by the walk in `protect.ts` and by nothing else: readers must find the same. */
  readonly path: string;
}

/**
 * PORT: encrypts and hashes single values. Synchronous, on the caller's path: keys are fetched and renewed beforehand.
 *
 * Throws an `SvcError` (`SVC_PROTECT_KEY_UNAVAILABLE`, …) that names no value, and never returns what it was given.
 * Called from one thread, any number of times per event.
 */
export interface Sealer {
  /** `ENC(…)` */
  encrypt(plain: string, field: SealedField): string;
  /** `HASH(…)`: the same text for the same value and key. */
  hash(plain: string): string;
}
