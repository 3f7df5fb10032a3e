import { nextTick } from '../ground/builtins.ts';
import { shared } from '../ground/lifecycle.ts';
import {
  type Dialect,
  type DriverSession,
  type Statement,
  type TransactionEnd,
  TransactionOver,
} from './driver.ts';
import type { StatementKind } from './statements.ts';

export type { TransactionEnd };

/** The result of the callback of an ORM's `transaction()`, before its COMMIT. */
export interface CallbackResult {
  readonly value: unknown;
  /** The application has declared it as the result of the function, too: `outbox.runInTransaction`. */
  readonly isResult?: boolean;
}

/** Called on a running captured function before a transaction commits that was begun inside it. */
export type BeforeCommit = (result: CallbackResult | undefined) => Promise<void> | undefined;

/** Where a transaction was begun: in a captured function, or inside its calls. */
export interface OriginScope {
  readonly parent: OriginScope | undefined;
  readonly since: number;
  /** It has written, and all of that was rolled back. */
  readonly wroteAndLostAll: boolean;
  lostEvent: boolean;
  beforeCommit: BeforeCommit | undefined;
}

/** Shared: a function of one copy of this package may run in a transaction of another. */
const sequence = shared('transaction-sequence', () => ({ last: 0 }));

/** A number larger than all before. Orders the functions, savepoints and events of this process. */
export function nextSequence(): number {
  return ++sequence.last;
}

/** A row or event of svc in a transaction of the application. */
export interface Joined {
  /**
   * Resolves when the database has accepted it; rejects with the explained error. `undefined`: already accepted, or buffered
   * until the next statement or the COMMIT, which then fails with this row.
   */
  readonly written: Promise<void> | undefined;
  /** How it ended. Resolves when the transaction, or the savepoint around it, has ended. */
  readonly ended: Promise<ParticipantEnd>;
}

interface Failure {
  readonly error: unknown;
  /** A rollback to a savepoint before this undoes the function that failed. */
  readonly from: number;
}

/** `isLater`: `run` sends nothing at once, and no statement of the application may precede it. */
type InOrder = (run: () => Promise<void> | undefined, isLater?: boolean) => Promise<void> | undefined;

/** One transaction on one connection of the application, from its BEGIN to its end. */
export class Transaction {
  readonly session: DriverSession;
  /** Where its BEGIN was called. */
  readonly scope: OriginScope | undefined;
  ended: TransactionEnd | undefined;
  private neverBegan = false;
  private readonly participants = new Participants();
  private readonly savepoints = new Savepoints();
  private failure: Failure | undefined;
  private readonly inFlight = new Set<Promise<void>>();
  private readonly buffered = new BufferedRows();
  /** Rows in flight: the database has not answered yet. */
  private readonly unanswered = new Set<BufferedRow>();
  private isClosed = false;
  /** The database has just answered: code that continues now has awaited that answer. */
  isAnswering = false;
  wasAnswered = false;
  /** Events are being made for its COMMIT, which follows at once. */
  isCommitting = false;
  private readonly inOrder: InOrder;

  /** `inOrder` holds back svc's statements while the BEGIN itself has to wait. */
  constructor(session: DriverSession, scope: OriginScope | undefined, inOrder: InOrder = (run) => run()) {
    this.session = session;
    this.scope = scope;
    this.inOrder = inOrder;
  }

  get isOpen(): boolean {
    return this.ended === undefined;
  }

  /** An event that belongs to it is missing. */
  get isIncomplete(): boolean {
    if (this.inFlight.size > 0 || this.buffered.size > 0 || this.failure !== undefined) return true;
    for (let { scope } = this; scope !== undefined; scope = scope.parent)
      if (scope.beforeCommit !== undefined) return true;
    return false;
  }

  /** True while the promises of an answer run, and false before anything else begins. */
  answers(): void {
    this.wasAnswered = true;
    if (this.isAnswering) return;
    this.isAnswering = true;
    queueMicrotask(() => {
      // After all promise jobs.
      nextTick(() => {
        this.isAnswering = false;
      });
    });
  }

