import { backoffMs, clock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { shared } from '../ground/lifecycle.ts';
import { logger } from '../observe/logger.ts';
import { isolate } from '../observe/otel-api.ts';
import type { Dialect, DriverSession, Statement, TransactionEnd } from '../transaction/driver.ts';
import { currentScope, findTransactions, type Scope } from '../transaction/transaction.ts';
import { assertPacketFits, type SqlValue } from './insert-row.ts';
import { checkRow, type OutboxRow } from './outbox-row.ts';
import type { Notices, OutboxStore } from './outbox-store.ts';

/** A row that is being stored. */
export interface Storing {
  /**
   * Resolves when the database has the row, and rejects with the reason if it does not. `undefined`: no need to wait. The row was
   * sent, or will be before the next statement or with the COMMIT, which fails if the row does.
   */
  readonly written: Promise<void> | undefined;
  /** `rolled_back`: the row is not stored. Rejects only if the transaction was committed without it: the event is refused. */
  readonly outcome: Promise<'outbox' | 'rolled_back'>;
}

interface JoinParts {
  readonly insert: (dialect: Dialect, row: OutboxRow) => Statement;
  /** Deletes the row at once, when no relay reads the table. */
  readonly erase?: ((dialect: Dialect, row: OutboxRow) => Statement | undefined) | undefined;
  /** Stores a row in a separate transaction. `undefined`: a row without a transaction is an error. */
  readonly autocommit: ((row: OutboxRow) => Promise<void>) | undefined;
  /** Called before a row is written; the row waits for it. Throws, or rejects, if the row would be lost. */
  readonly ready?: (() => Promise<void> | undefined) | undefined;
  /** MySQL: the maximum packet of the database, once known. */
  readonly maxPacketBytes?: (() => number | undefined) | undefined;
  /** Checks that rows arrive where the relay reads. */
  readonly sameTable?: Pick<SameTable, 'watch'> | undefined;
  /** A new row can be sent. */
  readonly onStored: (row: OutboxRow) => void;
  /** A row was stored in a separate transaction, not atomic with the call's writes. */
  readonly onUnjoined?: ((row: OutboxRow, target: string | undefined) => void) | undefined;
  /** A COMMIT got no answer: the row may exist or not. */
  readonly onUnconfirmed: () => void;
}

export function createOutboxJoin(parts: JoinParts) {
  const watch = rowWatch();
  let pending = 0;

  async function outcomeOf(
    row: OutboxRow,
    ended: Promise<TransactionEnd | 'left out'>,
    late?: () => Promise<Storing> | undefined,
  ): Storing['outcome'] {
    pending++;
    const end = await ended;
    pending--;
    if (end === 'left out') return (await late?.())?.outcome ?? 'rolled_back';
    if (end === 'rolled_back') return end;
    if (end === 'unknown') parts.onUnconfirmed();
    parts.onStored(row);
    return 'outbox';
  }

  function storeAlone(
    row: OutboxRow,
    target: string | undefined,
    reason: () => SvcError,
    onEnd = watch.onRow?.(row),
  ): Storing {
    if (parts.autocommit === undefined) {
      onEnd?.('rolled_back');
      throw reason();
    }
    parts.onUnjoined?.(row, target);
    const written = parts.autocommit(row);
    if (onEnd !== undefined) tellEnd(written, onEnd);
    const outcome = written.then(
      () => outcomeOf(row, Promise.resolve('committed')),
      () => 'rolled_back' as const,
    );
    return { written, outcome };
  }

  /** The call's writes were committed without the row. Throws if it is unknown whether they were. */
  function storeLate(
    row: OutboxRow,
    target: string | undefined,
    end: TransactionEnd | undefined,
    onEnd = watch.onRow?.(row),
  ): Storing {
    if (end !== 'unknown') return storeAlone(row, target, committed, onEnd);
    onEnd?.('rolled_back');
    throw unknownEnd();
  }

  /** Throws at once if the limit is known. Otherwise the promise rejects once it is. */
  function onceItFits({ values }: Statement, ready: Promise<void> | undefined): Promise<void> | undefined {
    const check = (): void => assertPacketFits(values as SqlValue[], parts.maxPacketBytes?.());
    check();
    const checked = ready?.then(check);
    checked?.catch(() => {});
    return checked;
  }

  return {
    /** Rows outside transactions are stored separately. */
    storesAlone: parts.autocommit !== undefined,
    /**
     * Writes a row into the transaction that a call took part in. Throws if it cannot; the caller must then refuse the event.
     * `target`: the captured call, if any.
     */
    store(row: OutboxRow, given: Scope | undefined, target?: string): Storing {
      checkRow(row);
      if (given?.isUndone) {
        watch.onRow?.(row)?.('rolled_back');
        return { written: undefined, outcome: Promise.resolve('rolled_back') };
      }
      const scope = given ?? currentScope();
      const [transaction, ...others] = findTransactions(scope);
      if (transaction === undefined)
        return scope?.endedAs === undefined
          ? storeAlone(row, target, noTransaction)
          : storeLate(row, target, scope.endedAs);
      if (others.length > 0) throw severalTransactions();
      const isReady = parts.ready?.();
      // If nothing is written, no caller awaits it.
      isReady?.catch(() => {});
      const { session } = transaction;
      checkRow(row, session.dialect);
      const statement = parts.insert(session.dialect, row);
      const ready = session.dialect === 'mysql' ? onceItFits(statement, isReady) : isReady;
      const tell = parts.sameTable?.watch(session, row.eventId);
      const from = transaction.startOf(scope);
      const onRowEnd = watch.onRow?.(row);
      let late: Promise<Storing> | undefined;
      const onEnd = (how: TransactionEnd | 'left out'): void => {
        tell?.(how === 'committed');
        if (how !== 'left out') onRowEnd?.(how);
        else late = new Promise((resolve) => resolve(storeLate(row, target, transaction.ended, onRowEnd)));
        late?.catch(() => {});
      };
      const joined = transaction.join(statement, from, insertError, onEnd, ready);
      const written = joined.written?.then(async () => (await late)?.written);
      const outcome = outcomeOf(row, joined.ended, () => late);
      const erase = parts.erase?.(session.dialect, row);
      if (erase === undefined) return { written, outcome };
      // Sent together with the row, before the application's next statement.
      const erased = transaction.join(erase, from, insertError, undefined, ready);
      return { written: Promise.all([written, erased.written]).then(() => {}), outcome };
    },
    /** The event cannot be made: its transaction must not commit. */
    refuse(reason: unknown, given: Scope | undefined): void {
      const scope = given ?? currentScope();
      const found = findTransactions(scope);
      // Of several, those that the call itself used.
      for (const transaction of found.length === 1 ? found : (scope?.open() ?? []))
        transaction.fail(reason, transaction.startOf(scope));
    },
    /** Events in open transactions. */
    pending: (): number => pending,
  };
}

function tellEnd(written: Promise<void>, onEnd: OnRowEnd): void {
  written.then(
    () => onEnd('committed'),
    () => onEnd('rolled_back'),
  );
}

function noTransaction(): SvcError {
  return new SvcError(
    'SVC_OUTBOX_NO_TRANSACTION',
    'an event for the outbox was made outside any transaction that svc knows of. Call the function within a transaction, or set svc.outbox.on-no-transaction: autocommit. If svc does not follow the driver, use outbox.withTransaction. If the driver is in a bundle, use outbox.watch',
  );
}

function committed(): SvcError {
  return new SvcError(
    'SVC_OUTBOX_COMMITTED',
    'the transaction of a call was committed before the call ended. Its writes are stored, but not its event. Await the call before the COMMIT, or set svc.outbox.on-no-transaction: autocommit, which stores the event separately',
  );
}

function unknownEnd(): SvcError {
  return new SvcError(
    'SVC_OUTBOX_COMMITTED',
    'the COMMIT of the transaction of a call was sent before the call ended, and got no answer. Its writes may be stored, but not its event. Await the call before the COMMIT',
  );
}

function severalTransactions(): SvcError {
  return new SvcError(
    'SVC_OUTBOX_SEVERAL_TRANSACTIONS',
    'a call took part in more than one open transaction, but its event can be in one only. Name a function that uses one transaction, or choose it with outbox.withTransaction',
  );
}

/** Minimum interval of a process's notices: PostgreSQL serializes them over all its databases. */
const noticeIntervalMs = 100;
const firstPauseMs = 500;
const longestPauseMs = 30_000;

/** Combines commits into few notices. The first one is sent at once. Timers are unref'd. Rows without a notice are found by polling. */
export function createNotifier(notices: Pick<Notices, 'send'>) {
  const shards = new Set<number>();
  let nextAtMs = Number.NEGATIVE_INFINITY;
  let failures = 0;
  let timer: NodeJS.Timeout | undefined;
  let isSending = false;
  let isStopped = false;

  function plan(): void {
    if (isSending || isStopped || timer !== undefined || shards.size === 0) return;
    const waitMs = nextAtMs - clock.monotonic();
    if (waitMs <= 0) void send();
    else
      timer = setTimeout(() => {
        timer = undefined;
        void send();
      }, waitMs).unref();
  }

  async function send(): Promise<void> {
    const told = [...shards];
    shards.clear();
    isSending = true;
    try {
      await isolate(() => notices.send(told));
      failures = 0;
      nextAtMs = clock.monotonic() + noticeIntervalMs;
    } catch {
      failures++;
      nextAtMs = clock.monotonic() + backoffMs(failures, firstPauseMs, longestPauseMs);
    }
    isSending = false;
    plan();
  }

  return {
    /** A row of this shard was committed. */
    add(shard: number): void {
      shards.add(shard);
      plan();
    },
    stop(): void {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

interface DatabaseError {
  /** SQLSTATE in PostgreSQL; a name such as `ER_LOCK_DEADLOCK` in MySQL; `ECONNRESET` for a socket. */
  readonly code?: unknown;
  readonly errno?: unknown;
  readonly sqlState?: unknown;
  readonly message?: unknown;
}

/** Classes of SQLSTATE that applications retry: serialization and deadlock, connection, shutdown of the server. */
const retriedByApplications = /^(?:40|08|57)/;

/** A lost connection, in the words of the drivers. These messages contain no values. */
const isLost = ({ code, message }: DatabaseError): boolean =>
  (typeof code === 'string' && /^(?:E[A-Z]+|PROTOCOL_[A-Z_]+)$/.test(code)) ||
  (typeof message === 'string' && /^Connection terminated( unexpectedly)?$/.test(message));

/**
 * The error for the application when its row was refused. Errors that applications retry stay the driver's; others may contain
 * values of the row.
 */
function insertError(error: unknown): unknown {
  if (error instanceof SvcError) return error;
  const found = (error ?? {}) as DatabaseError;
  const { code, errno, sqlState } = found;
  if (isLost(found)) return error;
  const state = [sqlState, code].find((each) => typeof each === 'string' && /^[0-9A-Z]{5}$/.test(each));
  if (typeof state === 'string' && retriedByApplications.test(state)) return withoutParameters(found);
  if (code === 'ER_NET_PACKET_TOO_LARGE' || errno === 1153)
    return new SvcError(
      'SVC_OUTBOX_TOO_LONG',
      'the event is not stored: its row is larger than max_allowed_packet of the database. Raise that setting of the server, or make the payload smaller',
    );
  const shown = typeof code === 'string' && /^\w{1,40}$/.test(code) ? ` (${code})` : '';
  return new SvcError(
    'SVC_OUTBOX_INSERT',
    `the event could not be stored in the outbox${shown}, and its transaction is rolled back. Check the table of svc.outbox.table, and the permissions of the application's user on it`,
  );
}

/** PostgreSQL puts all parameters there if `log_parameter_max_length_on_error` is set. */
function withoutParameters(error: DatabaseError): unknown {
  Reflect.deleteProperty(error, 'where');
  return error;
}

/** Called synchronously at the end, because the application of a synchronous driver awaits nothing. */
type OnRowEnd = (how: TransactionEnd) => void;

/** For `svc/testing`, if loaded in this process. */
interface RowWatch {
  onRow?: (row: OutboxRow) => OnRowEnd;
}

export function rowWatch(): RowWatch {
  return shared('outbox-row-watch', () => ({}));
}

type SameTable = ReturnType<typeof createSameTable>;

interface SameTableOptions {
  readonly store: Pick<OutboxStore, 'lastId' | 'holds'>;
  readonly dialect: Dialect;
  readonly table: string;
  /** Sent rows are deleted at once, so a missing row proves nothing. */
  readonly deletesAtOnce: boolean;
}

/** Ids that other transactions may take between the query for the last id and the INSERT. */
const slackRows = 10_000;
/** A read replica may lag behind. */
const secondLookMs = 2_000;
/** A single event may have been discarded. */
const provenByEvents = 2;
/** With deletion at once, so many missing events are worth a log line. */
const doubtfulEvents = 20;

interface Known {
  isSame?: true;
  isOther?: true;
  isLooking?: true;
  absent: number;
}

/**
 * Whether the application's connections and svc's own see the same table. If not, no relay would ever send the events. svc looks up
 * each connection's first committed event over its own connection, in the background: the application needs no wait and no
 * permission.
 */
export function createSameTable(options: SameTableOptions) {
  const { store, dialect, table, deletesAtOnce } = options;
  const connections = new WeakMap<DriverSession, Known>();
  let hasSame = false;
  let hasOther = false;
  let absent = 0;

  async function isThere(eventId: string, last: Promise<number>): Promise<boolean> {
    const afterId = Math.max(0, (await last) - slackRows);
    if (await store.holds(eventId, afterId)) return true;
    if (!deletesAtOnce) await new Promise<void>((resolve) => void setTimeout(resolve, secondLookMs).unref());
    // A single row with a high id, after a restore or cut-over, makes ids useless. Only the event's own id helps.
    return store.holds(eventId, 0);
  }

  function found(known: Known): void {
    known.isSame = true;
    hasSame = true;
    absent = 0;
  }

  function missed(known: Known): void {
    known.absent++;
    absent++;
    if (deletesAtOnce) {
      if (!hasSame && absent === doubtfulEvents) logger.warn(`outbox: ${doubtText(table)}`);
      return;
    }
    if (known.absent < provenByEvents && (hasSame || absent < provenByEvents)) return;
    known.isOther = true;
    if (!hasOther) logger.error(`outbox: ${otherText(table)}`, { code: 'SVC_OUTBOX_OTHER_DATABASE' });
    hasOther = true;
  }

  async function look(known: Known, eventId: string, last: Promise<number>): Promise<void> {
    try {
      if (await isThere(eventId, last)) found(known);
      else missed(known);
    } catch {
      // The database is away, which the relay logs. A later event will tell.
    } finally {
      delete known.isLooking;
    }
  }

  return {
    /**
     * Call it before an event is written on a connection. Throws if the connection's events are known to go elsewhere. Returns a
     * function that must be told whether the event was committed; `undefined`: not needed.
     */
    watch(session: DriverSession, eventId: string): ((isCommitted: boolean) => void) | undefined {
      if (session.dialect !== dialect) throw otherDatabase(table);
      const known = connections.get(session) ?? { absent: 0 };
      if (known.isSame) return undefined;
      if (known.isOther || (hasOther && !hasSame)) throw otherDatabase(table);
      if (known.isLooking) return undefined;
      known.isLooking = true;
      connections.set(session, known);
      const last = isolate(() => store.lastId());
      last.catch(() => {});
      return (isCommitted) => {
        if (isCommitted) void isolate(() => look(known, eventId, last));
        else delete known.isLooking;
      };
    },
    /** One line if a connection has another table. */
    problem: (): string | undefined => (hasOther ? otherText(table) : undefined),
  };
}

const whatToDo =
  "name the application's own database in svc.outbox.datasource.url, and the schema of the table in svc.outbox.table";

function otherText(table: string): string {
  return `events of committed transactions are in another table ${table} than that of svc.outbox.datasource.url, and no relay of this application sends them: ${whatToDo}`;
}

function doubtText(table: string): string {
  return `none of ${doubtfulEvents} committed events was seen in the table ${table} of svc.outbox.datasource.url. If they do not arrive either, ${whatToDo}`;
}

function otherDatabase(table: string): SvcError {
  return new SvcError(
    'SVC_OUTBOX_OTHER_DATABASE',
    `the event is not stored: this connection uses another database than svc.outbox.datasource.url, or another table ${table}; ${whatToDo}`,
  );
}
