import { nextTick } from '../ground/builtins.ts';
import { shared } from '../ground/lifecycle.ts';
import { type DriverSession, type Statement, type TransactionEnd, TransactionOver } from './driver.ts';
import { type BufferedRow, BufferedRows } from './inside/buffered-rows.ts';
import { type ParticipantEnd, Participants, unlessRolledBack } from './inside/participants.ts';
import { Savepoints } from './inside/savepoints.ts';

export type { ParticipantEnd, TransactionEnd };

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
