import { isolate } from '../observe/isolate.ts';
import type { Connections, DriverSession, Statement, TransactionStatus } from './driver.ts';
import { type CallbackResult, currentScope, enterFollowUp } from './scope.ts';
import { kindOf } from './statements.ts';
import { Transaction, type TransactionEnd } from './transaction.ts';

/** Where a statement may go: at once, or after the promise; where that rejects, not at all. */
export type Admission = Promise<void> | undefined;

/** One connection of the application: its transactions, one after the other. What a driver's patch sees, it tells here. */
export class Connection {
  readonly session: DriverSession;
  private readonly onUngated: () => void;
  private transaction: Transaction | undefined;
  /** The database has said so; before that, a BEGIN is on its way. */
  private isConfirmed = false;
  private commitIsSent = false;
  private rollbackIsSent = false;
  /** A COMMIT waits for events, and what is sent after it waits behind it. */
  private line: Promise<void> | undefined;

  constructor(make: (connection: Connection) => DriverSession, onUngated: () => void) {
    this.session = isolated(make(this));
    this.onUngated = onUngated;
  }

  /** The one that a statement called now is in: open, or about to be. */
  get current(): Transaction | undefined {
    return this.transaction;
  }

  /**
   * The application sends a statement, and this is called in its context. Throws, or the promise rejects, where a COMMIT must not be
   * sent: the transaction has been rolled back by then.
   */
  sends(text: string): Admission {
    const kind = kindOf(text);
    if (kind.is === 'begin' && !this.isConfirmed) this.begins();
    const { transaction } = this;
    currentScope()?.uses(transaction, kind.is === 'write');
    if (transaction !== undefined) {
      if (kind.is === 'commit') return this.commits(transaction);
      if (kind.is === 'rollback') this.rollbackIsSent = true;
      else if (kind.is === 'savepoint') transaction.savepoint(kind.name);
      else if (kind.is === 'release') transaction.release(kind.name);
      else if (kind.is === 'rollback to') transaction.rollbackTo(kind.name);
    }
    return this.line && this.inLine(Promise.resolve());
  }

  /** The database has answered: where the connection stands, and how a transaction has ended since its last answer, where it said so. */
  answered(status: TransactionStatus, ended: TransactionEnd | undefined): void {
    const { transaction } = this;
    if (status === 'none') {
      if (transaction !== undefined && this.isConfirmed) this.end(transaction, ended);
      return;
    }
    // COMMIT AND CHAIN: the next one is open already. The answer to ROLLBACK TO is the same as to ROLLBACK.
    const isNext = ended === 'committed' || (ended === 'rolled_back' && this.rollbackIsSent);
    if (isNext && transaction !== undefined && this.isConfirmed) this.end(transaction, ended);
    this.transaction ??= new Transaction(this.session, undefined);
    this.isConfirmed = true;
  }

  /** The connection is gone, and what had not been committed with it. */
  isLost(): void {
    if (this.transaction !== undefined) this.end(this.transaction, undefined);
  }

  private begins(): void {
    // One that came to nothing.
    this.transaction?.hasEnded('rolled_back');
    this.transaction = new Transaction(this.session, enterFollowUp());
  }

  private commits(transaction: Transaction): Admission {
    let waits: Promise<void> | undefined;
    try {
      waits = transaction.beforeCommit(callbackResult());
    } catch (error) {
      const rollback = this.session.run(rollbackStatement);
      if (rollback === undefined) throw error;
      return this.inLine(rollback.then(() => Promise.reject(error)));
    }
    if (waits === undefined) {
      this.commitIsSent = true;
      return this.line && this.inLine(Promise.resolve());
    }
    return this.inLine(
      waits.then(
        () => {
          this.commitIsSent = true;
        },
        async (error) => {
          await this.session.run(rollbackStatement);
          throw error;
        },
      ),
    );
  }

  private inLine(work: Promise<void>): Promise<void> {
    const turn = this.line === undefined ? work : this.line.then(() => work);
    const line = turn.then(nothing, nothing);
    this.line = line;
    line.then(() => {
      if (this.line === line) this.line = undefined;
    });
    return turn;
  }

  private end(transaction: Transaction, how: TransactionEnd | undefined): void {
    const { commitIsSent } = this;
    this.transaction = undefined;
    this.isConfirmed = false;
    this.commitIsSent = false;
    this.rollbackIsSent = false;
    if (how === 'committed' && !commitIsSent && transaction.isIncomplete) this.onUngated();
    transaction.hasEnded(how ?? (commitIsSent ? 'unknown' : 'rolled_back'));
  }
}

const rollbackStatement: Statement = { text: 'ROLLBACK', values: [] };

/** What svc runs on it is its own work: not captured, not traced, not seen as the application's. */
function isolated(session: DriverSession): DriverSession {
  return {
    dialect: session.dialect,
    status: () => session.status(),
    run: (statement) => isolate(() => session.run(statement)),
  };
}

/** Of the ORM's `transaction()` that sends this COMMIT. */
function callbackResult(): CallbackResult | undefined {
  for (let scope = currentScope(); scope !== undefined; scope = scope.parent)
    if (scope.callbackResult !== undefined) return scope.callbackResult;
  return undefined;
}

function nothing(): void {}

/** `onUngated`: a transaction was committed in a way that svc did not see coming, before its event was in it. */
export function createConnections(onUngated: () => void): Connections {
  const known = new WeakMap<object, Connection>();
  return {
    of(handle, make) {
      let connection = known.get(handle);
      if (connection === undefined) {
        connection = new Connection(make, onUngated);
        known.set(handle, connection);
      }
      return connection;
    },
  };
}
