import { exported, type OrmPatch, patchTransaction, prototypeOf } from './orm-patch.ts';

export const sequelizeTransactions: OrmPatch = {
  specifier: 'sequelize',
  patch: (exports) => patchTransaction(prototypeOf(exported(exports, 'Sequelize')), 'transaction'),
};
