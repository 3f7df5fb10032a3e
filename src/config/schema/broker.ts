import { maxTimerMs, type Option } from './option.ts';

/** Where events go and how they get there. */
export const brokerOptions = [
  {
    name: 'svc.broker.client',
    type: 'enum',
    values: ['kafkajs', 'platformatic', 'file', 'memory'],
    registeredBy: 'registerBroker',
    defaultText: 'kafkajs where svc.broker.bootstrap-servers is set, else file',
    description:
      'What sends the events: `kafkajs` or `platformatic` (package `@platformatic/kafka`) to Kafka, `file` to a file per topic on this machine, `memory` keeps them for tests.',
  },
  {
    name: 'svc.broker.bootstrap-servers',
    type: 'list',
    format: 'host-and-port',
    default: [],
    aliases: ['KAFKA_BROKERS'],
    description: 'Addresses of Kafka brokers, each host:port.',
  },
  {
    name: 'svc.broker.topic',
    type: 'string',
    format: 'topic',
    defaultText: 'none: required',
    description: 'Topic of every event whose target names none.',
  },
  {
    name: 'svc.broker.client-id',
    type: 'string',
    format: 'text',
    default: 'svc',
    description: 'Client id as the brokers see it in their logs, metrics and quotas.',
  },
  {
    name: 'svc.broker.async-mode',
    type: 'boolean',
    default: false,
    description:
      'false: an async function resolves when its event is acknowledged, after `svc.broker.max-wait-ms` at the latest. true: nothing waits. Synchronous functions never wait.',
  },
  {
    name: 'svc.broker.max-wait-ms',
    type: 'integer',
    unit: 'ms',
    min: 1,
    max: maxTimerMs,
    default: 2_000,
    description:
      'Longest wait of a captured call for the outcome of its event. Then the call returns what it returned, and the event goes on in the background; with `failOnError` it fails with `TimeoutException` (`SVC_PUBLISH_TIMEOUT`), and the event may still arrive.',
  },
  {
    name: 'svc.broker.request-timeout-ms',
    type: 'integer',
    unit: 'ms',
    min: 1,
    max: maxTimerMs,
    default: 30_000,
    description: 'Longest wait for the answer of a broker to one request.',
  },
  {
    name: 'svc.broker.connection-timeout-ms',
    type: 'integer',
    unit: 'ms',
    min: 1,
    max: maxTimerMs,
    default: 3_000,
    description: 'Longest wait for a connection to a broker.',
  },
  {
    name: 'svc.broker.acks',
    type: 'enum',
    values: ['all', '1', '0'],
    default: 'all',
    description:
      'Who confirms an event before it counts as published: `all` replicas in sync, the leader alone (`1`), or nobody (`0`). Less than `all` loses events when a broker fails, and nothing tells of those lost.',
  },
  {
    name: 'svc.broker.compression',
    type: 'enum',
    values: ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
    default: 'none',
    description:
      'How a send is compressed. `snappy` and `lz4` only with client `platformatic`; recovery reads all of them.',
  },
  {
    name: 'svc.broker.max-in-flight',
    type: 'integer',
    unit: 'sends',
    min: 1,
    max: 1_000,
    default: 8,
    description:
      'Sends to the broker at once, each a batch for one partition. Further events wait in the buffer.',
  },
  {
    name: 'svc.broker.buffer.max-events',
    type: 'integer',
    unit: 'events',
    min: 1,
    max: 1_000_000,
    default: 10_000,
    description: 'Events in memory until they are acknowledged. One more goes to the next tier at once.',
  },
  {
    name: 'svc.broker.buffer.max-bytes',
    type: 'integer',
    unit: 'bytes',
    min: 1_048_576,
    max: 1_073_741_824,
    default: 33_554_432,
    description:
      'Bytes of events in memory until they are acknowledged. What exceeds them goes to the next tier at once.',
  },
  {
    name: 'svc.broker.batch.max-events',
    type: 'integer',
    unit: 'events',
    min: 1,
    max: 5_000,
    default: 500,
    description: 'Events in one send.',
  },
  {
    name: 'svc.broker.batch.max-bytes',
    type: 'integer',
    unit: 'bytes',
    min: 1_024,
    max: 104_857_600,
    default: 900_000,
    description:
      'Bytes in one send; a larger event is sent alone. Keep it below message.max.bytes of the brokers (1 MB by default).',
  },
  {
    name: 'svc.broker.batch.linger-ms',
    type: 'integer',
    unit: 'ms',
    min: 0,
    max: 60_000,
    default: 20,
    description:
      'How long an event waits at most for others to share its send, where its partition is busy or was sent to within that time; 5 ms where the last send was of one event. Then small sends to several partitions of a topic leave one after the other, within as long again. None waits where the partition has rested, or where 100 events or 128 KiB are there. With svc.broker.async-mode false: 2 ms where the last send was of 10 events or more, otherwise none.',
  },
  {
    name: 'svc.broker.delivery-timeout-ms',
    type: 'integer',
    unit: 'ms',
    min: 1,
    max: maxTimerMs,
    default: 30_000,
    description:
      'What an event may take in all, retries among it. The last two seconds (a quarter of less than eight) are for the dead letter topic and the backup, where it goes when its topic has not acknowledged it by then.',
  },
  {
    name: 'svc.broker.file.path',
    type: 'string',
    format: 'path',
    default: './svc-topics',
    description: 'Folder of the topic files of client `file`: `<path>/<topic>.ndjson`, one record a line.',
  },
] as const satisfies readonly Option[];
