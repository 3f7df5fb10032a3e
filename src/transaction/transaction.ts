import { shared } from '../ground/lifecycle.ts';
import type { DriverSession, Statement, TransactionEnd } from './driver.ts';
import { type HeldRow, HeldRows } from './held-rows.ts';

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
export interface Beginner {
  readonly parent: Beginner | undefined;
  readonly since: number;
  beforeCommit: BeforeCommit | undefined;
}

/** A function of one copy of this package may be within the transaction of another. */
const moments = shared('transaction-moments', () => ({ last: 0 }));

/** Later than all moments before: what came first, of functions, savepoints and events. */
export function nextMoment(): number {
  return ++moments.last;
}

/** What svc has written into a transaction of the application. */
export interface Joined {
  /**
   * Resolves when the database has taken it, and rejects with the error as it was explained. `undefined`: it has taken it already, or it
   * is held until the next statement or the COMMIT, which fails then where this does.
   */
  readonly written: Promise<void> | undefined;
  /** What became of it. Resolves when the transaction, or the savepoint around it, has ended. */
  readonly ended: Promise<TransactionEnd>;
}

interface Part {
  readonly at: number;
  readonly end: (how: TransactionEnd) => void;
}

interface Failure {
  readonly error: unknown;
  /** Where the function began that failed: a savepoint from before that undoes all of it. */
  readonly since: number;
}

/** `isLater`: what it runs sends nothing at once, and nothing of the application may come before it. */
type InTurn = (run: () => Promise<void> | undefined, isLater?: boolean) => Promise<void> | undefined;

/** One transaction on one connection of the application, from its BEGIN to its end. */
export class Transaction {
  readonly session: DriverSession;
  /** Where its BEGIN was called. */
  readonly scope: Beginner | undefined;
  private end: TransactionEnd | undefined;
  private parts: Part[] = [];
  private savepoints: { readonly name: string; readonly at: number }[] = [];
  private failure: Failure | undefined;
  private readonly underWay = new Set<Promise<void>>();
  private readonly held = new HeldRows();
  /** Rows that are written right now, until it is known whether the database has taken them. */
  private readonly sent = new Set<HeldRow>();
  private isClosed = false;
  private readonly inTurn: InTurn;

  /** `inTurn` holds back what svc writes while the BEGIN itself has to wait. */
  constructor(session: DriverSession, scope: Beginner | undefined, inTurn: InTurn = (run) => run()) {
    this.session = session;
    this.scope = scope;
    this.inTurn = inTurn;
  }

  get isOpen(): boolean {
    return this.end === undefined;
  }

  /** An event that belongs to it is not in it. */
  get isIncomplete(): boolean {
    if (this.underWay.size > 0 || this.held.size > 0 || this.failure !== undefined) return true;
    for (let { scope } = this; scope !== undefined; scope = scope.parent)
      if (scope.beforeCommit !== undefined) return true;
    return false;
  }

  /**
   * Writes into it, at once or before the next statement of the application. `since`: when the function began; `explain` makes of
   * the driver's error what the application may see. Throws that where the driver is synchronous. `onEnd` hears of the end at once,
   * before anybody who awaits it. `ready`: it is written after that, and not where that rejects; with no synchronous driver.
   */
  join(
    statement: Statement,
    since: number,
    explain: (error: unknown) => unknown,
    onEnd?: (how: TransactionEnd) => void,
    ready?: Promise<void>,
  ): Joined {
    const at = nextMoment();
    if (this.end !== undefined || this.isClosed) {
      onEnd?.('rolled_back');
      throw explain(new Error('the transaction is over'));
    }
    const ended = this.addPart(at, onEnd);
    // The database takes nothing more, and will roll back what is there.
    if (this.session.status() === 'doomed') return { written: undefined, ended };
    const row = { statement, since, at, explain };
    // Who reads rows of a query one by one would wait for what waits for the last of them: then the COMMIT tells of an error.
    const isBusy = this.session.isBusy?.() === true;
    if (this.session.runAll === undefined || ready !== undefined) {
      const written = this.write([row], ready);
      if (isBusy) written?.catch(nothing);
      return { written: isBusy ? undefined : written, ended };
    }
    this.held.add(row);
    return { written: this.held.isFull && !isBusy ? this.writeHeld() : undefined, ended };
  }

  /** Its COMMIT is on its way: nothing that comes now can be in it. */
  close(): void {
    this.isClosed = true;
  }

  /** Writes what is held. Rejects with the reason why the database has not taken it. */
  writeHeld(): Promise<void> | undefined {
    return this.held.size === 0 ? undefined : this.write(this.held.take());
  }

  /** What is held goes with a COMMIT, and is the caller's to write. */
  takeHeld(): readonly HeldRow[] {
    return this.held.take();
  }

  /** The database has not taken these rows. Returns what the application may see of the reason. */
  notTaken(rows: readonly HeldRow[], reason: unknown): unknown {
    const error = rows[0]?.explain(reason) ?? reason;
    for (const { since, isForgiven } of rows) if (isForgiven !== true) this.fail(error, since);
    return error;
  }