  /** Whether a write at that time was rolled back, with the transaction or with a savepoint. */
  hasUndone(at: number): boolean {
    return (this.ended === 'rolled_back' && !this.neverBegan) || this.savepoints.hasUndone(at);
  }

  /**
   * Writes a row, at once or before the application's next statement. A rollback to before `from` undoes the row; no other
   * does. `explain` converts the driver's error for the application; with a synchronous driver it is thrown. `onEnd` is called
   * synchronously at the end, before any awaiting code runs. `ready`: the row is written after it resolves, and not if it
   * rejects; not for synchronous drivers.
   */
  join(
    statement: Statement,
    from: number,
    explain: (error: unknown) => unknown,
    onEnd?: (how: ParticipantEnd) => void,
    ready?: Promise<void>,
  ): Joined {
    const row = { statement, from, at: nextSequence(), explain };
    if (this.isClosed || this.ended !== undefined) {
      const ended = this.participants.add({ at: row.at, from }, (how) => onEnd?.(unlessRolledBack(how)));
      return { written: ended.then(nothing), ended: ended.then(unlessRolledBack) };
    }
    const ended = this.participants.add({ at: row.at, from, row }, onEnd);
    // An aborted transaction takes no row. After a rollback to a savepoint the row is written again.
    if (this.session.status() === 'aborted') return { written: undefined, ended };
    // A caller that reads rows of a query one by one would wait for itself: then the COMMIT reports the error.
    const isBusy = this.session.isBusy?.() === true;
    if (this.session.runAll === undefined || ready !== undefined) {
      const written = this.write([row], ready);
      if (isBusy) written?.catch(nothing);
      return { written: isBusy ? undefined : written, ended };
    }
    this.buffered.add(row);
    return { written: this.buffered.isFull && !isBusy ? this.writeBuffered() : undefined, ended };
  }

  /** Its COMMIT is in flight: nothing can join it from now on. */
  close(): void {
    this.isClosed = true;
  }

  /** Writes the buffered rows. Rejects with the database's reason. */
  writeBuffered(): Promise<void> | undefined {
    return this.buffered.size === 0 ? undefined : this.write(this.buffered.take());
  }

  /** For a COMMIT that the caller sends together with the rows. */
  takeBuffered(): readonly BufferedRow[] {
    return this.buffered.take();
  }

  /** The database has rejected these rows. Returns the reason for the application. */
  rejected(rows: readonly BufferedRow[], reason: unknown): unknown {
    const error = rows[0]?.explain(reason) ?? reason;
    for (const { from, isUndone } of rows) if (isUndone !== true) this.fail(error, from);
    return error;
  }

  /** The rows are lost, however the transaction ends. */
  private failRows(rows: readonly BufferedRow[], reason: unknown): unknown {
    this.endParticipants(rows, unlessRolledBack(this.ended ?? 'rolled_back'));
    return this.rejected(rows, reason);
  }

  private endParticipants(rows: readonly BufferedRow[], how: ParticipantEnd): void {
    const ended = new Set<BufferedRow | undefined>(rows);
    this.participants.end(how, (row) => ended.has(row));
  }

  private write(rows: readonly BufferedRow[], ready?: Promise<void>): Promise<void> | undefined {
    const { session } = this;
    const statements = rows.map(({ statement }) => statement);
    const isOpen = (): boolean => this.isOpen;
    let written: Promise<void> | undefined;
    try {
      const run = () => session.runAll?.(statements, isOpen) ?? runEach(session, statements, isOpen);
      written = this.inOrder(ready === undefined ? run : () => ready.then(run), ready !== undefined);
    } catch (reason) {
      throw this.failRows(rows, reason);
    }
    if (written === undefined) return undefined;
    for (const row of rows) this.unanswered.add(row);
    const done = (): void => {
      for (const row of rows) this.unanswered.delete(row);
      this.inFlight.delete(watched);
    };
    const watched = written.then(
      () => {
        done();
        if (this.ended !== undefined) this.endParticipants(rows, this.ended);
      },
      (reason: unknown) => {
        done();
        const error = this.failRows(rows, reason);
        // The end of the transaction is reported instead.
        if (!(reason instanceof TransactionOver) || this.ended === undefined) throw error;
      },
    );
    this.inFlight.add(watched);
    watched.catch(nothing);
    return watched;
  }

