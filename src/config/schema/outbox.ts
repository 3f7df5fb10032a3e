import { maxTimerMs, type Option } from './option.ts';

/** Events that wait in a table of the application's database, and what sends them from there. */
export const outboxOptions = [
  {
    name: 'svc.outbox.enabled',
    type: 'boolean',
    default: false,
    description:
      'Transactional outbox: targets with `outbox` store their events in the transaction of the call, and they are sent from there.',
  },
  {
    name: 'svc.outbox.datasource.url',
    type: 'string',
    format: 'datasource-url',
    secret: true,
    shared: { variable: 'DATABASE_URL', switch: 'svc.outbox.enabled' },
    defaultText: 'the variable `DATABASE_URL`',
    description:
      'Database of the outbox table, which is that of the application: svc opens connections of its own to it.',
  },
  {
    name: 'svc.outbox.table',
    type: 'string',
    format: 'table',
    default: 'svc_outbox_events',
    description: 'Table of the outbox; with its schema as in `app.svc_outbox_events`.',
  },
  {
    name: 'svc.outbox.initialize-schema',
    type: 'enum',
    values: ['embedded', 'always', 'never'],
    default: 'embedded',
    description:
      'When svc makes the table where there is none: `embedded` in SQLite only, `always`, or `never`. Else a missing table is an error.',
  },
  {
    name: 'svc.outbox.on-no-transaction',
    type: 'enum',
    values: ['error', 'autocommit'],
    default: 'error',
    description:
      'What becomes of a call outside any transaction: `error` lets it fail, `autocommit` stores its event by itself; so of a call whose own transaction commits before what it returns is known.',
  },
  {
    name: 'svc.outbox.publisher-enabled',
    type: 'boolean',
    default: true,
    description:
      'Sends the rows from this process; false leaves that to `svc relay`, or to another tool such as Debezium.',
  },
  {
    name: 'svc.outbox.poll-interval-ms',
    type: 'integer',
    unit: 'ms',
    min: 1,
    max: maxTimerMs,
    default: 1_000,
    description: 'Wait between two looks at the table.',
  },
  {
    name: 'svc.outbox.batch-size',
    type: 'integer',
    unit: 'rows',
    min: 1,
    max: 1_000,
    default: 100,
    description: 'Rows taken at once.',
  },
  {
    name: 'svc.outbox.dynamic-batching-enabled',
    type: 'boolean',
    default: true,
    description: 'More rows are taken at once while many wait.',
  },
  {
    name: 'svc.outbox.max-retries',
    type: 'integer',
    min: 1,
    max: 1_000,
    default: 3,
    description:
      'Tries of one row that may fail by its own fault; then it is FAILED. While the broker is away no row loses a try.',
  },
  {
    name: 'svc.outbox.on-failed',
    type: 'enum',
    values: ['skip', 'block'],
    default: 'skip',
    description:
      'What becomes of the later rows of an aggregate that has a FAILED one: `skip` sends them, `block` keeps them back until that row is retried or discarded.',
  },
  {
    name: 'svc.outbox.send-timeout-seconds',
    type: 'integer',
    unit: 's',
    min: 1,
    max: 86_400,
    default: 10,
    description: 'Longest wait for one send.',
  },
  {
    name: 'svc.outbox.circuit-breaker-enabled',
    type: 'boolean',
    default: true,
    description: 'Stops sending while the broker is away.',
  },
  {
    name: 'svc.outbox.cleanup-enabled',
    type: 'boolean',
    default: false,
    description:
      'Deletes rows whose time is over: svc.outbox.retention-days, svc.outbox.failed-retention-days.',
  },
  {
    name: 'svc.outbox.retention-days',
    type: 'integer',
    unit: 'days',
    min: 0,
    max: 36_500,
    default: 7,
    description:
      'How long published rows are kept, with svc.outbox.cleanup-enabled. 0, also without it: a row is deleted as soon as it is sent; where svc.outbox.publisher-enabled is false, in the transaction that wrote it (docs/debezium.md).',
  },
  {
    name: 'svc.outbox.failed-retention-days',
    type: 'integer',
    unit: 'days',
    min: 1,
    max: 36_500,
    default: 30,
    description: 'How long rows are kept that are FAILED, with svc.outbox.cleanup-enabled.',
  },
] as const satisfies readonly Option[];
