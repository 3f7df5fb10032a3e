import { flag, integer, ms, oneOf, type Rows, secret, text } from './option.ts';

/** Events that wait in a table of the application's database, and what sends them from there. */
export const outboxOptions = {
  /** Transactional outbox: targets with `outbox` store their events in the transaction of the call, and they are sent from there. */
  'svc.outbox.enabled': flag(false),
  /** Database of the outbox table, which is that of the application: svc opens connections of its own to it. */
  'svc.outbox.datasource.url': secret('datasource-url', {
    shared: { variable: 'DATABASE_URL', switch: 'svc.outbox.enabled' },
    defaultText: 'the variable `DATABASE_URL`',
  }),
  /** Table of the outbox; with its schema as in `app.svc_outbox_events`. */
  'svc.outbox.table': text('table', { default: 'svc_outbox_events' }),
  /** When svc makes the table where there is none: `embedded` in SQLite only, `always`, or `never`. Else a missing table is an error. */
  'svc.outbox.initialize-schema': oneOf(['embedded', 'always', 'never'], 'embedded'),
  /** What becomes of a call outside any transaction: `autocommit` stores its event by itself, right after the call, and says so once for each event type; `error` lets the call fail, though what it wrote stays. So of a call whose own transaction commits before what it returns is known. */
  'svc.outbox.on-no-transaction': oneOf(['error', 'autocommit'], 'autocommit'),
  /** Sends the rows from this process; false leaves that to `svc relay`, or to another tool such as Debezium. */
  'svc.outbox.publisher-enabled': flag(true),
  /** Wait between two looks at the table. */
  'svc.outbox.poll-interval-ms': ms(1, 1_000),
  /** Rows taken at once. */
  'svc.outbox.batch-size': integer(1, 1_000, { unit: 'rows', default: 100 }),
  /** More rows are taken at once while many wait. */
  'svc.outbox.dynamic-batching-enabled': flag(true),
  /** Tries of one row that may fail by its own fault; then it is FAILED. While the broker is away no row loses a try. */
  'svc.outbox.max-retries': integer(1, 1_000, { default: 3 }),
  /** What becomes of the later rows of an aggregate that has a FAILED one: `skip` sends them, `block` keeps them back until that row is retried or discarded. */
  'svc.outbox.on-failed': oneOf(['skip', 'block'], 'skip'),
  /** Longest wait for one send. */
  'svc.outbox.send-timeout-seconds': integer(1, 86_400, { unit: 's', default: 10 }),
  /** Stops sending while the broker is away. */
  'svc.outbox.circuit-breaker-enabled': flag(true),
  /** Deletes rows whose time is over: svc.outbox.retention-days, svc.outbox.failed-retention-days. */
  'svc.outbox.cleanup-enabled': flag(false),
  /** How long published rows are kept, with svc.outbox.cleanup-enabled. 0, also without it: a row is deleted as soon as it is sent; where svc.outbox.publisher-enabled is false, in the transaction that wrote it (docs/debezium.md). */
  'svc.outbox.retention-days': integer(0, 36_500, { unit: 'days', default: 7 }),
  /** How long rows are kept that are FAILED, with svc.outbox.cleanup-enabled. */
  'svc.outbox.failed-retention-days': integer(1, 36_500, { unit: 'days', default: 30 }),
} as const satisfies Rows;
