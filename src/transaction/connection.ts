import {
  type Admission,
  type Connections,
  type DriverSession,
  isolated,
  type RowsBeforeCommit,
  type TransactionEnd,
  type TransactionStatus,
  type WatchedConnection,
} from './driver.ts';
import { currentScope, enterImplicitScope, type Scope, scopeIn } from './scope.ts';
import { kindOf, type StatementKind } from './statements.ts';
import {
  type BufferedRow,
  type CallbackResult,
  commitsIt,
  followSavepoint,
  isEnding,
  isQuery,
  type TrackedTransaction,
  Transaction,
} from './transaction.ts';

type AdmissionOrRows = Admission | RowsBeforeCommit;

/** One connection of the application: its transactions, one after the other. What a driver's patch sees, it tells here. */
export class Connection implements WatchedConnection {
  readonly session: DriverSession;
  private readonly onUnseenCommit: () => void;
  private readonly onNotUnderstood: (error: unknown) => void;
  /** The first is the one that the database is in or comes to next, the last the one that statements are called in. */
  private transactions: readonly TrackedTransaction[] = [];
  /** What is sent while a COMMIT waits for events is sent after it. */
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
      // ROLLBACK; BEGIN in one text: the next one is told by the answer.
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

  /** Tells the function that sends them, and the savepoints, in the order of the text. */
  private follows(all: readonly StatementKind[], tx: TrackedTransaction | undefined, isNew: boolean): void {
    // Behind a COMMIT or ROLLBACK that is on its way nothing is in its transaction.
    let inside = tx === undefined || isEnding(tx) ? undefined : tx.transaction;
    const scope = scopeIn(inside, isNew);
    scope?.uses(inside, false);
    for (const one of all) {
      if (one.is === 'write') scope?.uses(inside, true);
      if (inside !== undefined) followSavepoint(one, inside);
      if (!isNew && (one.is === 'rollback' || one.is === 'commit')) inside = undefined;
    }
  }

  /** Buffered rows go before what the application sends next, but behind a rollback to a savepoint, which would undo them. */
  private afterBuffered({ transaction, rollbackIsSent }: TrackedTransaction, undoes: boolean): Admission {
    const written = rollbackIsSent || undoes ? undefined : transaction.writeBuffered();
    if (written === undefined) return this.queue && this.enqueue(nothing);
    // It may be long until its turn.
    written.catch(nothing);
    return this.enqueue(() => written);
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
    // SQLite answers at once: nobody waits.
    if (tx.transaction.scope !== undefined && this.session.dialect !== 'sqlite') tx.transaction.answers();
    // SQLite answers at once: its COMMIT has failed, and can be tried again.
    if (this.session.dialect === 'sqlite') {
      tx.commitIsSent = false;
      tx.commitIsCalled = false;
    }
  }

  /** In PostgreSQL the answer to ROLLBACK TO is the same as to ROLLBACK, and after this none is open. */
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

  /** Tells of a transaction that this statement begins. Returns how long it has to wait where it commits another one. */
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
      // One that came to nothing.
      else this.end(last, 'rolled_back');
    }
    const begunBy = isSavepoint ? 'savepoint' : isByQuery ? 'query' : 'begin';
    const scope = enterImplicitScope(session.dialect !== 'sqlite');
    const tx = this.add(scope, begunBy);
    scope.begun = tx.transaction;
    admission?.catch(() => this.end(tx, 'rolled_back'));
    return admission;
  }

  /** `pg` has all answers now, that to BEGIN among them, and it has opened nothing. */
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
    const tx: TrackedTransaction = {
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
      // Of the others, a statement that commits may fail, and the transaction goes on.
      if (this.session.dialect === 'postgres') tx.transaction.close();
    };
    if (waits !== undefined) {
      const written = waits;
      tx.sentBeforeCommit = this.queue ?? Promise.resolve();
      // It may be long until its turn.
      written.catch(nothing);
      return this.enqueue(() => written.then(send, (error) => this.refuse(tx, error)));
    }
    const rows = tx.transaction.takeBuffered();
    send();
    return rows.length === 0 ? this.queue && this.enqueue(nothing) : this.ahead(tx, rows);
  }

  /** What is sent behind this COMMIT waits: it may become a ROLLBACK. */
  private ahead(tx: TrackedTransaction, rows: readonly BufferedRow[]): RowsBeforeCommit {
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

  /** Rolls back in place of a COMMIT. Throws, or rejects with, the reason. */
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

  /** After what waits already. */
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

/** Of the ORM's `transaction()`, or of its operation, that sends this COMMIT. */
function callbackResult(): CallbackResult | undefined {
  for (let scope = currentScope(); scope !== undefined; scope = scope.parent) {
    const { callbackResult: found } = scope;
    if (found !== undefined) return typeof found === 'function' ? found() : found;
  }
  return undefined;
}

function nothing(): void {}

/**
 * `onUnseenCommit`: a transaction was committed in a way that svc did not see coming, before its event was in it. `onNotFollowed`: the
 * driver of a connection is not what its patch was made for.
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
