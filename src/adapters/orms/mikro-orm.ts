import { exported, type OrmPatch, patchTransaction, prototypeOf } from './orm-patch.ts';

/** The packages of the databases import it by this name. */
export const mikroOrmTransactions: OrmPatch = {
  specifier: '@mikro-orm/core',
  patch: (exports) => patchTransaction(prototypeOf(exported(exports, 'EntityManager')), 'transactional'),
};
