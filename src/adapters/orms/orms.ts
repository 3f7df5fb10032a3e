// orms/: where an ORM runs a transaction, so that what is called in it is known to belong there.

import { shared } from '../../ground/lifecycle.ts';
import {
  isResultWanted,
  patchMethod,
  runTransaction,
  runWithResult,
} from '../../transaction/patch-method.ts';
import type { CallbackResult } from '../../transaction/transaction.ts';

/** How svc reaches the transactions of one ORM. */
export interface OrmPatch {
  /** As an application imports it. */
  readonly specifier: string;
  /**
   * Changes the package's classes in place, once however often it is called. Returns whether it knows this version of them, or what
   * `require` has to give instead.
   */
  patch(exports: object): boolean | object;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

const patched = shared('patched-orm-methods', () => new WeakMap<object, Set<string>>());

/** The method of all objects of a class: it runs as before, within a scope of its own. */
function patchTransaction(prototype: unknown, name: string, ofPromisesOnly = false): boolean {
  return patchRun(prototype, name, (self, args, run) =>
    runTransaction(args, (given) => Reflect.apply(run, self, given), ofPromisesOnly),
  );
}

/**
 * A method that opens a transaction of its own where it is in none. `resultOf` is asked when it is called, and gives what is asked
 * before the COMMIT: what the method has made, or `undefined` where nobody knows.
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
      // What was called wrongly says so itself.
    }
    return runWithResult(result, work);
  });
}

/** Puts `run` in the place of a method; it is given the method behind it. Returns whether there is such a method. */
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

/** What a package exports under a name, itself or in its default export. */
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

/** Each dialect has a class of its own, which shows when the first client of it is made. */
export const knexTransactions: OrmPatch = {
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
export const mikroOrmTransactions: OrmPatch = {
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
 * It gives nothing back: what was written is its result. That is what the application has named, without what came along with it;
 * where it has named nothing, what it has changed. Of several a list.
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

/** A client of the generator `prisma-client` is made in the application's own folder, of this. */
export const prismaRuntime: OrmPatch = {
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

/** What an operation of a model is asked to do, as the client hands it on. */
interface Request {
  readonly model?: string;
  readonly transaction?: unknown;
  readonly args?: unknown;
}

/** As good as none, which is what the transaction of a nested write has. */
const noLimits = { maxWait: 2 ** 31 - 1, timeout: 2 ** 31 - 1 };

/**
 * A nested write has a transaction of its own inside, and its result when that is committed. Where it is wanted before, the write is
 * run in an interactive transaction in place of its own: with the same statements.
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

/** What repositories and entities do goes through their manager, `DataSource.transaction` too. */
export const typeormTransactions: OrmPatch = {
  specifier: 'typeorm',
  patch(exports) {
    const manager = prototypeOf(exported(exports, 'EntityManager'));
    // It gives back what it is given, which has its generated values before the COMMIT.
    for (const name of ['save', 'softRemove', 'recover'])
      patchOperation(manager, name, (_self, args) => () => ({ value: entityOf(args) }));
    // And has lost its id when it is removed.
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

/** What is read only when it is asked for, as a lazy relation, stays so. */
function copyOf(entity: unknown): unknown {
  if (!isObject(entity)) return entity;
  return Object.create(Object.getPrototypeOf(entity), Object.getOwnPropertyDescriptors(entity));
}

function has(value: unknown, name: string): boolean {
  return isObject(value) && name in value;
}

/** Of an ORM that runs all its transactions through one method of one class. */
const throughOne = (specifier: string, className: string, method = 'transaction'): OrmPatch => ({
  specifier,
  patch: (exports) => patchTransaction(prototypeOf(exported(exports, className)), method),
});

export const kyselyTransactions: OrmPatch = throughOne('kysely', 'TransactionBuilder', 'execute');

/** Of all databases: an application says nowhere which ORM it uses. */
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
