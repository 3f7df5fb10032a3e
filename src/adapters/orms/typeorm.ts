import { exported, type OrmPatch, patchTransaction, prototypeOf } from './orm-patch.ts';

/** `DataSource.transaction` goes through its manager. */
export const typeormTransactions: OrmPatch = {
  specifier: 'typeorm',
  patch: (exports) => patchTransaction(prototypeOf(exported(exports, 'EntityManager')), 'transaction'),
};
