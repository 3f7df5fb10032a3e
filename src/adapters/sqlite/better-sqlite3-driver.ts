import { isOwnWork } from '../../ground/lifecycle.ts';
import { assertShape } from '../../transaction/assert-shape.ts';
import type { Connections, DriverPatch, WatchedConnection } from '../../transaction/driver.ts';
import { patchMethod } from '../../transaction/patch-method.ts';
import { patchOnce } from '../../transaction/patch-once.ts';
import { currentScope, runInScope, Scope } from '../../transaction/scope.ts';
import { ownStatements } from './own-statements.ts';
import { type DatabaseClass, driverOf, type SqliteDriver } from './sqlite-handle.ts';
import { openSession, tellStatement } from './told-statement.ts';
import { driverIsLoaded, driverIsUsed } from './used-driver.ts';

type Method = (this: unknown, ...args: unknown[]) => unknown;

interface Database {
  /** The path, as the application gave it. */
  readonly name: string;
  readonly inTransaction: boolean;
}

interface Statement {
  readonly source: string;
  readonly database: Database;
}

interface StatementMethods {
  run: Method;
  get: Method;
  all: Method;
  iterate: Method;
}

interface DatabaseMethods {
  exec: Method;
  prepare: Method;
  close: Method;
  transaction: Method;
}

/** What `transaction()` returns: a function that has four of its kind as properties. */
type TransactionFunction = Method & Readonly<Record<(typeof variants)[number], Method>>;

const running = ['run', 'get', 'all', 'iterate'] as const;
const variants = ['default', 'deferred', 'immediate', 'exclusive'] as const;

export const betterSqlite3Driver: DriverPatch = {
  specifier: 'better-sqlite3',
  patch(exports, connections) {
    const driver = driverOf(exports as DatabaseClass);
    driverIsLoaded(driver);
    assertShape(
      exports,
      ['exec', 'prepare', 'close', 'transaction'].map((name) => `prototype.${name}`),
    );
    const { prototype } = exports as { readonly prototype: DatabaseMethods };
    patchOnce(prototype, () => patchDatabase(prototype, driver, connections));
  },
};

function patchDatabase(prototype: DatabaseMethods, driver: SqliteDriver, connections: Connections): void {
  const { prepare, close, transaction } = prototype;
  const runOwn = ownStatements<Database>(prepare);
  const connectionOf = (handle: Database): WatchedConnection | undefined =>
    connections.of(handle, (made) => {
      if (typeof handle.inTransaction !== 'boolean') throw new Error('it does not tell about transactions');
      driverIsUsed(driver, handle.name);
      return openSession(
        {
          isInTransaction: () => handle.inTransaction,
          run: (statement) => runOwn(handle, statement),
        },
        made,
      );
    });
  const tell = (handle: Database, text: unknown, send: () => unknown): unknown =>
    isOwnWork() || typeof text !== 'string' ? send() : tellStatement(connectionOf(handle), text, send);

  /** Their class is the native module's own: it is reached through the first of them. */
  function patchStatements(handle: Database, first: () => unknown): void {
    try {
      const statement = first() as Statement;
      if (statement.database !== handle || typeof statement.source !== 'string')
        throw new Error('its statements do not tell what they are of');
      const methods = Object.getPrototypeOf(statement) as StatementMethods;
      patchOnce(methods, () => {
        assertShape(methods, running);
        patchMethods(methods);
      });
    } catch (error) {
      connectionOf(handle)?.isNotUnderstood(error);
    }
  }

  function patchMethods(methods: StatementMethods): void {
    for (const name of running) {
      const original = methods[name];
      methods[name] = function (this: unknown, ...args) {
        const { database, source } = this as Statement;
        return tell(database, source, () => Reflect.apply(original, this, args));
      };
    }
  }

  patchMethod(prototype, 'exec', (behind) => {
    return function exec(this: unknown, ...args) {
      return tell(this as Database, args[0], () => Reflect.apply(behind(), this, args));
    };
  });
  patchMethod(prototype, 'prepare', (behind) => {
    return function prepare(this: unknown, ...args) {
      const made = Reflect.apply(behind(), this, args) as object;
      patchStatements(this as Database, () => made);
      return made;
    };
  });
  prototype.close = function (this: unknown, ...args) {
    const result = Reflect.apply(close, this, args);
    connections.seen(this as Database)?.answered('none', 'rolled_back');
    return result;
  };
  prototype.transaction = function (this: unknown, ...args) {
    // Its BEGIN and COMMIT are statements as others are, made without `prepare`.
    patchStatements(this as Database, () => Reflect.apply(prepare, this, ['SELECT 1']));
    const [work] = args;
    const given = typeof work === 'function' ? [tellsResult(work as Method)] : args;
    return inScopes(Reflect.apply(transaction, this, given) as TransactionFunction);
  };
}

/** What the callback returns is known before the COMMIT. */
function tellsResult(work: Method): Method {
  return function (this: unknown, ...args) {
    const value = Reflect.apply(work, this, args);
    const scope = currentScope();
    if (scope !== undefined) scope.callbackResult = { value };
    return value;
  };
}

/** Its four functions, each of which is a part of the application of its own. */
function inScopes(made: TransactionFunction): TransactionFunction {
  if (variants.some((name) => typeof made[name] !== 'function')) return made;
  const wrap = (original: Method): Method =>
    function sqliteTransaction(this: unknown, ...args) {
      return runInScope(new Scope(currentScope()), () => Reflect.apply(original, this, args));
    };
  const wrapped = variants.map((name) => [name, wrap(made[name])] as const);
  const properties: PropertyDescriptorMap = Object.fromEntries(
    wrapped.map(([name, value]) => [name, { value }]),
  );
  const database = Object.getOwnPropertyDescriptor(made, 'database');
  for (const [, one] of wrapped)
    Object.defineProperties(one, { ...properties, ...(database && { database }) });
  return properties.default?.value as TransactionFunction;
}
