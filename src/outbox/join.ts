import { backoffMs, type Clock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import type { Dialect, Statement, TransactionEnd } from '../transaction/driver.ts';
import {
  currentScope,
  findTransactions,
  isUndone,
  type Scope,
  startIn,
  transactionsToFail,
} from '../transaction/scope.ts';
import type { ParticipantEnd } from '../transaction/transaction.ts';
import { insertError } from './insert-error.ts';
import { assertPacketFits, type SqlValue } from './insert-row.ts';
import type { Notices } from './notices.ts';
import { checkRow, type OutboxRow } from './outbox-row.ts';
import { type OnRowEnd, rowWatch } from './row-watch.ts';
import type { SameTable } from './same-table.ts';

/** An event on its way into the outbox. */
export interface Storing {
  /**
   * Resolves when the database has taken the row, and rejects with the reason why it has not. `undefined`: nobody has to wait, as it has
   * taken it already, or gets it before the next statement or with the COMMIT, which fails then where the row does.
   */
  readonly written: Promise<void> | undefined;
  /** What was not written is rolled back. Rejects only where the transaction was committed without it: it is refused. */
  readonly outcome: Promise<'outbox' | 'rolled_back'>;
}

export interface JoinParts {
  readonly insert: (dialect: Dialect, row: OutboxRow) => Statement;
  /** What deletes the row at once, where nobody looks for it in the table. */
  readonly erase?: ((dialect: Dialect, row: OutboxRow) => Statement | undefined) | undefined;
  /** Stores a row in a transaction of its own, where the application allows that; else a row without a transaction is an error. */
  readonly autocommit: ((row: OutboxRow) => Promise<void>) | undefined;
  /** Before a row is written: what it has to wait for. Throws, or rejects with the reason, where it would be lost. */
  readonly ready?: (() => Promise<void> | undefined) | undefined;
  /** Of MySQL: the largest packet that the database takes, once that is known. */
  readonly maxPacketBytes?: (() => number | undefined) | undefined;
  /** Looks whether rows arrive where the relay reads. */
  readonly sameTable?: Pick<SameTable, 'watch'> | undefined;
  /** There is a new row to send. */
  readonly onStored: (row: OutboxRow) => void;
  /** A row is in no transaction of the application: it is stored by itself, and not atomic with what the call wrote. */
  readonly onUnjoined?: ((row: OutboxRow, target: string | undefined) => void) | undefined;
  /** A COMMIT was sent whose answer never came: the row is there, or not. */
  readonly onUnconfirmed: () => void;
}

export interface OutboxJoin {
  /** What is in no transaction is stored by itself. */
  readonly storesAlone: boolean;
  /**
   * Writes a row into the transaction that a call took part in. Throws where it cannot: then the caller refuses the event. `target`: whose
   * call it was, where it was one.
   */
  store(row: OutboxRow, scope: Scope | undefined, target?: string): Storing;
  /** An event that cannot be made: the transaction it belongs to must not commit. */
  refuse(reason: unknown, scope: Scope | undefined): void;
  /** Events in transactions that have not ended. */
  pending(): number;
}

export function createOutboxJoin(parts: JoinParts): OutboxJoin {
  const watch = rowWatch();
  let pending = 0;

  async function outcomeOf(
    row: OutboxRow,
    ended: Promise<ParticipantEnd>,
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

  /** What its call wrote was committed before the row could be with it. Throws where nobody knows whether it was. */
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

  /** Throws at once where the limit is known; else the promise rejects, by the end of which it is. */
  function onceItFits({ values }: Statement, ready: Promise<void> | undefined): Promise<void> | undefined {
    const check = (): void => assertPacketFits(values as SqlValue[], parts.maxPacketBytes?.());
    check();
    const checked = ready?.then(check);
    checked?.catch(() => {});
    return checked;
  }

  return {
    storesAlone: parts.autocommit !== undefined,
    store(row, given, target) {
      checkRow(row);
      if (given !== undefined && isUndone(given)) {
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
      // It may be that nothing is written, and nobody waits for it.
      isReady?.catch(() => {});
      const { session } = transaction;
      checkRow(row, session.dialect);
      const statement = parts.insert(session.dialect, row);
      const ready = session.dialect === 'mysql' ? onceItFits(statement, isReady) : isReady;
      const tell = parts.sameTable?.watch(session, row.eventId);
      const from = startIn(transaction, scope);
      const onRowEnd = watch.onRow?.(row);
      let late: Promise<Storing> | undefined;
      const onEnd = (how: ParticipantEnd): void => {
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
      // Sent with it: what the application sends next comes behind both.
      const erased = transaction.join(erase, from, insertError, undefined, ready);
      return { written: Promise.all([written, erased.written]).then(() => {}), outcome };
    },
    refuse(reason, given) {
      const scope = given ?? currentScope();
      for (const transaction of transactionsToFail(scope))
        transaction.fail(reason, startIn(transaction, scope));
    },
    pending: () => pending,
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
    'an event for the outbox was made outside any transaction that svc knows of: call the function within one; where a driver is not followed use outbox.withTransaction, where it is in a bundle outbox.watch; or set svc.outbox.on-no-transaction: autocommit',
  );
}

function committed(): SvcError {
  return new SvcError(
    'SVC_OUTBOX_COMMITTED',
    'the transaction that a call wrote in was committed before the call had ended: what it wrote is there, and its event is not; await the call before the COMMIT, or set svc.outbox.on-no-transaction: autocommit, which stores the event by itself',
  );
}

function unknownEnd(): SvcError {
  return new SvcError(
    'SVC_OUTBOX_COMMITTED',
    'the COMMIT of the transaction that a call wrote in was sent before the call had ended, and its answer never came: what it wrote may be there, and its event is not; await the call before the COMMIT',
  );
}

function severalTransactions(): SvcError {
  return new SvcError(
    'SVC_OUTBOX_SEVERAL_TRANSACTIONS',
    'a call took part in more than one open transaction, and its event can be in one only: name a function that uses one of them, or say which one with outbox.withTransaction',
  );
}

/** From one notice of a process to its next: PostgreSQL commits them one after the other, for all of its databases. */
export const noticeIntervalMs = 100;
const firstPauseMs = 500;
const longestPauseMs = 30_000;

/** Gathers what was committed into few notices. */
interface Notifier {
  /** A row of this shard was committed. */
  add(shard: number): void;
  stop(): void;
}

interface NotifierOptions {
  readonly notices: Pick<Notices, 'send'>;
  readonly clock: Clock;
  /** Runs svc's own work. */
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
}

/** The first one goes at once. Its timers hold no process. What cannot be told is found without it. */
export function createNotifier({ notices, clock, isolate }: NotifierOptions): Notifier {
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
    add(shard) {
      shards.add(shard);
      plan();
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
