import { isolate } from '../observe/otel-api.ts';
import type {
  Admission,
  Connections,
  DriverSession,
  RowsBeforeCommit,
  TransactionEnd,
  TransactionStatus,
  WatchedConnection,
} from './driver.ts';
import { kindOf, type StatementKind } from './statements.ts';
import { type CallbackResult, currentScope, Scope, Transaction } from './transaction.ts';

type AdmissionOrRows = Admission | RowsBeforeCommit;

/** One connection of the application and its consecutive transactions. The patch of a driver reports to it. */
export class Connection implements WatchedConnection {
  readonly session: DriverSession;
  private readonly onUnseenCommit: () => void;
  private readonly onNotUnderstood: (error: unknown) => void;
  /** First: the one that the database is in or enters next. Last: the one that statements are called in. */
  private transactions: readonly TrackedTransaction[] = [];
  /** While a COMMIT waits for events, later statements wait behind it. */
  private queue: Promise<void> | undefined;

  constructor(
    make: (connection: Connection) => DriverSession,
    onUnseenCommit: () => void,
    onNotUnderstood: (error: unknown) => void = nothing,
  ) {
    this.onUnseenCommit = onUnseenCommit;
    this.onNotUnderstood = onNotUnderstood;
    this.session = isolated(make(this));
  }

  get current(): Transaction | undefined {
    return this.transactions.at(-1)?.transaction;
  }

  sends(text: string): Admission {
    return this.admits(text, false) as Admission;
  }

  sendsWithRows(text: string): AdmissionOrRows {
    return this.admits(text, true);
  }

  private admits(text: string, takesRows: boolean): AdmissionOrRows {
    const kind = kindOf(text, this.session.dialect);
    const all = kind.all ?? [kind];
    const before = this.transactions.at(-1);
    const admission = this.begins(kind);
    const tx = this.transactions.at(-1);
    const commits = tx?.rollbackIsSent === false && all.some((one) => commitsIt(one, tx));
    this.follows(all, tx, tx !== before);
    if (admission !== undefined) return admission;
    if (tx !== undefined) {
      if (commits) {
        tx.commitIsCalled = kind.is === 'commit';
        const isAlone = kind.is === 'commit' && kind.all === undefined && this.queue === undefined;
        return this.commits(tx, takesRows && isAlone);
      }
      // After ROLLBACK; BEGIN in one text, the answer reports the next transaction.
      if (kind.is === 'rollback' || (tx === before && all.some(({ is }) => is === 'rollback'))) {
        tx.rollbackIsSent = true;
        tx.rollbackChains = kind.all !== undefined || /\bchain\b/i.test(text);
      }
      const undoes = all.some(({ is }) => is === 'rollback to');
      if (kind.is !== 'rollback') return this.afterBuffered(tx, undoes);
    }
    return this.queue && this.enqueue(nothing);
  }

  sendsNoText(): Admission {
    const tx = this.transactions.at(-1);
    return tx === undefined ? this.queue && this.enqueue(nothing) : this.afterBuffered(tx, false);
  }

  /** Reports statements and savepoints to the scope, in the order of the text. */
  private follows(all: readonly StatementKind[], tx: TrackedTransaction | undefined, isNew: boolean): void {
    // After a COMMIT or ROLLBACK that is in flight, no statement is in its transaction.
    let inside = tx === undefined || isEnding(tx) ? undefined : tx.transaction;
    const scope = Scope.in(inside, isNew);
    scope?.uses(inside, false);
    for (const one of all) {
      if (one.is === 'write') scope?.uses(inside, true);
      if (inside !== undefined) followSavepoint(one, inside);
      if (!isNew && (one.is === 'rollback' || one.is === 'commit')) inside = undefined;
    }
  }

