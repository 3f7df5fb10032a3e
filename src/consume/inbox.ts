// consume/: the consumer side of at-least-once: an inbox that handles each event once, and adapters for Kafka clients.

import { SvcError } from '../ground/errors.ts';
import { isNamedValues, optionsProblem } from '../ground/names.ts';
import {
  driverExecutor,
  type Executor,
  executorOf,
  has,
  type OutboxDataSource,
  rolledBack,
  type TransactionOf,
} from '../outbox/api/executor.ts';
import { outbox } from '../outbox/api/outbox.ts';
import {
  besideTable,
  type DialectName,
  partsOfTable,
  placed,
  quoteName,
  quoteTable,
  timeOfMs,
} from '../outbox/insert-row.ts';

/** The longest event id and consumer name of the table, in characters. */
const longestEventId = 255;
const longestConsumer = 100;

export const inboxTable = {
  defaultName: 'svc_inbox_events',

  /** Creates the table. Each statement is idempotent. */
  ddl(dialect: DialectName, table: string): readonly string[] {
    const name = quoteTable(dialect, table);
    const plain = partsOfTable(table)?.name ?? table;
    const handled = quoteName(dialect, besideTable(plain, '_handled'));
    const key = 'PRIMARY KEY (consumer, event_id)';
    switch (dialect) {
      case 'postgres':
        return [
          `CREATE TABLE IF NOT EXISTS ${name} (consumer text NOT NULL, event_id text NOT NULL, handled_at timestamptz NOT NULL DEFAULT statement_timestamp(), ${key})`,
          `CREATE INDEX IF NOT EXISTS ${handled} ON ${name} (consumer, handled_at)`,
        ];
      case 'mysql':
        return [
          `CREATE TABLE IF NOT EXISTS ${name} (consumer varchar(${longestConsumer}) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, event_id varchar(${longestEventId}) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, handled_at datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)), ${key}, INDEX ${handled} (consumer, handled_at)) ENGINE=InnoDB`,
        ];
      case 'sqlite':
        return [
          `CREATE TABLE IF NOT EXISTS ${name} (consumer TEXT NOT NULL, event_id TEXT NOT NULL, handled_at INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)), ${key}) WITHOUT ROWID`,
          `CREATE INDEX IF NOT EXISTS ${handled} ON ${name} (consumer, handled_at)`,
        ];
    }
  },
};

/** In PostgreSQL concurrent CREATE TABLE statements conflict; the lock ends with the transaction. */
const lockForDdl = 'SELECT 1 AS locked FROM pg_advisory_xact_lock(1937138944, 1768843636)';

/** Fails for a duplicate. Parameters: consumer, event id. */
function insertEvent(dialect: DialectName, table: string): string {
  return placed(dialect, `INSERT INTO ${quoteTable(dialect, table)} (consumer, event_id) VALUES (?, ?)`);
}

/** Ignores a duplicate. */
function insertMissingEvent(dialect: DialectName, table: string): string {
  const insert = insertEvent(dialect, table);
  return dialect === 'mysql' ? insert.replace('INSERT', 'INSERT IGNORE') : `${insert} ON CONFLICT DO NOTHING`;
}

/**
 * Changes nothing if the row exists, and fails if it does not: it inserts two rows, the second of which is a duplicate. No
 * result is read, as its form differs between libraries. Parameters: consumer, event id, and both again.
 */
function assertEvent(dialect: DialectName, table: string): string {
  const name = quoteTable(dialect, table);
  return placed(
    dialect,
    `INSERT INTO ${name} (consumer, event_id) SELECT ?, ? FROM (SELECT 1 AS n UNION ALL SELECT 2) AS two WHERE NOT EXISTS (SELECT 1 FROM ${name} WHERE consumer = ? AND event_id = ?)`,
  );
}

/** Parameters: consumer, event id. */
function forgetEvent(dialect: DialectName, table: string): string {
  return placed(dialect, `DELETE FROM ${quoteTable(dialect, table)} WHERE consumer = ? AND event_id = ?`);
}

/** Changes nothing, and fails if the table is not as expected or not writable. */
function tryTable(dialect: DialectName, table: string): string {
  const name = quoteTable(dialect, table);
  return `INSERT INTO ${name} (consumer, event_id, handled_at) SELECT consumer, event_id, handled_at FROM ${name} WHERE 1 = 0`;
}

