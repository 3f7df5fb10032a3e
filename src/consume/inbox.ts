// consume/: the other side of at-least-once: an inbox that handles each event once, and the glue for the clients of Kafka.

import { SvcError } from '../ground/errors.ts';
import { isNamedValues, optionsProblem } from '../ground/named-values.ts';
import { driverExecutor } from '../outbox/api/driver-executors.ts';
import type { Executor } from '../outbox/api/executor.ts';
import type { OutboxDataSource, TransactionOf } from '../outbox/api/executor-types.ts';
import { outbox } from '../outbox/api/outbox.ts';
import { executorOf } from '../outbox/api/recognise.ts';
import { rolledBack } from '../outbox/api/run-transaction.ts';
import { has } from '../outbox/api/shape.ts';
import { partsOfTable } from '../outbox/insert-row.ts';
import { databaseFault, nameOf } from './database-fault.ts';
import {
  assertEvent,
  defaultInboxTable,
  deleteHandled,
  forgetEvent,
  inboxDdl,
  insertEvent,
  insertMissingEvent,
  lockForDdl,
  longestConsumer,
  longestEventId,
  tryTable,
} from './inbox-table.ts';

/** PORT: any other store than the databases that svc knows. */
export interface InboxStore<Tx = unknown> {
  /** Runs `work` in a transaction, committed where it resolves and rolled back where it rejects, whose error it passes on. */
  transaction<R>(work: (tx: Tx) => Promise<R>): Promise<R>;
  /**
   * Stores that the event is handled, within the transaction. `false`: it was before. Of two at the same time one waits for the other.
   */
  insert(tx: Tx, event: { readonly consumer: string; readonly eventId: string }): Promise<boolean>;
  /**
   * Looks, right before the COMMIT, whether what `insert` has stored is still there: a handler may have rolled it back. Rejects where it
   * is not. Left out: the store's own `transaction` rejects then.
   */
  check?(tx: Tx, event: { readonly consumer: string; readonly eventId: string }): Promise<void>;
  /** The handler has failed, and may have committed before: the event is not handled. Left out: a handler of this store cannot commit. */
  forget?(tx: Tx, event: { readonly consumer: string; readonly eventId: string }): Promise<void>;
}

export interface InboxOptions<Source extends OutboxDataSource = OutboxDataSource> {
  /** What `outbox.runInTransaction` takes: a pool, connection or handle of a driver, or the database object of an ORM. */
  readonly pool: Source;
  /** Who handles: each name handles each event once. Letters, digits, `.`, `_` and `-`, at most 100. */
  readonly consumer: string;
  /** With or without its schema and a dot. Default: `svc_inbox_events`. */
  readonly table?: string;
  /** Days after which `cleanup` forgets an event: longer than any topic keeps it. Default: 30. */
  readonly retentionDays?: number;
}

/** What an inbox does for `consumeOnce`. */
export interface InboxOnce<Tx = unknown> {
  /** Left out: not known, as of a store that forgets by itself. */
  readonly retentionDays?: number;
  once<R>(event: InboxEvent, work: (tx: Tx) => R | PromiseLike<R>): Promise<OnceResult<Awaited<R>>>;
  /** Rejects where it cannot work; before the first event. */
  check?(): Promise<void>;
  /** Forgets what is older than the retention; returns how many that were, where the driver tells. */
  cleanup?(): Promise<number | undefined>;
}

export interface Inbox<Tx = unknown> extends InboxOnce<Tx> {
  readonly consumer: string;
  /**
   * Handles an event once: its id is recorded in the transaction that `work` gets, so that both are committed or neither is. What svc's
   * outbox stores in `work` is in it, too. Rejects with what `work` rejects with; then nothing is recorded.
   *
   * @throws SvcError `SVC_CONSUME_TABLE_MISSING`, `SVC_CONSUME_NOT_AN_EVENT`
   */
  once<R>(event: InboxEvent, work: (tx: Tx) => R | PromiseLike<R>): Promise<OnceResult<Awaited<R>>>;
  /** Makes the table where it is not there. Any number of processes may do so at once. */
  migrate(): Promise<void>;
  check(): Promise<void>;
  cleanup(): Promise<number | undefined>;
}

/** What handlers of an inbox get: `InboxTransaction<typeof inbox>`. */
export type InboxTransaction<One> = One extends Inbox<infer Tx> ? Tx : never;

/** An envelope, or anything else with the id of an event. */
export interface InboxEvent {
  readonly eventId: string;
}

export type OnceResult<R> =
  | { readonly handled: true; readonly result: R }
  /** It was handled before. */
  | { readonly handled: false; readonly result?: undefined };

const dayMs = 86_400_000;
/** Rows that one statement deletes. */
const deletedAtOnce = 5_000;

const poolNames: readonly (keyof InboxOptions)[] = ['pool', 'consumer', 'table', 'retentionDays'];
const storeNames = ['store', 'consumer'];

/** Remembers which events a consumer has handled, in the application's own database. */
export function createInbox<Source extends OutboxDataSource>(
  options: InboxOptions<Source>,
): Inbox<TransactionOf<Source>>;
/** The same over a store of the application's own, which makes its table and forgets by itself. */
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
  const { pool, table = defaultInboxTable, retentionDays = 30 } = options;
  if (partsOfTable(table) === undefined)
    throw badOption('table must be a name of letters, digits and _, with or without its schema and a dot');
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
        for (const sql of inboxDdl(executor.dialect, table)) await executor.execute(sql, []);
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
        `an inbox takes an event with an eventId, a text of 1 to ${longestEventId} printable characters`,
      );
    let isRepeated = false;
    try {
      const result = await store.transaction(async (tx) => {
        const given = { consumer, eventId };
        if (!(await store.insert(tx, given))) {
          isRepeated = true;
          // So that nothing is committed: the transaction of a PostgreSQL has failed already.
          throw new Repeated();
        }
        let value: R;
        try {
          value = await work(tx);
        } catch (error) {
          // All of it is rolled back; what a handler has committed itself is not, and must not pass for handled.
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
/** MySQL takes texts for equal that end in blanks. */
const idPattern = new RegExp(`^[\\x20-\\x7e]{0,${longestEventId - 1}}[\\x21-\\x7e]$`);

/** Of which two transactions at once would be one. */
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
    `the table ${table} of the inbox is not there, or not as svc makes it (${nameOf(error)}): run inbox.migrate(), or what "npx --no svc inbox ddl" prints`,
  );
}

function badOption(says: string): SvcError {
  return new SvcError('SVC_CONSUME_OPTIONS', says);
}
