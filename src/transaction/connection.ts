import type {
  Admission,
  DriverSession,
  RowsAhead,
  Statement,
  TransactionEnd,
  TransactionStatus,
  WatchedConnection,
} from './driver.ts';
import type { HeldRow } from './inside/held-rows.ts';
import { isolated } from './isolated-session.ts';
import { currentScope, enterFollowUp, type Scope } from './scope.ts';
import { commitsIt, followSavepoint, isLeaving, isQuery, type SeenTransaction } from './seen-transaction.ts';
import { kindOf, type StatementKind } from './statements.ts';
import { type CallbackResult, Transaction } from './transaction.ts';

type Gate = ReturnType<WatchedConnection['sendsWithRows']>;

/** One connection of the application: its transactions, one after the other. What a driver's patch sees, it tells here. */
export class Connection implements WatchedConnection {
  readonly session: DriverSession;
  private readonly onUngated: () => void;
  private readonly onNotUnderstood: (error: unknown) => void;
  /** The first is the one that the database is in or comes to next, the last the one that statements are called in. */
  private transactions: readonly SeenTransaction[] = [];
  /** A COMMIT waits for events, and what is sent after it waits behind it. */
  private line: Promise<void> | undefined;

  constructor(
    make: (connection: Connection) => DriverSession,
    onUngated: () => void,
    onNotUnderstood: (error: unknown) => void = nothing,
  ) {
    this.onUngated = onUngated;
    this.onNotUnderstood = onNotUnderstood;
    this.session = isolated(make(this));
  }

  get current(): Transaction | undefined {
    return this.transactions.at(-1)?.transaction;
  }

  sends(text: string): Admission {
    return this.admits(text, false) as Admission;
  }

  sendsWithRows(text: string): Gate {
    return this.admits(text, true);
  }

  private admits(text: string, takesRows: boolean): Gate {
    const kind = kindOf(text, this.session.dialect);
    const all = kind.all ?? [kind];
    const before = this.transactions.at(-1);
    const gate = this.begins(kind);
    const tx = this.transactions.at(-1);
    const commits = tx?.rollbackIsSent === false && all.some((one) => commitsIt(one, tx));
    this.follows(all, tx, tx !== before);
    if (gate !== undefined) return gate;
    if (tx !== undefined) {
      if (commits) {
        tx.commitIsCalled = kind.is === 'commit';
        const isAlone = kind.is === 'commit' && kind.all === undefined && this.line === undefined;
        return this.commits(tx, takesRows && isAlone);
      }
      // ROLLBACK; BEGIN in one text: the next one is told by the answer.
      if (kind.is === 'rollback' || (tx === before && all.some(({ is }) => is === 'rollback'))) {
        tx.rollbackIsSent = true;
        tx.rollbackGoesOn = kind.all !== undefined || /\bchain\b/i.test(text);
      }
      if (kind.is !== 'rollback')
        return this.afterHeld(
          tx,
          all.some(({ is }) => is === 'rollback to'),
        );
    }
    return this.line && this.inLine(nothing);
  }

  sendsNoText(): Admission {
    const tx = this.transactions.at(-1);
    return tx === undefined ? this.line && this.inLine(nothing) : this.afterHeld(tx, false);
  }

  /** Tells the function that sends them, and the savepoints, in the order of the text. */
  private follows(all: readonly StatementKind[], tx: SeenTransaction | undefined, isNew: boolean): void {
    const scope = currentScope();
    // Behind a COMMIT or ROLLBACK that is on its way nothing is in its transaction.
    let inside = tx === undefined || isLeaving(tx) ? undefined : tx.transaction;
    scope?.uses(inside, false);
    for (const one of all) {
      if (one.is === 'write') scope?.uses(inside, true);
      if (inside !== undefined) followSavepoint(one, inside);
      if (!isNew && (one.is === 'rollback' || one.is === 'commit')) inside = undefined;
    }
  }