/** Parameters: consumer, milliseconds since the epoch. Deletes `most` rows, by default all. */
function deleteHandled(dialect: DialectName, table: string, max?: number): string {
  const name = quoteTable(dialect, table);
  const old = `consumer = ? AND handled_at < ${timeOfMs[dialect]}`;
  if (max === undefined) return placed(dialect, `DELETE FROM ${name} WHERE ${old}`);
  if (dialect === 'mysql') return `DELETE FROM ${name} WHERE ${old} LIMIT ${max}`;
  return placed(
    dialect,
    `DELETE FROM ${name} WHERE (consumer, event_id) IN (SELECT consumer, event_id FROM ${name} WHERE ${old} LIMIT ${max})`,
  );
}

/** PORT: a store other than the databases that svc supports. */
export interface InboxStore<Tx = unknown> {
  /** Runs `work` in a transaction: commits if it resolves; rolls back and rejects with the same error if it rejects. */
  transaction<R>(work: (tx: Tx) => Promise<R>): Promise<R>;
  /**
   * Stores, within the transaction, that the event is handled. `false`: it was handled before. Concurrent calls for one event
   * must wait for each other.
   */
  insert(tx: Tx, event: { readonly consumer: string; readonly eventId: string }): Promise<boolean>;
  /**
   * Checks before the COMMIT that the row of `insert` still exists, as a handler may have rolled it back. Rejects if not. Omit
   * it if the store's `transaction` rejects then.
   */
  check?(tx: Tx, event: { readonly consumer: string; readonly eventId: string }): Promise<void>;
  /** Removes the row after the handler failed, as the handler may have committed. Omit it if handlers cannot commit. */
  forget?(tx: Tx, event: { readonly consumer: string; readonly eventId: string }): Promise<void>;
}

export interface InboxOptions<Source extends OutboxDataSource = OutboxDataSource> {
  /** As for `outbox.runInTransaction`: a pool, connection or handle of a driver, or the database object of an ORM. */
  readonly pool: Source;
  /** The name of the consumer: each name handles each event once. At most 100 letters, digits, `.`, `_` and `-`. */
  readonly consumer: string;
  /** With or without a schema prefix. Default: `svc_inbox_events`. */
  readonly table?: string;
  /** Days after which `cleanup` forgets an event: set it above the retention of all topics. Default: 30. */
  readonly retentionDays?: number;
}

/** The part of an inbox that `consumeOnce` uses. */
export interface InboxOnce<Tx = unknown> {
  /** Omitted: unknown, as with a store that forgets by itself. */
  readonly retentionDays?: number;
  once<R>(event: InboxEvent, work: (tx: Tx) => R | PromiseLike<R>): Promise<OnceResult<Awaited<R>>>;
  /** Called before the first event. Rejects if the inbox cannot work. */
  check?(): Promise<void>;
  /** Forgets events older than the retention. Returns their number if the driver reports it. */
  cleanup?(): Promise<number | undefined>;
}

export interface Inbox<Tx = unknown> extends InboxOnce<Tx> {
  readonly consumer: string;
  /**
   * Handles an event once: its id is recorded in the transaction that `work` gets, so both commit or neither does. Rows that
   * svc's outbox stores in `work` are part of it. Rejects with the error of `work`; then nothing is recorded.
   *
   * @throws SvcError `SVC_CONSUME_TABLE_MISSING`, `SVC_CONSUME_NOT_AN_EVENT`
   */
  once<R>(event: InboxEvent, work: (tx: Tx) => R | PromiseLike<R>): Promise<OnceResult<Awaited<R>>>;
  /** Creates the table if it is missing. Safe to call from several processes at once. */
  migrate(): Promise<void>;
  check(): Promise<void>;
  cleanup(): Promise<number | undefined>;
}

/** An envelope, or any object with an event id. */
export interface InboxEvent {
  readonly eventId: string;
}

export type OnceResult<R> =
  | { readonly handled: true; readonly result: R }
  /** The event was handled before. */
  | { readonly handled: false; readonly result?: undefined };

const dayMs = 86_400_000;
/** Rows that one statement deletes. */
const deletedAtOnce = 5_000;

const poolNames: readonly (keyof InboxOptions)[] = ['pool', 'consumer', 'table', 'retentionDays'];
const storeNames = ['store', 'consumer'];