  /** Resolves with its end, or with the end of a savepoint that undoes `from`. Writes nothing. */
  follow(from = nextSequence()): Promise<TransactionEnd> {
    return this.participants.add({ at: nextSequence(), from }) as Promise<TransactionEnd>;
  }

  /** It must not commit from now on: an event that belongs to it is missing. */
  fail(error: unknown, from: number): void {
    // The failure of the function that began first is undone last.
    if (this.failure === undefined || from < this.failure.from) this.failure = { error, from };
  }

  savepoint(name: string): void {
    // An aborted transaction refuses SAVEPOINT.
    if (this.session.status() === 'aborted') return;
    this.savepoints.set(name, nextSequence(), this.session.dialect);
  }

  release(name: string): void {
    // It also refuses RELEASE.
    if (this.session.status() !== 'aborted') this.savepoints.release(name);
  }

  isOutermost(name: string): boolean {
    return this.savepoints.isOutermost(name);
  }

  rollbackTo(name: string): void {
    const since = this.savepoints.rollbackTo(name, nextSequence());
    if (since === undefined) return;
    this.buffered.dropSince(since);
    if (this.failure !== undefined && this.failure.from > since) this.failure = undefined;
    for (const row of this.unanswered) if (row.from > since) row.isUndone = true;
    for (const row of this.participants.rollbackTo(since)) this.buffered.add(row);
  }

  /**
   * Work that must end before a COMMIT may be sent: the events of running functions that began it, and all rows in flight.
   * `undefined`: nothing; with `keepsBuffered` buffered rows stay buffered. Throws or rejects with the reason why the COMMIT
   * must not be sent.
   */
  beforeCommit(result: CallbackResult | undefined, keepsBuffered = false): Promise<void> | undefined {
    this.isCommitting = true;
    for (let { scope } = this; scope !== undefined; scope = scope.parent) {
      const { beforeCommit } = scope;
      // The function may write again in the next transaction.
      if (beforeCommit === undefined || scope.wroteAndLostAll) continue;
      scope.beforeCommit = undefined;
      void this.participants.add({ at: nextSequence(), from: scope.since }, (how) => {
        if (how !== 'rolled_back') return;
        scope.lostEvent = true;
        scope.beforeCommit = beforeCommit;
      });
      const failed = (error: unknown): void => this.fail(error, scope.since);
      try {
        beforeCommit(result)?.catch(failed);
      } catch (error) {
        failed(error);
      }
    }
    this.isCommitting = false;
    if (!keepsBuffered || this.inFlight.size > 0) this.writeBuffered()?.catch(nothing);
    if (this.inFlight.size > 0) return this.settled();
    if (this.failure !== undefined) throw this.failure.error;
    return undefined;
  }

  private async settled(): Promise<void> {
    while (this.inFlight.size > 0) {
      await Promise.allSettled(this.inFlight);
      this.writeBuffered()?.catch(nothing);
    }
    if (this.failure !== undefined) throw this.failure.error;
  }

  /** `neverBegan`: earlier writes were in no transaction. */
  hasEnded(how: TransactionEnd, neverBegan = false): void {
    if (this.ended !== undefined) return;
    this.ended = how;
    this.neverBegan = neverBegan;
    this.endParticipants(this.buffered.take(), unlessRolledBack(how));
    // For rows in flight the answers decide, unless all of it is undone.
    this.participants.close(
      how,
      (row) => how === 'rolled_back' || row === undefined || !this.unanswered.has(row),
    );
  }
}