  /** Buffered rows precede the application's next statement. They follow a rollback to a savepoint, which would undo them. */
  private afterBuffered({ transaction, rollbackIsSent }: TrackedTransaction, undoes: boolean): Admission {
    const written = rollbackIsSent || undoes ? undefined : transaction.writeBuffered();
    if (written === undefined) return this.queue && this.enqueue(nothing);
    // Handled later: its turn in the queue may be far off.
    written.catch(nothing);
    return this.enqueue(() => written);
  }

  answered(status: TransactionStatus, ended: TransactionEnd | undefined): void {
    const [first] = this.transactions;
    if (status === 'none') {
      if (first === undefined) return;
      // Without BEGIN there may have been nothing to commit. SQLite answers synchronously: its BEGIN has failed.
      const isOver = this.session.dialect === 'sqlite' || (ended !== undefined && first.begunBy === 'query');
      if (first.isConfirmed || isOver) this.end(first, ended);
      else queueMicrotask(() => this.forgetUnbegun());
      return;
    }
    // COMMIT AND CHAIN: the next one is already open.
    const isNext =
      ended === 'committed' || ended === 'unknown' || (ended === 'rolled_back' && this.isRollback(first));
    if (isNext && first?.isConfirmed) this.end(first, ended);
    const tx = this.transactions[0] ?? this.add(undefined, 'begin');
    tx.isConfirmed = true;
    // SQLite answers synchronously, so no caller waits.
    if (tx.transaction.scope !== undefined && this.session.dialect !== 'sqlite') tx.transaction.answers();
    // SQLite answers synchronously: its COMMIT has failed and can be retried.
    if (this.session.dialect === 'sqlite') {
      tx.commitIsSent = false;
      tx.commitIsCalled = false;
    }
  }

  /** PostgreSQL answers ROLLBACK TO like ROLLBACK, but after ROLLBACK no transaction is open. */
  private isRollback(tx: TrackedTransaction | undefined): boolean {
    if (tx?.rollbackIsSent !== true) return false;
    return tx.rollbackChains === true || this.session.dialect !== 'postgres';
  }

  isLost(): void {
    for (const tx of this.transactions) this.end(tx, undefined);
  }

  isNotUnderstood(error: unknown): void {
    this.onNotUnderstood(error);
    for (const tx of this.transactions) this.end(tx, 'unknown');
  }

  /** Registers a transaction that this statement begins. Returns the wait if it commits another one. */
  private begins(kind: StatementKind): Admission {
    const { session } = this;
    const last = this.transactions.at(-1);
    const isFree = last === undefined || isEnding(last);
    const isSavepoint = isFree && kind.is === 'savepoint' && session.dialect === 'sqlite';
    const isByQuery = isFree && isQuery(kind) && session.beginsByItself?.() === true;
    if (kind.is !== 'begin' && !isSavepoint && !isByQuery) return undefined;
    let admission: Admission;
    if (!isFree) {
      if (last.isConfirmed && session.dialect !== 'mysql') return undefined;
      if (last.isConfirmed) admission = this.commits(last, false) as Admission;
      // It never began.
      else this.end(last, 'rolled_back');
    }
    const begunBy = isSavepoint ? 'savepoint' : isByQuery ? 'query' : 'begin';
    const scope = Scope.enterImplicit(session.dialect !== 'sqlite');
    const tx = this.add(scope, begunBy);
    scope.begun = tx.transaction;
    admission?.catch(() => this.end(tx, 'rolled_back'));
    return admission;
  }

  /** `pg` has received all answers, that to BEGIN included, and no transaction is open. */
  private forgetUnbegun(): void {
    const [first] = this.transactions;
    if (first === undefined || first.isConfirmed || this.queue !== undefined) return;
    if (this.session.dialect === 'postgres' && this.session.isBusy?.() === false)
      this.end(first, 'rolled_back');
  }

  private add(scope: Scope | undefined, begunBy: TrackedTransaction['begunBy']): TrackedTransaction {
    const transaction = new Transaction(this.session, scope, (run, isLater) =>
      this.sendInOrder(tx, run, isLater),
    );
    const tx: TrackedTransaction = new TrackedTransaction(transaction, begunBy);
    this.transactions = [...this.transactions, tx];
    return tx;
  }