/** Remembers in the application's database which events a consumer has handled. */
export function createInbox<Source extends OutboxDataSource>(
  options: InboxOptions<Source>,
): Inbox<TransactionOf<Source>>;
/** The same over a store of the application, which manages its own table and retention. */
export function createInbox<Tx>(options: {
  readonly store: InboxStore<Tx>;
  readonly consumer: string;
}): InboxOnce<Tx> & { readonly consumer: string };
export function createInbox(
  options: InboxOptions | { readonly store: InboxStore; readonly consumer: string },
): Inbox | (InboxOnce & { readonly consumer: string }) {
  const problem = optionsProblem(
    options,
    isNamedValues(options) && 'store' in options ? storeNames : poolNames,
  );
  if (problem !== undefined) throw badOption(problem);
  const { consumer } = options;
  if (typeof consumer !== 'string' || !consumerPattern.test(consumer))
    throw badOption(
      `consumer must be a name of letters, digits, ".", "_" and "-", at most ${longestConsumer} characters`,
    );
  if ('store' in options) return { consumer, once: onceIn(options.store, consumer) };
  const { pool, table = inboxTable.defaultName, retentionDays = 30 } = options;
  if (partsOfTable(table) === undefined)
    throw badOption('table must be a name of letters, digits and _, with or without schema and dot');
  if (!(retentionDays > 0)) throw badOption('retentionDays must be a number above 0');
  const inTurn = isOneConnection(pool) ? oneAtATime() : <R>(work: () => Promise<R>) => work();
  const transaction = <R>(work: (tx: unknown) => Promise<R>): Promise<R> =>
    inTurn(() => outbox.runInTransaction(pool, work));
  const withExecutor = <R>(work: (executor: Executor) => Promise<R>): Promise<R> =>
    transaction((tx) => work(executorOf(tx))).catch((error) => {
      throw databaseFault(error) === 'no-table' ? tableMissing(table, error) : error;
    });
  const store: InboxStore = {
    transaction,
    async insert(tx, { eventId }) {
      const executor = executorOf(tx);
      const { dialect } = executor;
      try {
        if (executor.changed !== undefined)
          return (await executor.changed(insertMissingEvent(dialect, table), [consumer, eventId])) === 1;
        await executor.execute(insertEvent(dialect, table), [consumer, eventId]);
        return true;
      } catch (error) {
        const fault = databaseFault(error);
        if (fault === 'repeated') return false;
        throw fault === 'no-table' ? tableMissing(table, error) : error;
      }
    },
    async check(tx, { eventId }) {
      const executor = executorOf(tx);
      const key = [consumer, eventId];
      try {
        await executor.execute(assertEvent(executor.dialect, table), [...key, ...key]);
      } catch (error) {
        throw databaseFault(error) === 'passing' ? error : rolledBack();
      }
    },
    async forget(tx, { eventId }) {
      const executor = executorOf(tx);
      await executor.execute(forgetEvent(executor.dialect, table), [consumer, eventId]);
    },
  };
  return {
    consumer,
    retentionDays,
    once: onceIn(store, consumer),
    migrate: () =>
      withExecutor(async (executor) => {
        if (executor.dialect === 'postgres') await executor.execute(lockForDdl, []);
        for (const sql of inboxTable.ddl(executor.dialect, table)) await executor.execute(sql, []);
      }),
    check: () =>
      withExecutor(async (executor) => {
        await executor.execute(tryTable(executor.dialect, table), []);
      }),
    async cleanup() {
      const before = Date.now() - retentionDays * dayMs;
      for (let total = 0; ; ) {
        const count = await withExecutor(async (executor) => {
          const { dialect } = executor;
          if (executor.changed !== undefined)
            return executor.changed(deleteHandled(dialect, table, deletedAtOnce), [consumer, before]);
          await executor.execute(deleteHandled(dialect, table), [consumer, before]);
          return undefined;
        });
        if (count === undefined) return undefined;
        total += count;
        if (count < deletedAtOnce) return total;
      }
    },
  } satisfies Inbox;
}

function onceIn(store: InboxStore, consumer: string): InboxOnce['once'] {
  return async <R>(event: InboxEvent, work: (tx: unknown) => R | PromiseLike<R>) => {
    const eventId: unknown = event?.eventId;
    if (typeof eventId !== 'string' || !idPattern.test(eventId))
      throw new SvcError(
        'SVC_CONSUME_NOT_AN_EVENT',
        `an inbox takes an event with an eventId, a string of 1 to ${longestEventId} printable characters`,
      );
    let isRepeated = false;
    try {
      const result = await store.transaction(async (tx) => {
        const given = { consumer, eventId };
        if (!(await store.insert(tx, given))) {
          isRepeated = true;
          // Rolls back: PostgreSQL has already aborted the transaction.
          throw new Repeated();
        }
        let value: R;
        try {
          value = await work(tx);
        } catch (error) {
          // All of it is rolled back, except for commits of the handler itself, which must not count as handled.
          await store.forget?.(tx, given)?.catch(() => {});
          throw error;
        }
        await store.check?.(tx, given);
        return value;
      });
      return { handled: true, result: result as Awaited<R> };
    } catch (error) {
      if (isRepeated) return { handled: false };
      throw error;
    }
  };
}

