import { compressions, saslMechanisms } from '../../ground/management.ts';
import { flag, integer, list, ms, oneOf, type Rows, secret, text } from './option.ts';

/** Where events go, how they get there, and what becomes of those that their topic did not take. */
export const brokerOptions = {
  /** Client that sends the events. `kafkajs` and `platformatic` (package `@platformatic/kafka`) send to Kafka. `file` writes a file per topic on this machine. `memory` keeps events for tests. */
  'svc.broker.client': oneOf(['kafkajs', 'platformatic', 'file', 'memory'], undefined, {
    registeredBy: 'registerBroker',
    defaultText: 'kafkajs where svc.broker.bootstrap-servers is set, else file',
  }),
  /** Addresses of Kafka brokers, as host:port. */
  'svc.broker.bootstrap-servers': list('host-and-port', [], { aliases: ['KAFKA_BROKERS'] }),
  /** Topic of events whose target doesn't name one. */
  'svc.broker.topic': text('topic', { defaultText: 'none: required' }),
  /** Client id in the logs, metrics and quotas of the brokers. */
  'svc.broker.client-id': text('text', { default: 'svc' }),
  /** false: a captured async function resolves once its event is acknowledged, or after `svc.broker.max-wait-ms`. true: calls don't wait. Synchronous functions never wait. */
  'svc.broker.async-mode': flag(false),
  /** Longest wait of a captured call for its event. After it, the call returns normally and the event continues in the background. With `failOnError`, the call fails with `TimeoutException` (`SVC_PUBLISH_TIMEOUT`), and the event may still arrive. */
  'svc.broker.max-wait-ms': ms(1, 2_000),
  /** Longest wait for a broker to answer a request. */
  'svc.broker.request-timeout-ms': ms(1, 30_000),
  /** Longest wait for a connection to a broker. */
  'svc.broker.connection-timeout-ms': ms(1, 3_000),
  /** Replicas that must confirm an event: `all` in-sync ones, the leader (`1`), or none (`0`). Less than `all` loses events without notice when a broker fails. */
  'svc.broker.acks': oneOf(['all', '1', '0'], 'all'),
  /** Idempotent producer: Kafka stores each batch once, however often svc sends it. Needs `svc.broker.acks: all`. If false, a batch whose answer was lost may be stored twice. */
  'svc.broker.idempotence': flag(true),
  /** Compression of sends. `snappy` and `lz4` need the client `platformatic`. Recovery reads all of them. */
  'svc.broker.compression': oneOf(compressions, 'none'),
  /** Concurrent sends, each a batch for one partition. Further events wait in the buffer. */
  'svc.broker.max-in-flight': integer(1, 1_000, { unit: 'sends', default: 8 }),
  /** Events in memory that aren't acknowledged yet. Further events go to the next tier at once. */
  'svc.broker.buffer.max-events': integer(1, 1_000_000, { unit: 'events', default: 10_000 }),
  /** Bytes of events in memory that aren't acknowledged yet. Further events go to the next tier at once. */
  'svc.broker.buffer.max-bytes': integer(1024 ** 2, 1024 ** 3, { unit: 'bytes', default: 32 * 1024 ** 2 }),
  /** Events per send. */
  'svc.broker.batch.max-events': integer(1, 5_000, { unit: 'events', default: 500 }),
  /** Bytes per send. A larger event is sent alone. Stay below `message.max.bytes` of the brokers (1 MB by default). */
  'svc.broker.batch.max-bytes': integer(1024, 100 * 1024 ** 2, { unit: 'bytes', default: 900_000 }),
  /** Longest wait of an event for others to share its send, if its partition is busy or was sent to within that time. The wait is 5 ms if the last send had one event. Small sends to several partitions of a topic then leave one after the other, within as long again. Events don't wait if the partition was idle, or from 100 events or 128 KiB on. With `svc.broker.async-mode: false` the wait is 2 ms if the last send had 10 events or more, otherwise none. */
  'svc.broker.batch.linger-ms': integer(0, 60_000, { unit: 'ms', default: 20 }),
  /** Total time for an event, retries included. The last two seconds (a quarter of less than eight) are reserved for the dead letter topic and the backup. */
  'svc.broker.delivery-timeout-ms': ms(1, 30_000),
  /** Folder of the topic files with client `file`: `<path>/<topic>.ndjson`, one record a line. */
  'svc.broker.file.path': text('path', { default: './svc-topics' }),
  /** Encrypts the connections to the brokers. */
  'svc.broker.tls.enabled': flag(false),
  /** PEM file of certificate authorities to trust. */
  'svc.broker.tls.ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** PEM file of the client certificate. Needs `svc.broker.tls.key-file`. */
  'svc.broker.tls.cert-file': text('path'),
  /** PEM file of the client certificate's key. */
  'svc.broker.tls.key-file': text('path'),
  /** Name that the broker's certificate must have. */
  'svc.broker.tls.server-name': text('text', { defaultText: 'the host of the broker' }),
  /** SASL mechanism. `oauthbearer` uses a token, the others a user name and password. */
  'svc.broker.sasl.mechanism': oneOf(saslMechanisms),
  /** SASL user name. */
  'svc.broker.sasl.username': text('text'),
  /** SASL password. Prefer the environment variable to the file. */
  'svc.broker.sasl.password': secret(),
  /** Endpoint that issues tokens (OAuth client credentials). svc renews them before they expire. Needs `client-id` and `client-secret`. */
  'svc.broker.sasl.oauthbearer.token-endpoint-url': text('url'),
  /** Client id for the token endpoint. */
  'svc.broker.sasl.oauthbearer.client-id': text('text'),
  /** Client secret for the token endpoint. Prefer the environment variable to the file. */
  'svc.broker.sasl.oauthbearer.client-secret': secret(),
  /** Scope to request from the token endpoint. */
  'svc.broker.sasl.oauthbearer.scope': text('text'),
  /** File with the token, instead of an endpoint. svc reads it for each connection, as Kubernetes renews it. */
  'svc.broker.sasl.oauthbearer.token-file': text('path'),
  /** The token, instead of an endpoint. svc doesn't renew it. */
  'svc.broker.sasl.oauthbearer.token': secret(),
  /** SASL extensions for the token, as name=value, such as `logicalCluster=lkc-1`. */
  'svc.broker.sasl.oauthbearer.extensions': list('name-and-value', []),
  /** Retries failed sends. If false, a failed event goes to the next tier at once. */
  'svc.retry.enabled': flag(true),
  /** Retries after the first send. Later events wait, so that the order is kept. */
  'svc.retry.max-attempts': integer(1, 100, { default: 3 }),
  /** Wait before the first retry. */
  'svc.retry.initial-interval': ms(1, 1_000),
  /** Factor from one wait to the next: 1 s, 2 s, 4 s by default. */
  'svc.retry.multiplier': { type: 'number', min: 1, max: 100, default: 2 },
  /** Longest wait between retries. */
  'svc.retry.max-interval': ms(1, 10_000),
  /** Varies each wait by up to 20 %, so that many processes don't retry at once. */
  'svc.retry.jitter': flag(false),
  /** Dead letter topic for events that could not be sent. */
  'svc.broker.dlq-topic': text('topic', { defaultText: 'none: events go to the backup' }),
  /** Format of dead letters: `operations` holds the event as text, `recovery` as an object. `svc dlq` reads both. */
  'svc.broker.dlq-format': oneOf(['operations', 'recovery'], 'operations'),
  /** Folder of the local backup. svc creates it on demand, for its owner only (0700). */
  'svc.broker.dlq-backup-path': text('path', { default: './dlq-backup' }),
  /** Backup to local files; after S3, if S3 is enabled too. */
  'svc.broker.backup.local-enabled': flag(true),
  /** Backup to S3 or a compatible store. Needs the package `@aws-sdk/client-s3`. */
  'svc.broker.backup.s3-enabled': flag(false),
  /** Bucket of the S3 backup. */
  'svc.broker.backup.s3-bucket': text('text'),
  /** Prefix of object keys: `<prefix>/yyyy/MM/dd/<eventId>.json`. */
  'svc.broker.backup.s3-prefix': { type: 'string', default: 'dlq-backup' },
  /** Region of the bucket. The AWS SDK finds the credentials. */
  'svc.broker.backup.s3-region': text('text', {
    defaultText: 'as the AWS SDK finds it (AWS_REGION, profile)',
  }),
  /** Address of a compatible store, such as MinIO or Ceph. The bucket name goes into the path. */
  'svc.broker.backup.s3-endpoint': text('url', { defaultText: 'AWS' }),
  /** Format of the local backup. `journal`: segments that many events share, in order. `event`: a file with each event (`<eventId>.json`). `record`: a file with each event, the reason and the time (`<epoch_millis>.json`). `event` and `record` keep no order, and use segments if many events come at once. */
  'svc.broker.backup.format': oneOf(['journal', 'event', 'record'], 'journal'),
  /** Event files in the folder, with `format: event` or `record`. Further events go to segments. */
  'svc.broker.backup.max-files': integer(0, 1_000_000, { unit: 'files', default: 10_000 }),
  /** Size limit of the local backup. Further events are lost, with an alert. */
  'svc.broker.backup.max-bytes': integer(1, 1024 ** 5, { unit: 'bytes', default: 10 * 1024 ** 3 }),
  /** A running process sends its local backup to the original topics when Kafka is back. */
  'svc.broker.backup.drain.enabled': flag(true),
  /** Events of the backup sent per second. With `drain.order: key`, this limits only events that an ended process left and that no new event waits behind. All others are sent at full speed. */
  'svc.broker.backup.drain.rate': integer(1, 1_000_000, { unit: 'events/s', default: 500 }),
  /** Order over an outage. `key`: while events of a partition wait in the local backup, its later events queue behind them. `none`: later events go to the topic at once, and those in the backup arrive after them. */
  'svc.broker.backup.drain.order': oneOf(['key', 'none'], undefined, {
    defaultText: '`key`; `none` where `svc.broker.backup.format` is `event` or `record`',
  }),
} as const satisfies Rows;