  /**
   * Sends a statement of svc in order. If the BEGIN of its transaction waits behind another COMMIT, it waits too. `pg` queues
   * it until the connection is free, so later statements of the application must wait as well. A statement that a COMMIT waits
   * for precedes that COMMIT, and follows everything sent before. `isLater`: any driver waits.
   */
  private sendInOrder<R extends Promise<void> | undefined>(
    tx: TrackedTransaction,
    run: () => R,
    isLater = false,
  ): R {
    if (tx.sentBeforeCommit !== undefined) {
      const written = tx.sentBeforeCommit.then(run);
      this.extendQueue(Promise.allSettled([this.queue, written]).then(nothing));
      return written as R;
    }
    if (this.session.dialect === 'postgres' || isLater) return this.enqueue(run as () => Promise<void>) as R;
    return this.queue === undefined ? run() : (this.enqueue(nothing).then(run) as R);
  }

  private commits(tx: TrackedTransaction, takesRows: boolean): AdmissionOrRows {
    let waits: Promise<void> | undefined;
    try {
      waits = tx.transaction.beforeCommit(callbackResult(), takesRows);
    } catch (error) {
      if (this.queue !== undefined) return this.enqueue(() => this.refuse(tx, error));
      const refused = this.refuse(tx, error);
      return this.enqueue(() => refused);
    }
    const send = (): void => {
      tx.commitIsSent = true;
      // With other databases a statement that commits may fail, and the transaction continues.
      if (this.session.dialect === 'postgres') tx.transaction.close();
    };
    if (waits !== undefined) {
      const written = waits;
      tx.sentBeforeCommit = this.queue ?? Promise.resolve();
      // Handled later: its turn in the queue may be far off.
      written.catch(nothing);
      return this.enqueue(() => written.then(send, (error) => this.refuse(tx, error)));
    }
    const rows = tx.transaction.takeBuffered();
    send();
    return rows.length === 0 ? this.queue && this.enqueue(nothing) : this.ahead(tx, rows);
  }

  /** Statements behind this COMMIT wait: it may become a ROLLBACK. */
  private ahead(tx: TrackedTransaction, rows: ReturnType<Transaction['takeBuffered']>): RowsBeforeCommit {
    const { promise, resolve: answered } = Promise.withResolvers<void>();
    this.extendQueue(promise);
    return {
      statements: rows.map(({ statement }) => statement),
      answered,
      unanswered: (error) => {
        tx.transaction.rejected(rows, error);
        answered();
      },
      refused: (error) => {
        tx.commitIsSent = false;
        const reason = tx.transaction.rejected(rows, error);
        return this.refuse(tx, reason).finally(answered);
      },
    };
  }

  /** Rolls back instead of committing. Throws or rejects with the reason. */
  private refuse(tx: TrackedTransaction, reason: unknown): Promise<never> {
    const rollback = this.transactions.includes(tx)
      ? this.session.run({ text: 'ROLLBACK', values: [] })
      : undefined;
    if (rollback === undefined) throw reason;
    const refused = (): never => {
      throw reason;
    };
    return rollback.then(refused, refused);
  }

  private enqueue<T>(work: () => Promise<T> | T): Promise<T> {
    const done = this.queue === undefined ? Promise.resolve(work()) : this.queue.then(work);
    this.extendQueue(done.then(nothing, nothing));
    return done;
  }

  private extendQueue(last: Promise<void>): void {
    this.queue = last;
    last.then(() => {
      if (this.queue === last) this.queue = undefined;
    });
  }

  private end(tx: TrackedTransaction, how: TransactionEnd | undefined): void {
    if (!this.transactions.includes(tx)) return;
    const { transaction, commitIsSent, isConfirmed } = tx;
    this.transactions = this.transactions.filter((one) => one !== tx);
    if (how === 'committed' && !commitIsSent && transaction.isIncomplete) this.onUnseenCommit();
    transaction.hasEnded(how ?? (commitIsSent ? 'unknown' : 'rolled_back'), !isConfirmed);
  }
}

