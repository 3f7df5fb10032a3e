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

/** What the callback of an ORM's `transaction()` returned, before its COMMIT. */
export interface CallbackResult {
  readonly value: unknown;
  /** The application has said that it is the result of the function, too: `outbox.runInTransaction`. */
  readonly isResult?: boolean;
}

/** What a captured function that still runs does before a transaction commits that was begun inside of it. */
export type BeforeCommit = (result: CallbackResult | undefined) => Promise<void> | undefined;

/** Where a transaction was begun: in a captured function, or in what is inside of it. */
export interface OriginScope {
  readonly parent: OriginScope | undefined;
  readonly since: number;
  /** It has written, and all of that was rolled back. */
  readonly wroteAndLostAll: boolean;
  lostEvent: boolean;
  beforeCommit: BeforeCommit | undefined;
}

/** A function of one copy of this package may be within the transaction of another. */
const sequence = shared('transaction-sequence', () => ({ last: 0 }));

/** Orders functions, savepoints and events of this process: larger than all numbers before. */
export function nextSequence(): number {
  return ++sequence.last;
}

/** What svc has written into a transaction of the application. */
export interface Joined {
  /**
   * Resolves when the database has taken it, and rejects with the error as it was explained. `undefined`: it has taken it already, or it
   * is buffered until the next statement or the COMMIT, which fails then where this does.
   */
  readonly written: Promise<void> | undefined;
  /** What became of it. Resolves when the transaction, or the savepoint around it, has ended. */
  readonly ended: Promise<ParticipantEnd>;
}

interface Failure {
  readonly error: unknown;
  /** A savepoint that is older than this undoes all of the function that failed. */
  readonly from: number;
}

