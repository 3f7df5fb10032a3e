export type { KeyCacheOptions } from '../protect/key-cache-options.ts';
export type {
  DataKey,
  EnvelopeKeyProvider,
  KeyProvider,
  StaticKeyProvider,
} from '../protect/key-provider.ts';
export type { ConfiguredKey } from '../protect/key-ring.ts';
export { createStaticKeyProvider } from '../protect/static-key-provider.ts';
export type { BatchResult } from './decrypt-batch.ts';
export { decryptBatch } from './decrypt-batch.ts';
export type { DecryptFailure, DecryptOptions, DecryptResult } from './decrypt-fields.ts';
export { decryptFields, tryDecryptFields } from './decrypt-fields.ts';
export type { CipherPlace, DecryptionKeyOptions, DecryptionKeys, EventCalls } from './decryption-keys.ts';
export { createDecryptionKeys } from './decryption-keys.ts';
export type { FieldChoice } from './field-choice.ts';
