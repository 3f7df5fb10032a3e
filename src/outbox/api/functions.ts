import { SvcError } from '../../ground/errors.ts';
import { isolate } from '../../observe/otel-api.ts';
import type { Connections, DriverPatch, DriverSession } from '../../transaction/driver.ts';
import { isPatched } from '../../transaction/patch-method.ts';
import {
  currentScope,
  findTransactions,
  runInScope,
  Scope,
  Transaction,
  type TransactionEnd,
} from '../../transaction/transaction.ts';
import { can, type Executor, executorOf, isShape, rolledBack } from './executor.ts';
import { type CheckedEvent, checkEvent } from './outbox-event.ts';
import type { CurrentTransaction, RunningOutbox } from './running-outbox.ts';

interface FunctionParts {
  readonly connections: Connections;
  /** `svc.outbox.enabled`. */
  readonly isEnabled: boolean;
  /** `svc.outbox.on-no-transaction: autocommit`. Without an outbox, events that wait for a COMMIT are sent at once. */
  readonly mayAutocommit: boolean;
  /**
   * Stores one event in the transaction of a scope, and counts it. Returns the promise of the INSERT. Throws if it cannot be
   * stored.
   */
  readonly save: (event: CheckedEvent, scope: Scope) => Promise<void> | undefined;
  readonly watch: (driver: unknown) => void;
}

/** A transaction named by the application. */
interface Named {
  readonly transaction: Transaction;
  /** Its current users, if svc cannot see its end. */
  readonly users?: Users;
  /** The first user learns of its end. */
  readonly isFirst: boolean;
}

interface Users {
  count: number;
}

export function createOutboxFunctions(parts: FunctionParts): RunningOutbox {
  const byExecutor = new WeakMap<object, Named>();

  /** `around`: the functions that may have opened it. */
  function namedBy(given: unknown, around?: Scope): ReturnType<typeof findNamed> {
    const known = isShape(given) ? byExecutor.get(given) : undefined;
    if (known?.users !== undefined && known.transaction.isOpen) {
      known.users.count++;
      return { ...known, isFirst: false };
    }
    const foreign = (executor: Executor): Named => {
      const named = {
        transaction: foreignTransaction(executor, around),
        users: { count: 1 },
        isFirst: true,
      };
      byExecutor.set(given as object, named);
      return named;
    };
    return findNamed(executorOf(given), parts, foreign);
  }

  return {
    isEnabled: parts.isEnabled,
    async save(given, events) {
      const scope = new Scope(currentScope());
      const found = namedBy(given);
      // Use a synchronous result at once: a synchronous driver may COMMIT before any promise resolves.
      const named = found instanceof Promise ? await found : found;
      scope.named = named?.transaction;
      // In sequence. The COMMIT of a followed transaction waits for all of them.
      const saveFrom = (index: number): Promise<void> | undefined => {
        for (let at = index; at < events.length; at++) {
          const written = parts.save(checkEvent(events[at]), scope);
          if (written !== undefined) return written.then(() => saveFrom(at + 1));
        }
        // `save` with an executor reports at once whether the database has the rows.
        return named?.transaction.writeBuffered();
      };
      await endingWith(named, () => saveFrom(0), afterRefusal);
    },

    async withTransaction(given, work) {
      const scope = new Scope(currentScope());
      const found = namedBy(given, scope.parent);
      const named = found instanceof Promise ? await found : found;
      scope.named = named?.transaction;
      return endingWith(named, () => runNamed(scope, named, work, false));
    },

    async runInTransaction(run, work) {
      const around = currentScope();
      let named: Named | undefined;
      let isCommitting = false;
      try {
        const result = await run(async (executor) => {
          named = await namedBy(executor, around);
          const scope = new Scope(currentScope());
          scope.named = named?.transaction;
          const value = await runNamed(scope, named, () => work(executor), true);
          if (named?.transaction.ended === 'rolled_back') throw rolledBack();
          isCommitting = true;
          return value;
        });
        leave(named, 'committed');
        return result;
      } catch (error) {
        leave(named, isCommitting && !isAnswer(error) ? 'unknown' : 'rolled_back');
        throw error;
      }
    },

    current(): CurrentTransaction {
      const [transaction, ...others] = findTransactions();
      const joined = transaction !== undefined && others.length === 0;
      return {
        joined,
        via: joined ? (currentScope()?.namedAround === undefined ? 'driver' : 'executor') : null,
        dialect: joined ? transaction.session.dialect : null,
        open: others.length + (transaction === undefined ? 0 : 1),
      };
    },

    watch: parts.watch,
  };
}

/** Runs the work, and makes the events of the functions around it that opened the transaction. */
async function runNamed<R>(
  scope: Scope,
  named: Named | undefined,
  work: () => R | PromiseLike<R>,
  isResult: boolean,
): Promise<R> {
  const value = await runInScope(scope, work);
  // The COMMIT of a followed transaction waits for them.
  if (named !== undefined && (isResult || named.users?.count === 1))
    await named.transaction.beforeCommit({ value, isResult });
  return value;
}

/** A transaction whose end svc cannot see ends, as far as svc knows, with the work. */
async function endingWith<R>(
  named: Named | undefined,
  work: () => R | PromiseLike<R>,
  afterError: (error: unknown, named: Named | undefined) => TransactionEnd = () => 'rolled_back',
): Promise<Awaited<R>> {
  try {
    const result = await work();
    leave(named, 'unknown');
    return result;
  } catch (error) {
    leave(named, afterError(error, named));
    throw error;
  }
}