  /** They are nowhere, however the transaction ends. */
  private notWritten(rows: readonly HeldRow[], reason: unknown): unknown {
    const lost = new Set(rows.map(({ at }) => at));
    for (const part of this.parts) if (lost.has(part.at)) part.end('rolled_back');
    this.parts = this.parts.filter(({ at }) => !lost.has(at));
    return this.notTaken(rows, reason);
  }

  private write(rows: readonly HeldRow[], ready?: Promise<void>): Promise<void> | undefined {
    const { session } = this;
    const statements = rows.map(({ statement }) => statement);
    let written: Promise<void> | undefined;
    try {
      const run = () => session.runAll?.(statements) ?? session.run(statements[0] as Statement);
      written = this.inTurn(ready === undefined ? run : () => ready.then(run), ready !== undefined);
    } catch (reason) {
      throw this.notWritten(rows, reason);
    }
    if (written === undefined) return undefined;
    for (const row of rows) this.sent.add(row);
    const watched = written.catch((reason: unknown) => {
      throw this.notWritten(rows, reason);
    });
    this.underWay.add(watched);
    const done = (): void => {
      for (const row of rows) this.sent.delete(row);
      this.underWay.delete(watched);
    };
    watched.then(done, done);
    return watched;
  }

  /** Resolves with its end; writes nothing. */
  follow(): Promise<TransactionEnd> {
    return this.addPart(nextMoment());
  }

  /** From now on it must not commit: an event that belongs to it is missing. */
  fail(error: unknown, since: number): void {
    // That of the function that began first is the last to be forgiven.
    if (this.failure === undefined || since < this.failure.since) this.failure = { error, since };
  }

  savepoint(name: string): void {
    // The database does not make it.
    if (this.session.status() === 'doomed') return;
    // Of the others, the earlier one of that name is there again when this one is released.
    if (this.session.dialect === 'mysql')
      this.savepoints = this.savepoints.filter((one) => one.name !== name);
    this.savepoints.push({ name, at: nextMoment() });
  }

  release(name: string): void {
    const index = this.savepoints.findLastIndex((one) => one.name === name);
    if (index >= 0) this.savepoints.length = index;
  }

  isOutermost(name: string): boolean {
    return this.savepoints.findLastIndex((one) => one.name === name) === 0;
  }

  rollbackTo(name: string): void {
    const index = this.savepoints.findLastIndex((one) => one.name === name);
    const savepoint = this.savepoints[index];
    if (savepoint === undefined) return;
    this.savepoints.length = index + 1;
    const undone = this.parts.filter(({ at }) => at > savepoint.at);
    this.parts = this.parts.filter(({ at }) => at < savepoint.at);
    this.held.dropSince(savepoint.at);
    for (const part of undone) part.end('rolled_back');
    if (this.failure !== undefined && this.failure.since > savepoint.at) this.failure = undefined;
    for (const row of this.sent) if (row.since > savepoint.at) row.isForgiven = true;
  }

  /**
   * What has to be done before a COMMIT may be sent: the events of functions that began it and still run, and all that is on its
   * way. `undefined`: nothing, and with `takesHeld` what is held still is. Throws, or rejects with, the reason why it must not be sent.
   */
  beforeCommit(result: CallbackResult | undefined, takesHeld = false): Promise<void> | undefined {
    for (let { scope } = this; scope !== undefined; scope = scope.parent) {
      const { beforeCommit } = scope;
      if (beforeCommit === undefined) continue;
      scope.beforeCommit = undefined;
      const failed = (error: unknown): void => this.fail(error, scope.since);
      try {
        beforeCommit(result)?.catch(failed);
      } catch (error) {
        failed(error);
      }
    }
    if (!takesHeld || this.underWay.size > 0) this.writeHeld()?.catch(nothing);
    if (this.underWay.size > 0) return this.settled();
    if (this.failure !== undefined) throw this.failure.error;
    return undefined;
  }

  private async settled(): Promise<void> {
    while (this.underWay.size > 0) {
      await Promise.allSettled(this.underWay);
      this.writeHeld()?.catch(nothing);
    }
    if (this.failure !== undefined) throw this.failure.error;
  }

  hasEnded(how: TransactionEnd): void {
    if (this.end !== undefined) return;
    this.end = how;
    const unwritten = new Set(this.held.take().map(({ at }) => at));
    for (const part of this.parts) part.end(unwritten.has(part.at) ? 'rolled_back' : how);
    this.parts = [];
  }

  private addPart(at: number, onEnd?: (how: TransactionEnd) => void): Promise<TransactionEnd> {
    if (this.end !== undefined) return Promise.resolve(this.end);
    const { promise, resolve } = Promise.withResolvers<TransactionEnd>();
    const end = (how: TransactionEnd): void => {
      onEnd?.(how);
      resolve(how);
    };
    this.parts.push({ at, end: onEnd === undefined ? resolve : end });
    return promise;
  }
}

/** Its reason is kept where it matters. */
function nothing(): void {}