function runEach(
  session: DriverSession,
  statements: readonly Statement[],
  isOpen: () => boolean,
): Promise<void> | undefined {
  const all = statements.map((statement) => session.run(statement, isOpen));
  return all[0] === undefined ? undefined : Promise.all(all).then(nothing);
}

/** The reason is reported elsewhere. */
function nothing(): void {}

/**
 * A transaction as seen on its connection: statements are called, and answered later. Its states:
 *
 * - Begun: a BEGIN, SQLite's SAVEPOINT, or a query that begins one was called. Open when the database reports it. Over, and never
 *   began, when the database reports none or the next BEGIN is called.
 * - Open: `isConfirmed`; also if the BEGIN was not seen. A statement that commits leads to waiting if rows are in flight, else to
 *   committing; buffered rows may go in one write with it. ROLLBACK leads to rolling back.
 * - Waiting: `sentBeforeCommit`. Committing when the database has the rows. If it rejects one, rolling back: the COMMIT fails.
 * - Committing: `commitIsSent`. Then over; open again if SQLite has refused the COMMIT.
 * - Rolling back: `rollbackIsSent`. Then over.
 * - Over: `transaction.ended`, and not in the list of its connection.
 *
 * A lost connection ends all of them: `unknown` if COMMIT was sent, else `rolled_back`. AND CHAIN ends one and opens the next
 * with the same answer.
 */
export interface TrackedTransaction {
  readonly transaction: Transaction;
  /** The database has reported it as open; before that, its BEGIN is in flight. */
  isConfirmed: boolean;
  commitIsSent: boolean;
  /** COMMIT was called: it may still wait, and a BEGIN that is called now begins the next one. */
  commitIsCalled: boolean;
  /** It waits for rows. The promise is everything sent before it; the rows follow that. */
  sentBeforeCommit?: Promise<void>;
  rollbackIsSent: boolean;
  /** The answer also opens the next one: AND CHAIN, or a BEGIN in the same text. */
  rollbackChains?: boolean;
  /** SQLite's SAVEPOINT, whose RELEASE commits; or any query, if the session begins transactions itself. */
  readonly begunBy: 'begin' | 'savepoint' | 'query';
}

export function isEnding({ commitIsCalled, rollbackIsSent }: TrackedTransaction): boolean {
  return commitIsCalled || rollbackIsSent;
}

/** With a transaction that is an SQLite savepoint, its RELEASE commits. */
export function commitsIt(kind: StatementKind, { begunBy, transaction }: TrackedTransaction): boolean {
  if (kind.is === 'release') return begunBy === 'savepoint' && transaction.isOutermost(kind.name);
  return kind.is === 'commit' || kind.is === 'implicit commit' || kind.is === 'prepare';
}

export function followSavepoint(kind: StatementKind, transaction: Transaction): void {
  if (kind.is === 'savepoint') transaction.savepoint(kind.name);
  else if (kind.is === 'release') transaction.release(kind.name);
  else if (kind.is === 'rollback to') transaction.rollbackTo(kind.name);
}

export function isQuery({ is }: StatementKind): boolean {
  return is === 'read' || is === 'write';
}

// the contents of one transaction: rows of svc, savepoints, and listeners for its end.

/** `left out`: the transaction was committed, or may have been, without this row. */
export type ParticipantEnd = TransactionEnd | 'left out';

interface NewParticipant {
  readonly at: number;
  /** The first write of its function, or its call: a rollback to before it undoes the participant. */
  readonly from: number;
  readonly row?: BufferedRow | undefined;
}

interface Participant extends NewParticipant {
  readonly end: (how: ParticipantEnd) => void;
}

/** Events that wait for the end of a transaction, with a row in it or without. */
class Participants {
  private all: Participant[] = [];
  private over: TransactionEnd | undefined;

  /** `onEnd` is called synchronously at the end, before any awaiting code runs. */
  add(participant: NewParticipant, onEnd?: (how: ParticipantEnd) => void): Promise<ParticipantEnd> {
    const { promise, resolve } = Promise.withResolvers<ParticipantEnd>();
    const end = (how: ParticipantEnd): void => {
      onEnd?.(how);
      resolve(how);
    };
    if (this.over === undefined) this.all.push({ ...participant, end });
    else end(this.over);
    return promise;
  }

