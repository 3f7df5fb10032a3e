import { runOwnWork } from '../../ground/lifecycle.ts';
import {
  type Dialect,
  type DriverSession,
  type Statement,
  type TransactionEnd,
  TransactionOver,
  type TransactionStatus,
  type WatchedConnection,
} from '../../transaction/driver.ts';
import { kindOf } from '../../transaction/statements.ts';

/** Runs svc's own statements, each of them prepared once per handle with the driver's unpatched method. */
export function ownStatements<Handle extends object>(
  prepare: (this: Handle, text: string) => unknown,
): (handle: Handle, statement: Statement) => void {
  const ofSvc = new WeakMap<Handle, Map<string, Runnable>>();
  return (handle, { text, values }) => {
    const known = ofSvc.get(handle) ?? new Map<string, Runnable>();
    ofSvc.set(handle, known);
    const own = known.get(text) ?? (Reflect.apply(prepare, handle, [text]) as Runnable);
    known.set(text, own);
    // Own work, which the patched method lets pass.
    own.run(...values);
  };
}

/** What is needed of a handle, whichever driver it is of: all of it answers at once. */
interface SqliteHandle {
  isInTransaction(): boolean;
  /** With the driver's own methods. */
  run(statement: Statement): void;
}

/** A prepared statement of either. */
interface Runnable {
  run(...values: readonly unknown[]): unknown;
}

const dialect: Dialect = 'sqlite';

/** Connections whose COMMIT was refused, and what begins an empty transaction there: see `tellStatement`. */
const refused = new WeakMap<WatchedConnection, () => void>();

export function openSession(handle: SqliteHandle, connection: WatchedConnection): DriverSession {
  const status = (): TransactionStatus => (handle.isInTransaction() ? 'open' : 'none');
  return {
    dialect,
    status,
    run(statement) {
      if (status() === 'none') {
        if (statement.text === 'ROLLBACK') return undefined;
        throw new TransactionOver();
      }
      try {
        handle.run(statement);
      } finally {
        // An error may have ended the transaction: a full disk does.
        connection.answered(status(), status() === 'none' ? 'rolled_back' : undefined);
      }
      if (statement.text === 'ROLLBACK')
        refused.set(connection, () => runOwnWork(() => handle.run({ text: 'BEGIN', values: [] })));
      return undefined;
    },
  };
}

/**
 * Sends a statement of the application, and tells its connection before and after. Throws where a COMMIT must not be sent: svc has
 * rolled back then. SQLite itself would have left the transaction open, and takes no ROLLBACK without one, whose error would
 * hide ours: an application that sends it next has an empty one to roll back.
 */
export function tellStatement<R>(connection: WatchedConnection | undefined, text: string, send: () => R): R {
  if (connection === undefined) return send();
  const { session } = connection;
  const beginEmpty = refused.get(connection);
  refused.delete(connection);
  connection.sends(text);
  if (session.status() === 'none' && kindOf(text, dialect).is === 'rollback') beginEmpty?.();
  let isTaken = false;
  try {
    const result = send();
    isTaken = true;
    return result;
  } finally {
    connection.answered(session.status(), endAfter(text, session.status(), isTaken));
  }
}

/** Of the transaction that a statement has ended, if it was in one. */
function endAfter(text: string, status: TransactionStatus, isTaken: boolean): TransactionEnd | undefined {
  const kind = kindOf(text, dialect).is;
  if (!isTaken || kind === 'rollback') return status === 'none' || isTaken ? 'rolled_back' : undefined;
  return status === 'none' || kind === 'commit' ? 'committed' : undefined;
}