/** A session whose statements are svc's own work: not captured, not traced, not counted as the application's. */
function isolated(session: DriverSession): DriverSession {
  return {
    dialect: session.dialect,
    status: () => session.status(),
    beginsByItself: () => session.beginsByItself?.() === true,
    run: (statement, isOpen) => isolate(() => session.run(statement, isOpen)),
    ...(session.isBusy && { isBusy: () => session.isBusy?.() === true }),
    ...(session.runAll && {
      runAll: (statements, isOpen) =>
        isolate(() => session.runAll?.(statements, isOpen) ?? Promise.resolve()),
    }),
  };
}

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
class TrackedTransaction {
  readonly transaction: Transaction;
  /** The database has reported it as open; before that, its BEGIN is in flight. */
  isConfirmed = false;
  commitIsSent = false;
  /** COMMIT was called: it may still wait, and a BEGIN that is called now begins the next one. */
  commitIsCalled = false;
  /** It waits for rows. The promise is everything sent before it; the rows follow that. */
  sentBeforeCommit: Promise<void> | undefined;
  rollbackIsSent = false;
  /** The answer also opens the next one: AND CHAIN, or a BEGIN in the same text. */
  rollbackChains = false;
  /** SQLite's SAVEPOINT, whose RELEASE commits; or any query, if the session begins transactions itself. */
  readonly begunBy: 'begin' | 'savepoint' | 'query';

  constructor(transaction: Transaction, begunBy: TrackedTransaction['begunBy']) {
    this.transaction = transaction;
    this.begunBy = begunBy;
  }
}

function isEnding({ commitIsCalled, rollbackIsSent }: TrackedTransaction): boolean {
  return commitIsCalled || rollbackIsSent;
}

/** With a transaction that is an SQLite savepoint, its RELEASE commits. */
function commitsIt(kind: StatementKind, { begunBy, transaction }: TrackedTransaction): boolean {
  if (kind.is === 'release') return begunBy === 'savepoint' && transaction.isOutermost(kind.name);
  return kind.is === 'commit' || kind.is === 'implicit commit' || kind.is === 'prepare';
}

function followSavepoint(kind: StatementKind, transaction: Transaction): void {
  if (kind.is === 'savepoint') transaction.savepoint(kind.name);
  else if (kind.is === 'release') transaction.release(kind.name);
  else if (kind.is === 'rollback to') transaction.rollbackTo(kind.name);
}

function isQuery({ is }: StatementKind): boolean {
  return is === 'read' || is === 'write';
}

/** The result of the ORM's `transaction()` or operation that sends this COMMIT. */
function callbackResult(): CallbackResult | undefined {
  for (let scope = currentScope(); scope !== undefined; scope = scope.parent) {
    const { callbackResult: found } = scope;
    if (found !== undefined) return typeof found === 'function' ? found() : found;
  }
  return undefined;
}

function nothing(): void {}

/**
 * `onUnseenCommit`: a transaction was committed in a way that svc cannot see in advance, before its event was in it.
 * `onNotFollowed`: the driver of a connection differs from what its patch supports.
 */
export function createConnections(
  onUnseenCommit: () => void,
  onNotFollowed: (error: unknown) => void = () => {},
): Connections {
  /** `undefined`: not followed. */
  const known = new WeakMap<object, Connection | undefined>();

  function drop(handle: object, error: unknown): void {
    known.set(handle, undefined);
    onNotFollowed(error);
  }

  return {
    of(handle, make) {
      if (!known.has(handle)) {
        try {
          known.set(handle, new Connection(make, onUnseenCommit, (error) => drop(handle, error)));
        } catch (error) {
          drop(handle, error);
        }
      }
      return known.get(handle);
    },
    seen: (handle) => known.get(handle),
  };
}