class Repeated extends Error {}

const consumerPattern = new RegExp(`^[\\w.-]{1,${longestConsumer}}$`);
/** MySQL ignores trailing blanks in comparisons. */
const idPattern = new RegExp(`^[\\x20-\\x7e]{0,${longestEventId - 1}}[\\x21-\\x7e]$`);

/** Two concurrent transactions on it would be one. */
function isOneConnection(source: unknown): boolean {
  const handle = has(source, 'session') ? source.session.client : source;
  const found = driverExecutor(handle);
  // `sql` of postgres.js is a pool.
  return found !== undefined && typeof handle !== 'function';
}

function oneAtATime(): <R>(work: () => Promise<R>) => Promise<R> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const next = last.then(work);
    last = next.catch(() => {});
    return next;
  };
}

function tableMissing(table: string, error: unknown): SvcError {
  return new SvcError(
    'SVC_CONSUME_TABLE_MISSING',
    `the table ${table} of the inbox does not exist, or is not as svc creates it (${nameOf(error)}). Run inbox.migrate(), or the output of "npx --no svc inbox ddl"`,
  );
}

function badOption(says: string): SvcError {
  return new SvcError('SVC_CONSUME_OPTIONS', says);
}

/** A database error by its code only: libraries wrap the errors of drivers in different ways. */
type DatabaseFault = 'repeated' | 'no-table' | 'passing' | undefined;

const repeated = new Set(['23505', '1062', 'ER_DUP_ENTRY', 'SQLITE_CONSTRAINT_PRIMARYKEY', '1555']);
const noTable = new Set([
  '42P01',
  '42703',
  '3F000',
  '1146',
  '1054',
  'ER_NO_SUCH_TABLE',
  'ER_BAD_FIELD_ERROR',
]);
/**
 * SQLSTATE classes 08 (connection), 40 (rolled back: retry), 53 (insufficient resources), 57 (shut down); names of MySQL and of
 * Node.
 */
const passing =
  /^(?:08...|40...|53...|57P..|55P03|ECONN.*|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|EHOSTUNREACH|ENETUNREACH|ER_LOCK_.*|ER_CON_COUNT_ERROR|ER_SERVER_SHUTDOWN|PROTOCOL_.*|POOL_CLOSED|SQLITE_BUSY.*|SQLITE_LOCKED.*|P1001|P1002|P1008|P1017|P2024|P2028|P2034|CONNECTION_.*|CONNECT_TIMEOUT)$/;
const passingNumbers = new Set(['1205', '1213', '1040', '1053']);
/** For errors without a code: `pg` after a lost connection, `pg-pool` after a time-out. */
const passingText =
  /Connection terminated|timeout exceeded when trying to connect|Connection lost|server closed the connection|database is locked/;
const noTableText = /no such (?:table|column)/;

/** Properties in which libraries keep the driver's error. */
const inner = [
  'cause',
  'original',
  'parent',
  'driverError',
  'previous',
  'meta',
  'driverAdapterError',
] as const;

/** `undefined`: not an error of a known database. */
export function databaseFault(error: unknown): DatabaseFault {
  return faultOf(error, 0);
}

function faultOf(error: unknown, depth: number): DatabaseFault {
  if (typeof error !== 'object' || error === null || depth > 5) return undefined;
  const said = error as Record<string, unknown>;
  if (said instanceof SvcError)
    return said.code === 'SVC_OUTBOX_UNREACHABLE' || said.code === 'SVC_OUTBOX_READ_ONLY'
      ? 'passing'
      : undefined;
  const codes = [said.code, said.errno, said.sqlState, said.errcode, said.originalCode]
    .filter((code) => typeof code === 'string' || typeof code === 'number')
    .map(String);
  const text = typeof said.message === 'string' ? said.message : '';
  if (codes.some((code) => repeated.has(code)) || said.kind === 'UniqueConstraintViolation')
    return 'repeated';
  if (codes.some((code) => noTable.has(code)) || said.kind === 'TableDoesNotExist' || noTableText.test(text))
    return 'no-table';
  if (codes.some((code) => passing.test(code) || passingNumbers.has(code)) || passingText.test(text))
    return 'passing';
  for (const name of inner) {
    const found = faultOf(said[name], depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The kind of an error, for people, without its message, which can hold values of an event. */
export function nameOf(error: unknown): string {
  if (error instanceof SvcError) return error.code;
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown };
  const type = typeof name === 'string' && /^[\w.$]{1,60}$/.test(name) ? name : typeof error;
  return typeof code === 'string' && /^\w{1,60}$/.test(code) ? `${type} (${code})` : type;
}
