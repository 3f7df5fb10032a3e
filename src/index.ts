export type { PublishEventOptions } from './capture/declare/declarations.ts';
export { PublishEvent, publishEvent } from './capture/declare/publish-event.ts';
export type { Selector } from './capture/expression/compile.ts';
export type { SvcConfig, SvcTarget } from './config/define-config.ts';
export { defineConfig } from './config/define-config.ts';
export type { Phase } from './config/schema/target.ts';
export type { ContextValues } from './context/request.ts';
export { runWithContext, setContext } from './context/request.ts';
export type { ErrorCode } from './ground/errors.ts';
export { SvcError } from './ground/errors.ts';
export type { Severity } from './ground/event-fields.ts';
export type { OwnS3Client } from './ground/own-parts.ts';
export { registerS3Client } from './ground/own-parts.ts';
export type { PiiLevel, PiiRules, PiiStrategy, PiiType, RuleParts } from './ground/pii-rule.ts';
export { version } from './ground/version.ts';
export type { LineFields, PinoLogger, SvcLogger } from './observe/logger.ts';
export { setLogger } from './observe/logger.ts';
export type { Outcome } from './observe/outcomes.ts';
export type { OutboxDataSource, OutboxExecutor, OutboxPort, TransactionOf } from './outbox/api/executor.ts';
export type { Outbox } from './outbox/api/outbox.ts';
export { outbox } from './outbox/api/outbox.ts';
export type { OutboxEvent } from './outbox/api/outbox-event.ts';
export type { CurrentTransaction } from './outbox/api/running-outbox.ts';
export type {
  DataKey,
  EnvelopeKeyProvider,
  KeyProvider,
  StaticKeyProvider,
} from './protect/keys/key-provider.ts';
export { registerKeyProvider } from './protect/keys/key-provider.ts';
export type { PiiFieldDecorator, PiiFieldOptions } from './protect/marks/policy.ts';
export { PiiField } from './protect/marks/policy.ts';
export type { Masker } from './protect/mask.ts';
export { registerMasker } from './protect/mask.ts';
export type { LostEvent, LostEventListener } from './publish/api/caller-wait.ts';
export { onEventLost } from './publish/api/caller-wait.ts';
export { flush, invalidateEncryptionKeys, publish } from './publish/api/publish.ts';
export type {
  Broker,
  BrokerRecord,
  BrokerTraffic,
  ClusterInfo,
  SendFailure,
  SendFailureKind,
  SendResult,
} from './publish/broker.ts';
export type { BrokerFactory, OwnBrokerSettings } from './publish/own-broker.ts';
export { registerBroker } from './publish/own-broker.ts';
export type { Producer, Published, PublishOptions } from './publish/publisher.ts';
export type { BackupEvent, EventBackupStrategy } from './publish/tier.ts';
export { registerBackupStrategy } from './publish/tier.ts';
