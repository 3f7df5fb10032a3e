import type { Inbox } from './consume/inbox.ts';

export type { ConsumeOptions, Consumption } from './consume/consume-once.ts';
export { consumeOnce } from './consume/consume-once.ts';
export type {
  ConsumedEvent,
  ConsumedRecord,
  DeadLetterOptions,
  EventHandler,
  EventHandlers,
  EventInfo,
  Upcast,
  Upcasts,
} from './consume/handle-event.ts';
export { RefusedEvent } from './consume/handle-event.ts';
export type {
  Inbox,
  InboxEvent,
  InboxOnce,
  InboxOptions,
  InboxStore,
  OnceResult,
} from './consume/inbox.ts';
export { createInbox } from './consume/inbox.ts';
export type {
  BatchResult,
  CipherPlace,
  DecryptFailure,
  DecryptionKeyOptions,
  DecryptionKeys,
  DecryptOptions,
  DecryptResult,
  EventRecord,
  FieldChoice,
} from './consumer/decrypt-fields.ts';
export {
  createDecryptionKeys,
  decryptBatch,
  decryptFields,
  readEnvelope,
  tryDecryptFields,
} from './consumer/decrypt-fields.ts';
export type { EventCalls, KeyCacheOptions } from './protect/keys/key-cache.ts';
export type {
  DataKey,
  EnvelopeKeyProvider,
  KeyProvider,
  StaticKeyProvider,
} from './protect/keys/key-provider.ts';
export type { ConfiguredKey } from './protect/keys/key-ring.ts';
export { createStaticKeyProvider } from './protect/keys/key-ring.ts';

/** The transaction type of an inbox's handlers: `InboxTransaction<typeof inbox>`. */
export type InboxTransaction<One> = One extends Inbox<infer Tx> ? Tx : never;