  /** Rows that are held are before what the application sends next, and behind a rollback to a savepoint, which would undo them. */
  private afterHeld({ transaction, rollbackIsSent }: SeenTransaction, undoes: boolean): Admission {
    const written = rollbackIsSent || undoes ? undefined : transaction.writeHeld();
    if (written === undefined) return this.line && this.inLine(nothing);
    // It may be long until its turn.
    written.catch(nothing);
    return this.inLine(() => written);
  }

  answered(status: TransactionStatus, ended: TransactionEnd | undefined): void {
    const [first] = this.transactions;
    if (status === 'none') {
      if (first === undefined) return;
      // Without BEGIN there may have been nothing to commit. SQLite answers at once: its BEGIN has failed.
      const isOver = this.session.dialect === 'sqlite' || (ended !== undefined && first.begunBy === 'query');
      if (first.isConfirmed || isOver) this.end(first, ended);
      else queueMicrotask(() => this.forgetUnbegun());
      return;
    }
    // COMMIT AND CHAIN: the next one is open already.
    const isNext =
      ended === 'committed' || ended === 'unknown' || (ended === 'rolled_back' && this.isRollback(first));
    if (isNext && first?.isConfirmed) this.end(first, ended);
    const tx = this.transactions[0] ?? this.add(undefined, 'begin');
    tx.isConfirmed = true;
    // SQLite answers at once: its COMMIT has failed, and can be tried again.
    if (this.session.dialect === 'sqlite') {
      tx.commitIsSent = false;
      tx.commitIsCalled = false;
    }
  }

  /** In PostgreSQL the answer to ROLLBACK TO is the same as to ROLLBACK, and after this none is open. */
  private isRollback(tx: SeenTransaction | undefined): boolean {
    if (tx?.rollbackIsSent !== true) return false;
    return tx.rollbackGoesOn === true || this.session.dialect !== 'postgres';
  }

  isLost(): void {
    for (const tx of this.transactions) this.end(tx, undefined);
  }

  isNotUnderstood(error: unknown): void {
    this.onNotUnderstood(error);
    for (const tx of this.transactions) this.end(tx, 'unknown');
  }

  /** Tells of a transaction that this statement begins. Returns how long it has to wait where it commits another one. */
  private begins(kind: StatementKind): Admission {
    const { session } = this;
    const last = this.transactions.at(-1);
    const isFree = last === undefined || isLeaving(last);
    const isSavepoint = isFree && kind.is === 'savepoint' && session.dialect === 'sqlite';
    const isByQuery = isFree && isQuery(kind) && session.beginsByItself?.() === true;
    if (kind.is !== 'begin' && !isSavepoint && !isByQuery) return undefined;
    let gate: Admission;
    if (!isFree) {
      if (last.isConfirmed && session.dialect !== 'mysql') return undefined;
      if (last.isConfirmed) gate = this.commits(last, false) as Admission;
      // One that came to nothing.
      else this.end(last, 'rolled_back');
    }
    const begunBy = isSavepoint ? 'savepoint' : isByQuery ? 'query' : 'begin';
    const tx = this.add(enterFollowUp(), begunBy);
    gate?.catch(() => this.end(tx, 'rolled_back'));
    return gate;
  }

  /** `pg` has all answers now, that to BEGIN among them, and it has opened nothing. */
  private forgetUnbegun(): void {
    const [first] = this.transactions;
    if (first === undefined || first.isConfirmed || this.line !== undefined) return;
    if (this.session.dialect === 'postgres' && this.session.isBusy?.() === false)
      this.end(first, 'rolled_back');
  }

  private add(scope: Scope | undefined, begunBy: SeenTransaction['begunBy']): SeenTransaction {
    const transaction = new Transaction(this.session, scope, (run, isLater) =>
      this.atItsTurn(tx, run, isLater),
    );
    const tx: SeenTransaction = {
      transaction,
      isConfirmed: false,
      commitIsSent: false,
      commitIsCalled: false,
      rollbackIsSent: false,
      begunBy,
    };
    this.transactions = [...this.transactions, tx];
    return tx;
  }