  /** Everything that joins later has ended. `isEnded` decides for present participants. */
  close(how: TransactionEnd, isEnded: (row: BufferedRow | undefined) => boolean): void {
    this.over = how;
    this.end(how, isEnded);
  }

  end(how: ParticipantEnd, isEnded: (row: BufferedRow | undefined) => boolean): void {
    const ended = this.all.filter(({ row }) => isEnded(row));
    this.all = this.all.filter(({ row }) => !isEnded(row));
    for (const participant of ended) participant.end(how);
  }

  /** Returns rows that are gone although their function began before, and is in effect. */
  rollbackTo(since: number): readonly BufferedRow[] {
    const undone = this.all.filter(({ from }) => from > since);
    this.all = this.all.filter(({ from }) => from < since);
    for (const participant of undone) participant.end('rolled_back');
    return this.all.flatMap(({ at, row }) => (at > since && row !== undefined ? [row] : []));
  }
}

function unlessRolledBack(how: ParticipantEnd): ParticipantEnd {
  return how === 'rolled_back' ? how : 'left out';
}

/** Between two numbers of `nextSequence()`. */
interface Span {
  readonly from: number;
  readonly to: number;
}

/** The savepoints of one transaction, and the spans that rollbacks have undone. Times are numbers of `nextSequence()`. */
class Savepoints {
  private all: { readonly name: string; readonly at: number }[] = [];
  private undone: Span[] = [];

  set(name: string, at: number, dialect: Dialect): void {
    // In other databases the release of this savepoint uncovers an earlier one of that name.
    if (dialect === 'mysql') this.all = this.all.filter((one) => one.name !== name);
    this.all.push({ name, at });
  }

  release(name: string): void {
    const index = this.lastOf(name);
    if (index >= 0) this.all.length = index;
  }

  isOutermost(name: string): boolean {
    return this.lastOf(name) === 0;
  }

  /** Returns when it was set: everything later is undone. `undefined`: no savepoint has that name. */
  rollbackTo(name: string, now: number): number | undefined {
    const index = this.lastOf(name);
    const from = this.all[index]?.at;
    if (from === undefined) return undefined;
    this.all.length = index + 1;
    this.undone = this.undone.filter((span) => span.from < from);
    this.undone.push({ from, to: now });
    return from;
  }

  hasUndone(at: number): boolean {
    // Spans are sorted and disjoint.
    const span = this.undone.findLast(({ from }) => from < at);
    return span !== undefined && at < span.to;
  }

  private lastOf(name: string): number {
    return this.all.findLastIndex((one) => one.name === name);
  }
}

/** A row that waits for the application's next statement. */
export interface BufferedRow {
  readonly statement: Statement;
  /** A rollback to before this undoes the row: the first write of its function, or its call. */
  readonly from: number;
  /** When it was buffered, in `nextSequence()`. */
  readonly at: number;
  /** Converts the driver's error for the application. */
  readonly explain: (error: unknown) => unknown;
  /** A rollback to a savepoint has undone its function, whatever the database answers for the row. */
  isUndone?: true;
}

/** The maximum in memory: the call that adds the last one waits until the database has them. */
const mostRows = 50;

/** Rows that are written together, before the application's next statement or in one write with its COMMIT. */
class BufferedRows {
  private rows: BufferedRow[] = [];

  get size(): number {
    return this.rows.length;
  }

  get isFull(): boolean {
    return this.rows.length >= mostRows;
  }

  add(row: BufferedRow): void {
    this.rows.push(row);
  }

  take(): readonly BufferedRow[] {
    const { rows } = this;
    this.rows = [];
    return rows;
  }

  /** Drops the rows that were buffered since then. `Participants.rollbackTo` returns those whose function is not undone. */
  dropSince(at: number): void {
    this.rows = this.rows.filter((row) => row.at < at);
  }
}
