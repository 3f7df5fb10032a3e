import type { Option } from './option.ts';

const gibibyte = 1024 ** 3;

/** What becomes of events that their topic did not take. */
export const backupOptions = [
  {
    name: 'svc.broker.dlq-topic',
    type: 'string',
    format: 'topic',
    defaultText: 'none: events go to the backup',
    description: 'Dead letter topic of events that could not be sent.',
  },
  {
    name: 'svc.broker.dlq-format',
    type: 'enum',
    values: ['operations', 'recovery'],
    default: 'operations',
    description:
      'Form of a dead letter: `operations` holds the event as a text, `recovery` as an object. `svc dlq` reads both.',
  },
  {
    name: 'svc.broker.dlq-backup-path',
    type: 'string',
    format: 'path',
    default: './dlq-backup',
    description: 'Folder of local backup files. Made when it is needed, open to its owner only (0700).',
  },
  {
    name: 'svc.broker.backup.local-enabled',
    type: 'boolean',
    default: true,
    description: 'Backup to local files, after S3 where that is enabled too.',
  },
  {
    name: 'svc.broker.backup.s3-enabled',
    type: 'boolean',
    default: false,
    description: 'Backup to S3 or a compatible object store. Needs the package @aws-sdk/client-s3.',
  },
  {
    name: 'svc.broker.backup.s3-bucket',
    type: 'string',
    format: 'text',
    description: 'Bucket of the S3 backup.',
  },
  {
    name: 'svc.broker.backup.s3-prefix',
    type: 'string',
    default: 'dlq-backup',
    description: 'Prefix of the object keys: `<prefix>/yyyy/MM/dd/<eventId>.json`.',
  },
  {
    name: 'svc.broker.backup.s3-region',
    type: 'string',
    format: 'text',
    defaultText: 'as the AWS SDK finds it (AWS_REGION, profile)',
    description: 'Region of the bucket. Credentials are found by the AWS SDK as well.',
  },
  {
    name: 'svc.broker.backup.s3-endpoint',
    type: 'string',
    format: 'url',
    defaultText: 'AWS',
    description: 'Address of a compatible store such as MinIO or Ceph; buckets are then named in the path.',
  },
  {
    name: 'svc.broker.backup.format',
    type: 'enum',
    values: ['event', 'record'],
    default: 'event',
    description:
      'What a backup file holds: `event` the event itself (`<eventId>.json`), `record` the event with reason and time (`<epoch_millis>.json`).',
  },
  {
    name: 'svc.broker.backup.max-files',
    type: 'integer',
    unit: 'files',
    min: 0,
    max: 1_000_000,
    default: 10_000,
    description:
      'Event files in the folder. Further events are appended to segment files, many events a file.',
  },
  {
    name: 'svc.broker.backup.max-bytes',
    type: 'integer',
    unit: 'bytes',
    min: 1,
    max: 1024 ** 5,
    default: 10 * gibibyte,
    description: 'Most that the local backup may hold. Further events are lost, with the alert.',
  },
  {
    name: 'svc.broker.backup.drain.enabled',
    type: 'boolean',
    default: true,
    description:
      'When the cluster is back, a running process sends its local backup to the original topics by itself.',
  },
  {
    name: 'svc.broker.backup.drain.rate',
    type: 'integer',
    unit: 'events/s',
    min: 1,
    max: 1_000_000,
    default: 500,
    description:
      'How many events of the backup are sent a second. With `drain.order: key` only those that a process left which is gone, and that no new event waits behind; the others are sent as fast as the cluster takes them.',
  },
  {
    name: 'svc.broker.backup.drain.order',
    type: 'enum',
    values: ['key', 'none'],
    default: 'key',
    description:
      'Whether events keep the order of their key over an outage. `key`: while events of a partition wait in the local backup, later ones of it go behind them. `none`: later ones go to the topic at once, and those in the backup arrive after them.',
  },
] as const satisfies readonly Option[];
