import { exported, type OrmPatch, patchTransaction, prototypeOf } from './orm-patch.ts';

type MakeClass = (...args: unknown[]) => unknown;

/** A client of the generator `prisma-client-js`. */
export const prismaClient: OrmPatch = {
  specifier: '@prisma/client',
  patch: (exports) => patchTransaction(prototypeOf(exported(exports, 'PrismaClient')), '$transaction'),
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
      patchTransaction(prototypeOf(made), '$transaction');
      return made;
    };
    const property = Object.getOwnPropertyDescriptor(exports, 'getPrismaClient');
    if (property?.writable === false || (property?.set === undefined && property?.get !== undefined))
      return Object.create(exports, { getPrismaClient: { value: getPrismaClient, enumerable: true } });
    runtime.getPrismaClient = getPrismaClient;
    return true;
  },
};
