// orms/: scopes for the transactions of ORMs, so that svc knows which calls belong to one.

import { shared } from '../../ground/lifecycle.ts';
import { patchMethod } from '../../transaction/patch-method.ts';
import { type CallbackResult, currentScope, runInScope, Scope } from '../../transaction/transaction.ts';

interface OrmPatch {
  /** As an application imports it. */
  readonly specifier: string;
  /** Changes the package's classes in place, once. Returns whether it knows them, or what `require` must return instead. */
  patch(exports: object): boolean | object;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

const patched = shared('patched-orm-methods', () => new WeakMap<object, Set<string>>());

/** Runs a method of all objects of a class within its own scope. */
function patchTransaction(prototype: unknown, name: string, ofPromisesOnly = false): boolean {
  return patchRun(prototype, name, (self, args, run) =>
    runTransaction(args, (given) => Reflect.apply(run, self, given), ofPromisesOnly),
  );
}

/**
 * For a method that opens a transaction unless it is in one. `resultOf` is called first. Its result is called before the COMMIT,
 * and returns the method's value, or `undefined` if unknown.
 */
function patchOperation(
  prototype: unknown,
  name: string,
  resultOf: (self: unknown, args: readonly unknown[]) => () => CallbackResult | undefined,
): boolean {
  return patchRun(prototype, name, (self, args, run) => {
    const work = (): unknown => Reflect.apply(run, self, args);
    if (!isResultWanted()) return work();
    let result: () => CallbackResult | undefined = () => undefined;
    try {
      result = resultOf(self, args);
    } catch {
      // The method itself reports wrong arguments.
    }
    return runWithResult(result, work);
  });
}

/**
 * Runs an ORM's `transaction(callback)` in a separate scope, and records the callback's result before the COMMIT is sent. `run`
 * is the ORM's method; it gets the same arguments with the callback wrapped. Without a callback the caller ends the transaction
 * itself, and nothing changes. `ofPromisesOnly`: so it does if the callback does not return a promise.
 */
function runTransaction<R>(
  args: readonly unknown[],
  run: (args: readonly unknown[]) => R,
  ofPromisesOnly = false,
): R {
  const at = args.findIndex((each) => typeof each === 'function');
  if (at < 0) return run(args);
  const callback = args[at] as (...given: unknown[]) => unknown;
  const scope = new Scope(currentScope());
  const watched = function (this: unknown, ...given: unknown[]): unknown {
    const returned: unknown = Reflect.apply(callback, this, given);
    if (!isThenable(returned)) {
      if (!ofPromisesOnly) keep(scope, returned);
      return returned;
    }
    return watch(scope, returned);
  };
  return runInScope(scope, () => run(args.with(at, watched)));
}

/** Whether an enclosing captured function uses the result of the transaction that it opens. */
function isResultWanted(): boolean {
  for (let scope = currentScope(); scope !== undefined; scope = scope.parent)
    if (scope.wantsCallbackResult && scope.beforeCommit !== undefined) return true;
  return false;
}

/** Runs an ORM's operation that opens its own transaction. `result` is called before its COMMIT. */
function runWithResult<R>(result: () => CallbackResult | undefined, run: () => R): R {
  const scope = new Scope(currentScope());
  scope.callbackResult = result;
  return runInScope(scope, run);
}

function watch(scope: Scope, returned: PromiseLike<unknown>): PromiseLike<unknown> {
  if (returned instanceof Promise && returned.then === Promise.prototype.then) {
    // The first `then` runs first: before the ORM's.
    returned.then((value) => keep(scope, value), nothing);
    return returned;
  }
  // A lazy query that runs when `then` is called, so call it only once.
  return Promise.resolve(returned).then((value) => {
    keep(scope, value);
    return value;
  });
}

function keep(scope: Scope, value: unknown): void {
  scope.callbackResult = { value } satisfies CallbackResult;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}

function nothing(): void {}

/** Replaces a method by `run`, which gets the method behind it. Returns whether there is such a method. */
function patchRun(
  prototype: unknown,
  name: string,
  run: (self: unknown, args: readonly unknown[], behind: Method) => unknown,
): boolean {
  const owner = ownerOf(prototype, name);
  const original = owner?.[name];
  if (owner === undefined || original === undefined) return false;
  const names = patched.get(owner) ?? new Set();
  if (names.has(name)) return true;
  patched.set(owner, names.add(name));
  patchMethod(owner, name, (behind) => {
    const replacement: Method = function (...args) {
      return run(this, args, behind());
    };
    Object.defineProperty(replacement, 'name', { value: original.name, configurable: true });
    return replacement;
  });
  return true;
}

/** An export of a package, its own or of its default export. */
function exported(exports: unknown, name: string): unknown {
  const own = property(exports, name);
  return own === undefined ? property(property(exports, 'default'), name) : own;
}

function prototypeOf(type: unknown): unknown {
  return typeof type === 'function' ? type.prototype : undefined;
}

function ownerOf(prototype: unknown, name: string): Record<string, Method> | undefined {
  for (let each = prototype; isObject(each); each = Object.getPrototypeOf(each))
    if (Object.hasOwn(each, name))
      return typeof property(each, name) === 'function' ? (each as never) : undefined;
  return undefined;
}

function property(value: unknown, name: string): unknown {
  return isObject(value) ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

type Start = (this: object, ...args: unknown[]) => unknown;

/** Each dialect has its own class, which its first client reveals. */
const knexTransactions: OrmPatch = {
  specifier: 'knex',
  patch(exports) {
    const client = prototypeOf(exported(exports, 'Client')) as { initializePool?: Start } | undefined;
    const original = client?.initializePool;
    if (client === undefined || typeof original !== 'function') return false;
    if (watched in original) return true;
    const initializePool: Start = function (...args) {
      // A callback that returns no promise calls `trx.commit()` when it wants to.
      patchTransaction(Object.getPrototypeOf(this), 'transaction', true);
      return Reflect.apply(original, this, args);
    };
    client.initializePool = Object.assign(initializePool, { [watched]: true });
    return true;
  },
};

const watched = Symbol.for('svc.knex-clients');

/** The packages of the databases import it by this name. */
const mikroOrmTransactions: OrmPatch = {
  specifier: '@mikro-orm/core',
  patch(exports) {
    const manager = prototypeOf(exported(exports, 'EntityManager'));
    patchOperation(manager, 'flush', (self) => flushed(self as EntityManager));
    return patchTransaction(manager, 'transactional');
  },
};

interface EntityManager {
  getUnitOfWork?(): UnitOfWork;
}

interface UnitOfWork {
  getPersistStack?(): Iterable<unknown>;
  getRemoveStack?(): Iterable<unknown>;
  getChangeSets?(): readonly { readonly entity: unknown }[];
}

/**
 * `flush` returns nothing, so the written entities are its result. These are the entities that the application has named. If it
 * has named none, these are all changed ones. Several are a list.
 */
function flushed(manager: EntityManager): () => CallbackResult | undefined {
  const work = manager.getUnitOfWork?.();
  const named = [...(work?.getPersistStack?.() ?? []), ...(work?.getRemoveStack?.() ?? [])];
  return () => {
    const changed = named.length > 0 ? named : work?.getChangeSets?.().map(({ entity }) => entity);
    const found = changed?.filter(isObject) ?? [];
    if (found.length === 0) return undefined;
    return { value: found.length === 1 ? found[0] : found };
  };
}

type MakeClass = (...args: unknown[]) => unknown;

/** A client of the generator `prisma-client-js`. */
const prismaClient: OrmPatch = {
  specifier: '@prisma/client',
  patch: (exports) => patchClient(prototypeOf(exported(exports, 'PrismaClient'))),
};

/** The generator `prisma-client` makes clients in the application's folder, based on this. */
const prismaRuntime: OrmPatch = {
  specifier: '@prisma/client/runtime/client',
  patch(exports) {
    const runtime = exports as { getPrismaClient?: MakeClass };
    const original = runtime.getPrismaClient;
    if (typeof original !== 'function') return false;
    const getPrismaClient: MakeClass = (...args) => {
      const made = original(...args);
      patchClient(prototypeOf(made));
      return made;
    };
    const property = Object.getOwnPropertyDescriptor(exports, 'getPrismaClient');
    if (property?.writable === false || (property?.set === undefined && property?.get !== undefined))
      // As own properties: an `import` of a CommonJS module has no others.
      return Object.create(Object.getPrototypeOf(exports), {
        ...Object.getOwnPropertyDescriptors(exports as object),
        getPrismaClient: { value: getPrismaClient, enumerable: true },
      });
    runtime.getPrismaClient = getPrismaClient;
    return true;
  },
};

interface Client {
  $transaction?(work: (tx: Client) => unknown, limits: object): unknown;
  _createPrismaPromise?(run: (transaction: unknown) => unknown): unknown;
  readonly _runtimeDataModel?: unknown;
}

/** An operation on a model, as the client passes it on. */
interface Request {
  readonly model?: string;
  readonly transaction?: unknown;
  readonly args?: unknown;
}

/** Practically unlimited, like the transaction of a nested write. */
const noLimits = { maxWait: 2 ** 31 - 1, timeout: 2 ** 31 - 1 };

/**
 * A nested write opens a transaction inside, and returns after its COMMIT. If the result is needed before, the write runs in an
 * interactive transaction with the same statements.
 */
function patchClient(prototype: unknown): boolean {
  patchRun(prototype, '_request', (self, args, behind) => {
    const client = self as Client;
    const request = args[0] as Request | undefined;
    if (request?.transaction !== undefined || !isResultWanted() || !isNestedWrite(client, request))
      return Reflect.apply(behind, self, args);
    return client.$transaction?.((tx) => {
      return tx._createPrismaPromise?.((transaction) =>
        Reflect.apply(behind, self, [{ ...request, transaction }]),
      );
    }, noLimits);
  });
  return patchTransaction(prototype, '$transaction');
}

function isNestedWrite(client: Client, request: Request | undefined): boolean {
  if (typeof client.$transaction !== 'function' || typeof client._createPrismaPromise !== 'function')
    return false;
  const models = property(client._runtimeDataModel, 'models');
  const fields = property(property(models, String(request?.model)), 'fields');
  if (!Array.isArray(fields)) return false;
  const relations = fields.filter((field) => property(field, 'kind') === 'object');
  return ['data', 'create', 'update'].some((part) => {
    const data = property(request?.args, part);
    return relations.some((field) => isObject(property(data, String(property(field, 'name')))));
  });
}

/** Repositories, entities and `DataSource.transaction` all use their manager. */
const typeormTransactions: OrmPatch = {
  specifier: 'typeorm',
  patch(exports) {
    const manager = prototypeOf(exported(exports, 'EntityManager'));
    // They return their argument, which has its generated values before the COMMIT.
    for (const name of ['save', 'softRemove', 'recover'])
      patchOperation(manager, name, (_self, args) => () => ({ value: entityOf(args) }));
    // A removed entity has lost its id.
    patchOperation(manager, 'remove', (_self, args) => {
      const given = entityOf(args);
      const value = Array.isArray(given) ? given.map(copyOf) : copyOf(given);
      return () => ({ value });
    });
    return patchTransaction(manager, 'transaction');
  },
};

/** The class, name or schema of an entity may come before it. */
function entityOf([first, second]: readonly unknown[]): unknown {
  const isTarget = typeof first === 'function' || typeof first === 'string' || has(first, '@instanceof');
  return isTarget && second !== undefined ? second : first;
}

/** Keeps accessors, such as lazy relations. */
function copyOf(entity: unknown): unknown {
  if (!isObject(entity)) return entity;
  return Object.create(Object.getPrototypeOf(entity), Object.getOwnPropertyDescriptors(entity));
}

function has(value: unknown, name: string): boolean {
  return isObject(value) && name in value;
}

/** For an ORM that runs all its transactions through one method of one class. */
const throughOne = (specifier: string, className: string, method = 'transaction'): OrmPatch => ({
  specifier,
  patch: (exports) => patchTransaction(prototypeOf(exported(exports, className)), method),
});

const kyselyTransactions: OrmPatch = throughOne('kysely', 'TransactionBuilder', 'execute');

/** All ORMs, because an application does not declare which one it uses. */
export const ormPatches: readonly OrmPatch[] = [
  knexTransactions,
  kyselyTransactions,
  throughOne('drizzle-orm/node-postgres', 'NodePgSession'),
  throughOne('drizzle-orm/mysql2', 'MySql2Session'),
  throughOne('drizzle-orm/better-sqlite3', 'BetterSQLiteSession'),
  typeormTransactions,
  throughOne('sequelize', 'Sequelize'),
  mikroOrmTransactions,
  prismaClient,
  prismaRuntime,
];
