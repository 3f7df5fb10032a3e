import { compressions, saslMechanisms } from '../../ground/management.ts';
import { flag, integer, list, ms, oneOf, type Rows, secret, text } from './option.ts';

/** Where events go, how they get there, and what becomes of those that their topic did not take. */
export const brokerOptions = {
  /** What sends the events: `kafkajs` or `platformatic` (package `@platformatic/kafka`) to Kafka, `file` to a file per topic on this machine, `memory` keeps them for tests. */
  'svc.broker.client': oneOf(['kafkajs', 'platformatic', 'file', 'memory'], undefined, {
    registeredBy: 'registerBroker',
    defaultText: 'kafkajs where svc.broker.bootstrap-servers is set, else file',
  }),
  /** Addresses of Kafka brokers, each host:port. */
  'svc.broker.bootstrap-servers': list('host-and-port', [], { aliases: ['KAFKA_BROKERS'] }),
  /** Topic of every event whose target names none. */
  'svc.broker.topic': text('topic', { defaultText: 'none: required' }),
  /** Client id as the brokers see it in their logs, metrics and quotas. */
  'svc.broker.client-id': text('text', { default: 'svc' }),
  /** false: an async function resolves when its event is acknowledged, after `svc.broker.max-wait-ms` at the latest. true: nothing waits. Synchronous functions never wait. */
  'svc.broker.async-mode': flag(false),
  /** Longest wait of a captured call for the outcome of its event. Then the call returns what it returned, and the event goes on in the background; with `failOnError` it fails with `TimeoutException` (`SVC_PUBLISH_TIMEOUT`), and the event may still arrive. */
  'svc.broker.max-wait-ms': ms(1, 2_000),
  /** Longest wait for the answer of a broker to one request. */
  'svc.broker.request-timeout-ms': ms(1, 30_000),
  /** Longest wait for a connection to a broker. */
  'svc.broker.connection-timeout-ms': ms(1, 3_000),
  /** Who confirms an event before it counts as published: `all` replicas in sync, the leader alone (`1`), or nobody (`0`). Less than `all` loses events when a broker fails, and nothing tells of those lost. */
  'svc.broker.acks': oneOf(['all', '1', '0'], 'all'),
  /** Each batch has a number by which Kafka stores it once, however often it is sent (an idempotent producer). Needs `svc.broker.acks: all`. false: a batch whose answer was lost may be stored twice. */
  'svc.broker.idempotence': flag(true),
  /** How a send is compressed. `snappy` and `lz4` only with client `platformatic`; recovery reads all of them. */
  'svc.broker.compression': oneOf(compressions, 'none'),
  /** Sends to the broker at once, each a batch for one partition. Further events wait in the buffer. */
  'svc.broker.max-in-flight': integer(1, 1_000, { unit: 'sends', default: 8 }),
  /** Events in memory until they are acknowledged. One more goes to the next tier at once. */
  'svc.broker.buffer.max-events': integer(1, 1_000_000, { unit: 'events', default: 10_000 }),
  /** Bytes of events in memory until they are acknowledged. What exceeds them goes to the next tier at once. */
  'svc.broker.buffer.max-bytes': integer(1024 ** 2, 1024 ** 3, { unit: 'bytes', default: 32 * 1024 ** 2 }),
  /** Events in one send. */
  'svc.broker.batch.max-events': integer(1, 5_000, { unit: 'events', default: 500 }),
  /** Bytes in one send; a larger event is sent alone. Keep it below message.max.bytes of the brokers (1 MB by default). */
  'svc.broker.batch.max-bytes': integer(1024, 100 * 1024 ** 2, { unit: 'bytes', default: 900_000 }),
  /** How long an event waits at most for others to share its send, where its partition is busy or was sent to within that time; 5 ms where the last send was of one event. Then small sends to several partitions of a topic leave one after the other, within as long again. None waits where the partition has rested, or where 100 events or 128 KiB are there. With svc.broker.async-mode false: 2 ms where the last send was of 10 events or more, otherwise none. */
  'svc.broker.batch.linger-ms': integer(0, 60_000, { unit: 'ms', default: 20 }),
  /** What an event may take in all, retries among it. The last two seconds (a quarter of less than eight) are for the dead letter topic and the backup, where it goes when its topic has not acknowledged it by then. */
  'svc.broker.delivery-timeout-ms': ms(1, 30_000),
  /** Folder of the topic files of client `file`: `<path>/<topic>.ndjson`, one record a line. */
  'svc.broker.file.path': text('path', { default: './svc-topics' }),
  /** Encrypts the connection to the brokers. */
  'svc.broker.tls.enabled': flag(false),
  /** PEM file with the authorities to trust instead. */
  'svc.broker.tls.ca-file': text('path', { defaultText: 'the authorities that Node trusts' }),
  /** PEM file with the client certificate. Needs svc.broker.tls.key-file. */
  'svc.broker.tls.cert-file': text('path'),
  /** PEM file with the key of the client certificate. */
  'svc.broker.tls.key-file': text('path'),
  /** Name that the certificate of the broker must bear. */
  'svc.broker.tls.server-name': text('text', { defaultText: 'the host of the broker' }),
  /** How svc signs in to the brokers. `oauthbearer` takes a token, the others username and password. */
  'svc.broker.sasl.mechanism': oneOf(saslMechanisms),
  /** Name to sign in with. */
  'svc.broker.sasl.username': text('text'),
  /** Password to sign in with. Better as an environment variable than in a file. */
  'svc.broker.sasl.password': secret(),
  /** Where svc gets its tokens (OAuth client credentials), and new ones before they expire. Needs client-id and client-secret. */
  'svc.broker.sasl.oauthbearer.token-endpoint-url': text('url'),
  /** Client id at the token endpoint. */
  'svc.broker.sasl.oauthbearer.client-id': text('text'),
  /** Client secret at the token endpoint. Better as an environment variable than in a file. */
  'svc.broker.sasl.oauthbearer.client-secret': secret(),
  /** Scope to ask the token endpoint for. */
  'svc.broker.sasl.oauthbearer.scope': text('text'),
  /** File with the token, instead of an endpoint. Read again for each connection, as Kubernetes renews it. */
  'svc.broker.sasl.oauthbearer.token-file': text('path'),
  /** The token itself, instead of an endpoint. It is not renewed. */
  'svc.broker.sasl.oauthbearer.token': secret(),
  /** SASL extensions that go with the token, each name=value, such as logicalCluster=lkc-1. */
  'svc.broker.sasl.oauthbearer.extensions': list('name-and-value', []),
  /** Retries failed sends. When false a failed event goes to the next tier at once. */
  'svc.retry.enabled': flag(true),
  /** Retries after the first try, which is immediate. Events behind wait, so that their order is kept. */
  'svc.retry.max-attempts': integer(1, 100, { default: 3 }),
  /** Wait before the first retry. */
  'svc.retry.initial-interval': ms(1, 1_000),
  /** Growth of the wait from one retry to the next: 1 s, 2 s, 4 s by default. */
  'svc.retry.multiplier': { type: 'number', min: 1, max: 100, default: 2 },
  /** Longest wait between retries. */
  'svc.retry.max-interval': ms(1, 10_000),
  /** Makes each wait up to 20 % shorter or longer, so that many processes do not come back at once. */
  'svc.retry.jitter': flag(false),
  /** Dead letter topic of events that could not be sent. */
  'svc.broker.dlq-topic': text('topic', { defaultText: 'none: events go to the backup' }),
  /** Form of a dead letter: `operations` holds the event as a text, `recovery` as an object. `svc dlq` reads both. */
  'svc.broker.dlq-format': oneOf(['operations', 'recovery'], 'operations'),
  /** Folder of local backup files. Made when it is needed, open to its owner only (0700). */
  'svc.broker.dlq-backup-path': text('path', { default: './dlq-backup' }),
  /** Backup to local files, after S3 where that is enabled too. */
  'svc.broker.backup.local-enabled': flag(true),
  /** Backup to S3 or a compatible object store. Needs the package @aws-sdk/client-s3. */
  'svc.broker.backup.s3-enabled': flag(false),
  /** Bucket of the S3 backup. */
  'svc.broker.backup.s3-bucket': text('text'),
  /** Prefix of the object keys: `<prefix>/yyyy/MM/dd/<eventId>.json`. */
  'svc.broker.backup.s3-prefix': { type: 'string', default: 'dlq-backup' },
  /** Region of the bucket. Credentials are found by the AWS SDK as well. */
  'svc.broker.backup.s3-region': text('text', {
    defaultText: 'as the AWS SDK finds it (AWS_REGION, profile)',
  }),
  /** Address of a compatible store such as MinIO or Ceph; buckets are then named in the path. */
  'svc.broker.backup.s3-endpoint': text('url', { defaultText: 'AWS' }),
  /** What the local backup is written as. `journal`: segments, that many events share and that keep their order. `event`, `record`: a file an event, as long as few come at once: the event itself (`<eventId>.json`), or the event with reason and time (`<epoch_millis>.json`); no order is kept then. */
  'svc.broker.backup.format': oneOf(['journal', 'event', 'record'], 'journal'),
  /** Event files in the folder, with `format: event` or `record`. Further events are appended to segments. */
  'svc.broker.backup.max-files': integer(0, 1_000_000, { unit: 'files', default: 10_000 }),
  /** Most that the local backup may hold. Further events are lost, with the alert. */
  'svc.broker.backup.max-bytes': integer(1, 1024 ** 5, { unit: 'bytes', default: 10 * 1024 ** 3 }),
  /** When the cluster is back, a running process sends its local backup to the original topics by itself. */
  'svc.broker.backup.drain.enabled': flag(true),
  /** How many events of the backup are sent a second. With `drain.order: key` only those that a process left which is gone, and that no new event waits behind; the others are sent as fast as the cluster takes them. */
  'svc.broker.backup.drain.rate': integer(1, 1_000_000, { unit: 'events/s', default: 500 }),
  /** Whether events keep the order of their key over an outage. `key`: while events of a partition wait in the local backup, later ones of it go behind them. `none`: later ones go to the topic at once, and those in the backup arrive after them. */
  'svc.broker.backup.drain.order': oneOf(['key', 'none'], undefined, {
    defaultText: '`key`; `none` where `svc.broker.backup.format` is `event` or `record`',
  }),
} as const satisfies Rows;
