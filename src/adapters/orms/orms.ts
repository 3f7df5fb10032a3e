// orms/: where an ORM runs a transaction, so that what is called in it is known to belong there.

import { knexTransactions } from './knex.ts';
import { mikroOrmTransactions } from './mikro-orm.ts';
import { exported, type OrmPatch, patchTransaction, prototypeOf } from './orm-patch.ts';
import { prismaClient, prismaRuntime } from './prisma.ts';
import { typeormTransactions } from './typeorm.ts';

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
