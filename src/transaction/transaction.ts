import { AsyncLocalStorage } from 'node:async_hooks';
import { inStoreOfCaller } from '../context/context-store.ts';
import { nextTick } from '../ground/builtins.ts';
import { shared } from '../ground/lifecycle.ts';
import {
  type Dialect,
  type DriverSession,
  type Statement,
  type TransactionEnd,
  TransactionOver,
} from './driver.ts';

export type { TransactionEnd };

/** The result of the callback of an ORM's `transaction()`, before its COMMIT. */
export interface CallbackResult {
  readonly value: unknown;
  /** The application has declared it as the result of the function, too: `outbox.runInTransaction`. */
  readonly isResult?: boolean;
}

/** Called on a running captured function before a transaction commits that was begun inside it. */
type BeforeCommit = (result: CallbackResult | undefined) => Promise<void> | undefined;

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
  readonly scope: Scope | undefined;
  ended: TransactionEnd | undefined;
  private neverBegan = false;
  private readonly participants = new Participants();
  private savepoints: Savepoints | undefined;
  private failure: Failure | undefined;
  private inFlight: Set<Promise<void>> | undefined;
  private readonly buffered = new BufferedRows();
  /** Rows in flight: the database has not answered yet. */
  private unanswered: Set<BufferedRow> | undefined;
  private isClosed = false;
  /** The database has just answered: code that continues now has awaited that answer. */
  isAnswering = false;
  wasAnswered = false;
  /** Events are being made for its COMMIT, which follows at once. */
  isCommitting = false;
  private readonly inOrder: InOrder;

  /** `inOrder` holds back svc's statements while the BEGIN itself has to wait. */
  constructor(session: DriverSession, scope: Scope | undefined, inOrder: InOrder = (run) => run()) {
    this.session = session;
    this.scope = scope;
    this.inOrder = inOrder;
  }

  get isOpen(): boolean {
    return this.ended === undefined;
  }

  private get hasInFlight(): boolean {
    return this.inFlight !== undefined && this.inFlight.size > 0;
  }

  /** An event that belongs to it is missing. */
  get isIncomplete(): boolean {
    if (this.hasInFlight || this.buffered.size > 0 || this.failure !== undefined) return true;
    for (let { scope } = this; scope !== undefined; scope = scope.parent)
      if (scope.beforeCommit !== undefined) return true;
    return false;
  }

  /** True while the promises of an answer run, and false before anything else begins. */
  answers(): void {
    this.wasAnswered = true;
    if (this.isAnswering) return;
    this.isAnswering = true;
    // After all promise jobs.
    resolved.then(() => nextTick(hasAnswered, this));
  }

  /** Whether a write at that time was rolled back, with the transaction or with a savepoint. */
  hasUndone(at: number): boolean {
    return (this.ended === 'rolled_back' && !this.neverBegan) || this.savepoints?.hasUndone(at) === true;
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
    if (rows.length === 0) return;
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
    this.unanswered ??= new Set();
    for (const row of rows) this.unanswered.add(row);
    const done = (): void => {
      for (const row of rows) this.unanswered?.delete(row);
      this.inFlight?.delete(watched);
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
    this.inFlight ??= new Set();
    this.inFlight.add(watched);
    watched.catch(nothing);
    return watched;
  }

  /** A rollback to before this point undoes the event of a call; no other rollback does. */
  startOf(own: Scope | undefined): number {
    return own === undefined || own.isImplicit ? nextSequence() : own.startIn(this);
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
    this.savepoints ??= new Savepoints();
    this.savepoints.set(name, nextSequence(), this.session.dialect);
  }

  release(name: string): void {
    // It also refuses RELEASE.
    if (this.session.status() !== 'aborted') this.savepoints?.release(name);
  }

  isOutermost(name: string): boolean {
    return this.savepoints?.isOutermost(name) === true;
  }

  rollbackTo(name: string): void {
    const since = this.savepoints?.rollbackTo(name, nextSequence());
    if (since === undefined) return;
    this.buffered.dropSince(since);
    if (this.failure !== undefined && this.failure.from > since) this.failure = undefined;
    for (const row of this.unanswered ?? []) if (row.from > since) row.isUndone = true;
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
    if (!keepsBuffered || this.hasInFlight) this.writeBuffered()?.catch(nothing);
    if (this.hasInFlight) return this.settled();
    if (this.failure !== undefined) throw this.failure.error;
    return undefined;
  }

  private async settled(): Promise<void> {
    while (this.hasInFlight) {
      await Promise.allSettled(this.inFlight as Set<Promise<void>>);
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
      (row) => how === 'rolled_back' || row === undefined || this.unanswered?.has(row) !== true,
    );
  }
}

