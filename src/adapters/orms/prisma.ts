import { isResultWanted } from '../../transaction/transaction-callback.ts';
import {
  exported,
  isObject,
  type OrmPatch,
  patchRun,
  patchTransaction,
  property,
  prototypeOf,
} from './orm-patch.ts';

type MakeClass = (...args: unknown[]) => unknown;

/** A client of the generator `prisma-client-js`. */
export const prismaClient: OrmPatch = {
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
