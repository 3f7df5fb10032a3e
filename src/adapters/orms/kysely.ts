import { exported, type OrmPatch, patchTransaction, prototypeOf } from './orm-patch.ts';

export const kyselyTransactions: OrmPatch = {
  specifier: 'kysely',
  patch: (exports) => patchTransaction(prototypeOf(exported(exports, 'TransactionBuilder')), 'execute'),
};