/** `isLater`: what it runs sends nothing at once, and nothing of the application may come before it. */
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
  /** Rows that are written right now, until it is known whether the database has taken them. */
  private readonly unanswered = new Set<BufferedRow>();
  private isClosed = false;
  /** The database has just answered: what goes on now has waited for that. */
  isAnswering = false;
  wasAnswered = false;
  /** Events are made for its COMMIT, which follows at once. */
  isCommitting = false;
  private readonly inOrder: InOrder;

  /** `inOrder` holds back what svc writes while the BEGIN itself has to wait. */
  constructor(session: DriverSession, scope: OriginScope | undefined, inOrder: InOrder = (run) => run()) {
    this.session = session;
    this.scope = scope;
    this.inOrder = inOrder;
  }

  get isOpen(): boolean {
    return this.ended === undefined;
  }

  /** An event that belongs to it is not in it. */
  get isIncomplete(): boolean {
    if (this.inFlight.size > 0 || this.buffered.size > 0 || this.failure !== undefined) return true;
    for (let { scope } = this; scope !== undefined; scope = scope.parent)
      if (scope.beforeCommit !== undefined) return true;
    return false;
  }

  /** Holds as long as what the answer has set going runs, and ends before anything else begins. */
  answers(): void {
    this.wasAnswered = true;
    if (this.isAnswering) return;
    this.isAnswering = true;
    queueMicrotask(() => {
      // Behind all that promises set going.
      nextTick(() => {
        this.isAnswering = false;
      });
    });
  }

  /** What was written in it then is rolled back, with all of it or with a savepoint. */
  hasUndone(at: number): boolean {
    return (this.ended === 'rolled_back' && !this.neverBegan) || this.savepoints.hasUndone(at);
  }

  /**
   * Writes into it, at once or before the next statement of the application. What is undone with `from` undoes the row, and nothing
   * else does. `explain` makes of the driver's error what the application may see. Throws that where the driver is synchronous. `onEnd`
   * hears of the end at once, before anybody who awaits it. `ready`: it is written after that, and not where that rejects; with no
   * synchronous driver.
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
    // The database takes nothing more before a savepoint is gone back to, which has the row written again.
    if (this.session.status() === 'aborted') return { written: undefined, ended };
    // Who reads rows of a query one by one would wait for what waits for the last of them: then the COMMIT tells of an error.
    const isBusy = this.session.isBusy?.() === true;
    if (this.session.runAll === undefined || ready !== undefined) {
      const written = this.write([row], ready);
      if (isBusy) written?.catch(nothing);
      return { written: isBusy ? undefined : written, ended };
    }
    this.buffered.add(row);
    return { written: this.buffered.isFull && !isBusy ? this.writeBuffered() : undefined, ended };
  }

  /** Its COMMIT is on its way: nothing that comes now can be in it. */
  close(): void {
    this.isClosed = true;
  }

  /** Writes what is buffered. Rejects with the reason why the database has not taken it. */
  writeBuffered(): Promise<void> | undefined {
    return this.buffered.size === 0 ? undefined : this.write(this.buffered.take());
  }

  /** For a COMMIT that the caller sends together with them. */
  takeBuffered(): readonly BufferedRow[] {
    return this.buffered.take();
  }

  /** The database has not taken these rows. Returns what the application may see of the reason. */
  rejected(rows: readonly BufferedRow[], reason: unknown): unknown {
    const error = rows[0]?.explain(reason) ?? reason;
    for (const { from, isUndone } of rows) if (isUndone !== true) this.fail(error, from);
    return error;
  }

  /** They are nowhere, however the transaction ends. */
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
        // Its end says it all.
        if (!(reason instanceof TransactionOver) || this.ended === undefined) throw error;
      },
    );
    this.inFlight.add(watched);
    watched.catch(nothing);
    return watched;
  }

  /** Resolves with its end, or with that of a savepoint that undoes `from`; writes nothing. */
  follow(from = nextSequence()): Promise<TransactionEnd> {
    return this.participants.add({ at: nextSequence(), from }) as Promise<TransactionEnd>;
  }

  /** From now on it must not commit: an event that belongs to it is missing. */
  fail(error: unknown, from: number): void {
    // That of the function that began first is the last to be forgiven.
    if (this.failure === undefined || from < this.failure.from) this.failure = { error, from };
  }

  savepoint(name: string): void {
    // The database does not make it.
    if (this.session.status() === 'aborted') return;
    this.savepoints.set(name, nextSequence(), this.session.dialect);
  }

  release(name: string): void {
    // The database refuses that, too.
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
   * What has to be done before a COMMIT may be sent: the events of functions that began it and still run, and all that is on its
   * way. `undefined`: nothing, and with `keepsBuffered` buffered rows stay so. Throws, or rejects with, the reason why it must not be sent.
   */
  beforeCommit(result: CallbackResult | undefined, keepsBuffered = false): Promise<void> | undefined {
    this.isCommitting = true;
    for (let { scope } = this; scope !== undefined; scope = scope.parent) {
      const { beforeCommit } = scope;
      // It may write again, in the next transaction.
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

  /** `neverBegan`: what was written by then was in no transaction. */
  hasEnded(how: TransactionEnd, neverBegan = false): void {
    if (this.ended !== undefined) return;
    this.ended = how;
    this.neverBegan = neverBegan;
    this.endParticipants(this.buffered.take(), unlessRolledBack(how));
    // Unless all of it is undone, the answers of those on their way tell.
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

/** Its reason is kept where it matters. */
function nothing(): void {}

/**
 * A transaction as it is seen on its connection: statements are called, and answered later.
 *
 * | It is | as told by | and becomes |
 * |---|---|---|
 * | begun | a BEGIN, SQLite's SAVEPOINT, or a query that begins one was called | open: the database says so; over, and never began: it says that none is open, or the next BEGIN is called |
 * | open | `isConfirmed`; also where the database says so of one that nobody saw begin | waiting: a statement that commits is called, and rows are on their way; committing: none is, or they go in one write with it; rolling back: ROLLBACK is called |
 * | waiting | `sentBeforeCommit` | committing: the database has the rows; rolling back, in place of the COMMIT, which fails: it has not taken one |
 * | committing | `commitIsSent` | over; open again: SQLite has refused the COMMIT |
 * | rolling back | `rollbackIsSent` | over |
 * | over | not in the list of its connection, `transaction.ended` | |
 *
 * A connection that is lost ends all of them: `unknown` where COMMIT was sent, else `rolled_back`. AND CHAIN ends one and opens the
 * next with the same answer.
 */
export interface TrackedTransaction {
  readonly transaction: Transaction;
  /** The database has said that it is open; before that, its BEGIN is on its way. */
  isConfirmed: boolean;
  commitIsSent: boolean;
  /** COMMIT was called: it may still wait, and a BEGIN that is called now begins the next one. */
  commitIsCalled: boolean;
  /** It waits for rows: what was sent before it, and what it waits for goes behind that. */
  sentBeforeCommit?: Promise<void>;
  rollbackIsSent: boolean;
  /** The next one is open when that is answered: AND CHAIN, or a BEGIN in the same text. */
  rollbackChains?: boolean;
  /** SQLite's SAVEPOINT, whose RELEASE commits it; or any query, where the session begins by itself. */
  readonly begunBy: 'begin' | 'savepoint' | 'query';
}

export function isEnding({ commitIsCalled, rollbackIsSent }: TrackedTransaction): boolean {
  return commitIsCalled || rollbackIsSent;
}

/** Of SQLite's transaction that is a savepoint, its RELEASE. */
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

// what one transaction holds: rows of svc, savepoints, and who waits for its end.

/** `left out`: the transaction was committed, or may have been, and this is not in it. */
export type ParticipantEnd = TransactionEnd | 'left out';

interface NewParticipant {
  readonly at: number;
  /** What is undone with this is undone with what it belongs to: the first write of a function, or its call. */
  readonly from: number;
  readonly row?: BufferedRow | undefined;
}

interface Participant extends NewParticipant {
  readonly end: (how: ParticipantEnd) => void;
}

/** Who waits for the end of a transaction: events, with a row in it or without. */
class Participants {
  private all: Participant[] = [];
  private over: TransactionEnd | undefined;

  /** `onEnd` hears of the end at once, before anybody who awaits it. */
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

  /** From now on all that comes has ended. `isEnded`: of what is there. */
  close(how: TransactionEnd, isEnded: (row: BufferedRow | undefined) => boolean): void {
    this.over = how;
    this.end(how, isEnded);
  }

  end(how: ParticipantEnd, isEnded: (row: BufferedRow | undefined) => boolean): void {
    const ended = this.all.filter(({ row }) => isEnded(row));
    this.all = this.all.filter(({ row }) => !isEnded(row));
    for (const participant of ended) participant.end(how);
  }

  /** Returns the rows that are gone though what they belong to began before, and stands. */
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

/** The savepoints of one transaction, and what was undone by going back to them. Times are numbers of `nextSequence()`. */
class Savepoints {
  private all: { readonly name: string; readonly at: number }[] = [];
  private undone: Span[] = [];

  set(name: string, at: number, dialect: Dialect): void {
    // Of the others, the earlier one of that name is there again when this one is released.
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

  /** Returns when it was set: what came after that is undone. `undefined`: there is none of that name. */
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
    // They are in order and apart.
    const span = this.undone.findLast(({ from }) => from < at);
    return span !== undefined && at < span.to;
  }

  private lastOf(name: string): number {
    return this.all.findLastIndex((one) => one.name === name);
  }
}

/** One row that waits for the next statement of the application. */
export interface BufferedRow {
  readonly statement: Statement;
  /** What is undone with this undoes the row: the first write of its function, or its call. */
  readonly from: number;
  /** When it was buffered, in `nextSequence()`. */
  readonly at: number;
  /** Makes of the driver's error what the application may see. */
  readonly explain: (error: unknown) => unknown;
  /** A rollback to a savepoint has undone its function, whatever the database says of the row. */
  isUndone?: true;
}

/** More than these are not kept in memory: the call that brings the last one waits until the database has them. */
const mostRows = 50;

/** Rows that are written together, before the next statement of the application or in one write with its COMMIT. */
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

  /** Those of functions since then are undone before they were written, and those that were written since then are gone. */
  dropSince(at: number): void {
    this.rows = this.rows.filter((row) => row.at < at);
  }
}