/**
 * After an event was refused, the application can still commit what was stored before. It cannot after a driver's own error, nor in
 * PostgreSQL after any error of the database.
 */
function afterRefusal(error: unknown, named: Named | undefined): TransactionEnd {
  if (!(error instanceof SvcError)) return 'rolled_back';
  const isDoomed = error.code === 'SVC_OUTBOX_INSERT' && named?.transaction.session.dialect === 'postgres';
  return isDoomed ? 'rolled_back' : 'unknown';
}

function leave(named: Named | undefined, end: TransactionEnd): void {
  if (named?.users === undefined) return;
  named.users.count--;
  const isKnown = named.isFirst && end !== 'unknown';
  if (isKnown || named.users.count === 0) named.transaction.hasEnded(end);
}

/** The database refused the statement. A lost connection is a different error. */
function isAnswer(error: unknown): boolean {
  if (error instanceof SvcError) return true;
  const { code, sqlState = code } = (error ?? {}) as { code?: unknown; sqlState?: unknown };
  return typeof sqlState === 'string' && /^(?!08|57)[0-9A-Z]{5}$/.test(sqlState);
}

/** `undefined`: no transaction; each event is stored alone. */
function findNamed(
  executor: Executor,
  parts: FunctionParts,
  foreign: (executor: Executor) => Named,
): Named | undefined | Promise<Named | undefined> {
  const { handle, isForeign, isOutside } = executor;
  if (isOutside) return without(parts);
  if (handle !== undefined && isFollowed(handle)) {
    const transaction = openOn(handle, parts.connections);
    return transaction === undefined ? without(parts) : { transaction, isFirst: true };
  }
  if (handle !== undefined || isForeign) return foreign(executor);
  return probe(executor).then(({ transaction, isSeen }) => {
    if (transaction !== undefined) return { transaction, isFirst: true };
    return isSeen ? without(parts) : foreign(executor);
  });
}

function without({ mayAutocommit }: FunctionParts): undefined {
  if (mayAutocommit) return undefined;
  throw new SvcError(
    'SVC_OUTBOX_NO_TRANSACTION',
    'the executor is not in a transaction. Pass the executor of an open transaction, open one with outbox.runInTransaction, or set svc.outbox.on-no-transaction: autocommit',
  );
}

/** On a driver that svc does not follow: statements go through the application's executor, and its end is not seen. */
function foreignTransaction({ dialect, execute }: Executor, around: Scope | undefined): Transaction {
  const session: DriverSession = {
    dialect,
    status: () => 'open',
    run: ({ text, values }) => isolate(() => execute(text, values))?.then(() => {}),
  };
  const transaction = new Transaction(session, around);
  // The event of a surrounding function belongs to it as well.
  around?.uses(transaction, true);
  return transaction;
}

function isFollowed(handle: object): boolean {
  for (let each: unknown = handle; each !== null; each = Object.getPrototypeOf(each))
    if (isPatched(each as object)) return true;
  return false;
}

/** On a connection whose statements svc has seen. */
function openOn(handle: object, connections: Connections): Transaction | undefined {
  return connections.seen(handle)?.current as Transaction | undefined;
}

/**
 * The connection is hidden in the library. A statement without effect shows which one it uses, if svc follows that. `isSeen`: svc
 * does, in a transaction or not.
 */
async function probe({
  execute,
}: Executor): Promise<{ transaction: Transaction | undefined; isSeen: boolean }> {
  const scope = new Scope(undefined);
  try {
    await runInScope(scope, () => execute('SELECT 1', []));
  } catch (error) {
    // A failed transaction refuses all statements, but it has been found.
    if (scope.open().length === 0) throw error;
  }
  const [transaction] = scope.open();
  return { transaction, isSeen: transaction !== undefined || scope.sentOutside };
}

/** Recognizes a driver by its exports, because in a bundle it has no name. */
const marks: Readonly<Record<string, (exports: Readonly<Record<string, unknown>>) => boolean>> = {
  pg: ({ Client, Pool }) => hasMethod(Client, 'query') && hasMethod(Pool, 'connect'),
  mysql2: (exports) => can(exports, 'createPool', 'createConnection', 'createPoolCluster'),
  'node:sqlite': ({ DatabaseSync }) => hasMethod(DatabaseSync, 'prepare'),
  'better-sqlite3': (exports) => hasMethod(exports, 'prepare') && hasMethod(exports, 'transaction'),
};

/**
 * Follows a driver that no hook has seen, as if it had been loaded by name.
 *
 * @throws SvcError `SVC_OUTBOX_DRIVER`
 */
export function watchDriver(given: unknown, drivers: readonly DriverPatch[], connections: Connections): void {
  const standard = isShape(given) ? given.default : undefined;
  for (const exports of [standard, given]) {
    const found = drivers.find(({ specifier }) => isShape(exports) && marks[specifier]?.(exports) === true);
    if (found === undefined) continue;
    try {
      found.patch(exports, connections);
      return;
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown error';
      throw notFollowed(`transactions through this ${found.specifier} cannot be followed: ${reason}`);
    }
  }
  throw notFollowed(
    "outbox.watch() takes the exports of pg, mysql2, node:sqlite or better-sqlite3. Pass the default import, as in import pg from 'pg'. For other drivers, use outbox.withTransaction(transaction, fn)",
  );
}

function hasMethod(type: unknown, method: string): boolean {
  return typeof type === 'function' && can(type.prototype, method);
}

function notFollowed(message: string): SvcError {
  return new SvcError('SVC_OUTBOX_DRIVER', message);
}