const resolved = Promise.resolve();
const nothingYet: readonly never[] = [];

/**
 * An array that V8 creates young. It creates the objects of a literal in the old generation once those of the first transactions
 * have survived a collection. There they keep everything alive that they refer to: measured 3 % of a transaction.
 */
function empty<T>(): T[] {
  return [...nothingYet];
}

function hasAnswered(transaction: Transaction): void {
  transaction.isAnswering = false;
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

/** `left out`: the transaction was committed, or may have been, without this row. */
type ParticipantEnd = TransactionEnd | 'left out';

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
  private all: Participant[] = empty();
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
    this.all = ended.length === this.all.length ? empty() : this.all.filter(({ row }) => !isEnded(row));
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
interface BufferedRow {
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
const maxRows = 50;

/** Rows that are written together, before the application's next statement or in one write with its COMMIT. */
class BufferedRows {
  private rows: BufferedRow[] = empty();

  get size(): number {
    return this.rows.length;
  }

  get isFull(): boolean {
    return this.rows.length >= maxRows;
  }

  add(row: BufferedRow): void {
    this.rows.push(row);
  }

  take(): readonly BufferedRow[] {
    const { rows } = this;
    if (rows.length === 0) return nothingYet;
    this.rows = empty();
    return rows;
  }

  /** Drops the rows that were buffered since then. `Participants.rollbackTo` returns those whose function is not undone. */
  dropSince(at: number): void {
    this.rows = this.rows.filter((row) => row.at < at);
  }
}

/**
 * A part of the application that takes part in transactions: a running captured function, the callback of an ORM's
 * `transaction()`, or the code after a BEGIN. Everything called and awaited there is inside it.
 */
export class Scope {
  readonly isImplicit: boolean;
  begun: Transaction | undefined;
  readonly since: number = nextSequence();
  /** Set by a running captured function that has made no event yet. */
  beforeCommit: BeforeCommit | undefined;
  /** The one event of a captured function exists; it is made before a COMMIT or at the end of the function. */
  hasEvent = false;
  /** That event was made before a COMMIT that failed: the function may retry. */
  lostEvent = false;
  /** The function's result is that of the transaction it opens. */
  wantsCallbackResult = false;
  /** A function is called when the result is needed. */
  callbackResult: CallbackResult | (() => CallbackResult | undefined) | undefined;
  /** Named by the application: all calls in here belong to it. */
  named: Transaction | undefined;
  /** Something was written outside any transaction, or in one that has ended without a rollback. */
  wroteOutside = false;
  endedAs: TransactionEnd | undefined;
  /** Like `wroteOutside`, for any statement. */
  sentOutside = false;
  private used: Use[] = empty();
  /** Something was written in a transaction that was rolled back. */
  private hasRolledBackWrite = false;

  private outer: Scope | undefined;
  /** Set if it was called after a BEGIN that is not answered yet. */
  private readonly entrance: Entrance | undefined;

  constructor(parent: Scope | undefined, isImplicit = false) {
    this.outer = parent;
    this.isImplicit = isImplicit;
    const place = storage.getStore();
    if (!isImplicit && isEntrance(place)) this.entrance = place;
  }

  /** Like `runInScope`, without a frame: the caller's place becomes `place`, and the previous one is returned. */
  static enter(place: Place): Place {
    const outer = storage.getStore();
    storage.enterWith(place);
    return outer;
  }

  /** The scope of a statement in this transaction. Its caller is inside, except for the BEGIN itself. */
  static in(transaction: Transaction | undefined, isBegin: boolean): Scope | undefined {
    for (let place = storage.getStore(); isEntrance(place); place = place.outer) {
      const { entered } = place;
      if (entered.begun !== transaction) continue;
      if (isBegin) return entered;
      if (entered.begun?.wasAnswered === false) place.isPassed = true;
      storage.enterWith(entered);
      return entered;
    }
    return currentScope();
  }

  /**
   * The caller's next calls are inside the scope, as no function encloses them. `waits`: from the answer to BEGIN on.
   */
  static enterImplicit(waits = true): Scope {
    let parent = currentScope();
    // A function that begins consecutive transactions must not nest them.
    while (parent?.isImplicit && parent.open().length === 0) parent = parent.parent;
    const entered = new Scope(parent, true);
    let outer = storage.getStore();
    while (outer !== undefined && isOver(outer)) outer = isEntrance(outer) ? outer.outer : outer.parent;
    storage.enterWith(waits ? { entered, outer } : entered);
    return entered;
  }

  get parent(): Scope | undefined {
    return this.entrance?.isPassed === true ? this.entrance.entered : this.outer;
  }

  set parent(parent: Scope | undefined) {
    this.outer = parent;
  }

  uses(transaction: Transaction | undefined, writes: boolean): void {
    const wroteAt = writes ? nextSequence() : undefined;
    for (let scope: Scope | undefined = this; scope !== undefined; scope = scope.parent) {
      if (transaction !== undefined) {
        scope.add(transaction, wroteAt);
        continue;
      }
      scope.sentOutside = true;
      if (writes) scope.wroteOutside = true;
    }
  }

  /**
   * The open transactions it took part in that `counts` accepts. If it wrote in any: only those in which a write is in effect.
   */
  open(counts: (transaction: Transaction) => boolean = always): readonly Transaction[] {
    this.forgetEnded();
    const used = this.used.filter(({ transaction }) => counts(transaction));
    const written = used.filter(({ wroteAt }) => wroteAt !== undefined);
    const inEffect = written.filter(isInEffect);
    const found = [inEffect, written, used].find(({ length }) => length > 0) ?? [];
    return found.map(({ transaction }) => transaction);
  }

  get wroteAndLostAll(): boolean {
    const hasWritten = this.hasRolledBackWrite || this.used.some(({ wroteAt }) => wroteAt !== undefined);
    return hasWritten && !this.hasWriteInEffect();
  }

  /** Its writes are rolled back; or it wrote nothing, and its enclosing scope is undone. */
  get isUndone(): boolean {
    if (this.wroteAndLostAll) return true;
    return findTransactions(this).some((transaction) => transaction.hasUndone(this.startIn(transaction)));
  }

  /** The transaction that the application has named last around it. */
  get namedAround(): Transaction | undefined {
    for (let scope: Scope | undefined = this; scope !== undefined; scope = scope.parent)
      if (scope.named !== undefined) return scope.named;
    return undefined;
  }

  /** Whether its event must still be made; the caller makes it then. */
  takeEvent(): boolean {
    const isDue = !this.hasEvent || (this.lostEvent && this.hasTriedAgain());
    this.hasEvent = true;
    this.beforeCommit = undefined;
    if (isDue) this.lostEvent = false;
    return isDue;
  }

  /** Its writes are in effect; or it has written nothing and is in the next transaction. */
  private hasTriedAgain(): boolean {
    if (this.hasWriteInEffect()) return true;
    return !this.hasRolledBackWrite && this.used.length > 0;
  }

  /** It has written, and not all of that is undone. */
  private hasWriteInEffect(): boolean {
    this.forgetEnded();
    return this.wroteOutside || this.used.some(isInEffect);
  }

  /** A rollback of this transaction to before this point undoes it completely: its first write in effect, or its call. */
  startIn(transaction: Transaction): number {
    return this.used.find((one) => one.transaction === transaction)?.wroteAt ?? this.since;
  }

  private add(transaction: Transaction, wroteAt: number | undefined): void {
    const known = this.used.find((one) => one.transaction === transaction);
    if (known !== undefined) {
      if (wroteAt !== undefined && !isInEffect(known)) known.wroteAt = wroteAt;
      return;
    }
    this.forgetEnded();
    this.used.push(new Use(transaction, wroteAt));
  }

  private forgetEnded(): void {
    if (this.used.every(({ transaction }) => transaction.isOpen)) return;
    for (const use of this.used) {
      if (use.transaction.isOpen || use.wroteAt === undefined) continue;
      if (isInEffect(use)) {
        this.wroteOutside = true;
        // The transaction never began, and held nothing.
        if (use.transaction.ended !== 'rolled_back') this.endedAs = use.transaction.ended;
      } else this.hasRolledBackWrite = true;
    }
    this.used = this.used.filter(({ transaction }) => transaction.isOpen);
  }
}

/** A class, and not a literal: see `empty`. */
class Use {
  readonly transaction: Transaction;
  /** The first write in effect, or else one that was undone. */
  wroteAt: number | undefined;

  constructor(transaction: Transaction, wroteAt: number | undefined) {
    this.transaction = transaction;
    this.wroteAt = wroteAt;
  }
}

function isInEffect({ transaction, wroteAt }: Use): boolean {
  return wroteAt !== undefined && !transaction.hasUndone(wroteAt);
}

/**
 * After a BEGIN whose answer the caller awaits. The caller's frame is entered at once, and with it every caller that does not
 * await it. When the answer of the connection arrives, the code that continues has awaited it, and so is inside the
 * transaction.
 */
interface Entrance {
  readonly entered: Scope;
  readonly outer: Place;
  /** The caller does not wait: it has sent more in the transaction before its BEGIN was answered. */
  isPassed?: true;
}

/** The place where a callback runs: opaque to callers, for `runInScope`. */
type Place = Scope | Entrance | undefined;

const storage = shared('transaction-scopes', () => new AsyncLocalStorage<Place>());

export function currentScope(): Scope | undefined {
  const place = storage.getStore();
  return isEntrance(place) ? pass(place) : place;
}

export function runInScope<R>(place: Place, work: () => R): R {
  return storage.run(place, work);
}

/** Binds a callback to the current scope and user, as it may be called without a context, such as from a socket. */
export function inScopeOfCaller<F>(callback: F): F {
  if (typeof callback !== 'function') return callback;
  const runAsCaller = asCaller();
  return function (this: unknown, ...given: unknown[]): unknown {
    return runAsCaller(() => Reflect.apply(callback, this, given));
  } as F;
}

/** Runs work later as if the current caller called it: in its scope, and with its values of svc's context. */
export function asCaller(): <R>(work: () => R) => R {
  const place = storage.getStore();
  const runForUser = inStoreOfCaller();
  if (place === undefined) return runForUser;
  return (work) => runInScope(place, () => runForUser(work));
}

function isOver(place: Scope | Entrance): boolean {
  if (isEntrance(place)) return place.entered.begun?.isOpen === false;
  return place.isImplicit && place.open().length === 0;
}

function isEntrance(place: Place): place is Entrance {
  return place !== undefined && 'entered' in place;
}

/** Enters the scope that the caller has awaited. */
function pass(entrance: Entrance): Scope | undefined {
  const found = passed(entrance);
  if (found !== entrance) storage.enterWith(found);
  let place: Place = found;
  while (isEntrance(place)) place = place.outer;
  return place;
}

function passed(entrance: Entrance): Place {
  const { entered, outer } = entrance;
  const around = isEntrance(outer) ? passed(outer) : outer;
  const { begun } = entered;
  if (begun?.isOpen === true && begun.isAnswering) {
    // A scope that the caller has begun and awaited before encloses this one.
    if (!isEntrance(around) && around?.isImplicit) entered.parent = around;
    return entered;
  }
  return around === outer ? entrance : { entered, outer: around };
}

function always(): boolean {
  return true;
}

/**
 * The open transactions of a call: the one that the application has named, else those it wrote in, else those it
 * read in. A call without statements takes part in those around it. Several: the transaction is ambiguous. None: also if some of
 * its writes are committed, as they stay whatever happens to the rest. A transaction that is committing right now still counts.
 */
export function findTransactions(own: Scope | undefined = currentScope()): readonly Transaction[] {
  const named = own?.namedAround;
  if (named !== undefined) return named.isOpen ? [named] : [];
  for (let scope = own; scope !== undefined; scope = scope.parent) {
    if (scope.isImplicit) scope = outermostImplicit(scope);
    const open = scope.isImplicit ? begunAround(own, scope) : scope.open();
    // Its writes are committed, so its event must not depend on another transaction.
    if (scope === own && scope.wroteOutside) return open.filter(({ isCommitting }) => isCommitting);
    if (open.length > 0) return open;
  }
  return [];
}

/** A function that has begun two transactions is in both: the transaction of its calls is ambiguous. */
function outermostImplicit(scope: Scope): Scope {
  let outermost = scope;
  while (outermost.parent?.isImplicit) outermost = outermost.parent;
  return outermost;
}

/**
 * Without transactions that others have begun beside this one, and without those whose COMMIT is in flight: the next one on
 * that connection has begun.
 */
function begunAround(own: Scope | undefined, outermost: Scope): readonly Transaction[] {
  const around = new Set<unknown>();
  for (let scope = own; scope !== undefined; scope = scope.parent) around.add(scope);
  const open = outermost.open(
    ({ scope }) => scope === undefined || !(scope as Scope).isImplicit || around.has(scope),
  );
  return open.filter((one, index) => !open.some(({ session }, at) => at > index && session === one.session));
}

/** How the transaction of a call ends, once it does; `undefined`: the call took part in none. */
export function endOfTransaction(own: Scope | undefined): Promise<TransactionEnd> | undefined {
  if (own?.isUndone) return Promise.resolve('rolled_back');
  const found = findTransactions(own);
  if (found.length === 0) return undefined;
  const ends = Promise.all(found.map((transaction) => transaction.follow(transaction.startOf(own))));
  return ends.then((all) => (all.includes('rolled_back') ? 'rolled_back' : 'committed'));
}