  /**
   * What svc writes. Of a transaction whose BEGIN still waits behind another's COMMIT, it does so too. `pg` has it wait until the
   * connection is free: what the application sends after it must not come before it. What a COMMIT waits for goes before that, and
   * behind all that was sent before. Any driver waits where it `isLater`.
   */
  private atItsTurn<R extends Promise<void> | undefined>(
    tx: SeenTransaction,
    run: () => R,
    isLater = false,
  ): R {
    if (tx.commitTurn !== undefined) {
      const written = tx.commitTurn.then(run);
      this.holdLine(Promise.allSettled([this.line, written]).then(nothing));
      return written as R;
    }
    if (this.session.dialect === 'postgres' || isLater) return this.inLine(run as () => Promise<void>) as R;
    return this.line === undefined ? run() : (this.inLine(nothing).then(run) as R);
  }

  private commits(tx: SeenTransaction, takesRows: boolean): Gate {
    let waits: Promise<void> | undefined;
    try {
      waits = tx.transaction.beforeCommit(callbackResult(), takesRows);
    } catch (error) {
      if (this.line !== undefined) return this.inLine(() => this.refuse(tx, error));
      const refused = this.refuse(tx, error);
      return this.inLine(() => refused);
    }
    const send = (): void => {
      tx.commitIsSent = true;
      // Of the others, a statement that commits may fail, and the transaction goes on.
      if (this.session.dialect === 'postgres') tx.transaction.close();
    };
    if (waits !== undefined) {
      const written = waits;
      tx.commitTurn = this.line ?? Promise.resolve();
      // It may be long until its turn.
      written.catch(nothing);
      return this.inLine(() => written.then(send, (error) => this.refuse(tx, error)));
    }
    const rows = tx.transaction.takeHeld();
    send();
    return rows.length === 0 ? this.line && this.inLine(nothing) : this.ahead(tx, rows);
  }

  /** What is sent behind this COMMIT waits: it may become a ROLLBACK. */
  private ahead(tx: SeenTransaction, rows: readonly HeldRow[]): RowsAhead {
    const { promise, resolve: answered } = Promise.withResolvers<void>();
    this.holdLine(promise);
    return {
      statements: rows.map(({ statement }) => statement),
      answered,
      unanswered: (error) => {
        tx.transaction.notTaken(rows, error);
        answered();
      },
      refused: (error) => {
        tx.commitIsSent = false;
        const reason = tx.transaction.notTaken(rows, error);
        return this.refuse(tx, reason).finally(answered);
      },
    };
  }

  /** Rolls back in place of a COMMIT. Throws, or rejects with, the reason. */
  private refuse(tx: SeenTransaction, reason: unknown): Promise<never> {
    const rollback = this.transactions.includes(tx) ? this.session.run(rollbackStatement) : undefined;
    if (rollback === undefined) throw reason;
    const refused = (): never => {
      throw reason;
    };
    return rollback.then(refused, refused);
  }

  /** After what waits already. */
  private inLine<T>(work: () => Promise<T> | T): Promise<T> {
    const turn = this.line === undefined ? Promise.resolve(work()) : this.line.then(work);
    this.holdLine(turn.then(nothing, nothing));
    return turn;
  }

  private holdLine(line: Promise<void>): void {
    this.line = line;
    line.then(() => {
      if (this.line === line) this.line = undefined;
    });
  }

  private end(tx: SeenTransaction, how: TransactionEnd | undefined): void {
    if (!this.transactions.includes(tx)) return;
    const { transaction, commitIsSent, isConfirmed } = tx;
    this.transactions = this.transactions.filter((one) => one !== tx);
    if (how === 'committed' && !commitIsSent && transaction.isIncomplete) this.onUngated();
    transaction.hasEnded(how ?? (commitIsSent ? 'unknown' : 'rolled_back'), !isConfirmed);
  }
}

const rollbackStatement: Statement = { text: 'ROLLBACK', values: [] };

/** Of the ORM's `transaction()`, or of its operation, that sends this COMMIT. */
function callbackResult(): CallbackResult | undefined {
  for (let scope = currentScope(); scope !== undefined; scope = scope.parent) {
    const { callbackResult: found } = scope;
    if (found !== undefined) return typeof found === 'function' ? found() : found;
  }
  return undefined;
}

function nothing(): void {}
