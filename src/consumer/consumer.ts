export type { KeyCacheOptions } from '../protect/key-cache-options.ts';
export type {
  DataKey,
  EnvelopeKeyProvider,
  KeyProvider,
  StaticKeyProvider,
} from '../protect/key-provider.ts';
export type { ConfiguredKey } from '../protect/key-ring.ts';
export { createStaticKeyProvider } from '../protect/static-key-provider.ts';
export type { DecryptFailure, DecryptOptions, DecryptResult } from './decrypt-fields.ts';
export { decryptFields, tryDecryptFields } from './decrypt-fields.ts';
export type { CipherPlace, DecryptionKeyOptions, DecryptionKeys } from './decryption-keys.ts';
export { createDecryptionKeys } from './decryption-keys.ts';
