import { flag, integer, ms, oneOf, type Rows, secret, text } from './option.ts';

/** Events that wait in a table of the application's database, and what sends them from there. */
export const outboxOptions = {
  /** Transactional outbox: targets with `outbox` store their events in the transaction of the call, and a relay sends them. */
  'svc.outbox.enabled': flag(false),
  /** Database of the outbox table, which is the application's database. svc opens its own connections. */
  'svc.outbox.datasource.url': secret('datasource-url', {
    shared: { variable: 'DATABASE_URL', switch: 'svc.outbox.enabled' },
    defaultText: 'the variable `DATABASE_URL`',
  }),
  /** Table of the outbox, with or without its schema: `app.svc_outbox_events`. */
  'svc.outbox.table': text('table', { default: 'svc_outbox_events' }),
  /** When svc creates a missing table: `embedded` in SQLite only, `always`, or `never`. Otherwise a missing table is an error. */
  'svc.outbox.initialize-schema': oneOf(['embedded', 'always', 'never'], 'embedded'),
  /** What happens to a call outside any transaction. `autocommit` stores its event separately, right after the call, and logs that once per event type. `error` fails the call, but its writes stay. The same applies if the call's own transaction commits before its result is known. */
  'svc.outbox.on-no-transaction': oneOf(['error', 'autocommit'], 'autocommit'),
  /** Sends rows from this process. If false, `svc relay` or another tool such as Debezium sends them. */
  'svc.outbox.publisher-enabled': flag(true),
  /** Interval between polls of the table. */
  'svc.outbox.poll-interval-ms': ms(1, 1_000),
  /** Rows per batch. */
  'svc.outbox.batch-size': integer(1, 1_000, { unit: 'rows', default: 100 }),
  /** Takes larger batches while many rows wait. */
  'svc.outbox.dynamic-batching-enabled': flag(true),
  /** Tries of a row that fails by its own fault, before it is FAILED. Tries don't count while the broker is away. */
  'svc.outbox.max-retries': integer(1, 1_000, { default: 3 }),
  /** What happens to later rows of an aggregate with a FAILED row: `skip` sends them, `block` holds them until that row is retried or discarded. */
  'svc.outbox.on-failed': oneOf(['skip', 'block'], 'skip'),
  /** Longest wait for a send. */
  'svc.outbox.send-timeout-seconds': integer(1, 86_400, { unit: 's', default: 10 }),
  /** Pauses sending while the broker is away. */
  'svc.outbox.circuit-breaker-enabled': flag(true),
  /** Deletes rows after `svc.outbox.retention-days` and `svc.outbox.failed-retention-days`. */
  'svc.outbox.cleanup-enabled': flag(false),
  /** Time to keep published rows, with `svc.outbox.cleanup-enabled`. 0 needs no cleanup: each row is deleted once it is sent, or with `svc.outbox.publisher-enabled: false` in the transaction that wrote it (docs/debezium.md). */
  'svc.outbox.retention-days': integer(0, 36_500, { unit: 'days', default: 7 }),
  /** Time to keep FAILED rows, with `svc.outbox.cleanup-enabled`. */
  'svc.outbox.failed-retention-days': integer(1, 36_500, { unit: 'days', default: 30 }),
} as const satisfies Rows;
