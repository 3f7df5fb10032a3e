// orms/: where an ORM runs a transaction, so that what is called in it is known to belong there.

import { drizzleOnMysql2, drizzleOnPg, drizzleOnSqlite } from './drizzle.ts';
import { knexTransactions } from './knex.ts';
import { kyselyTransactions } from './kysely.ts';
import { mikroOrmTransactions } from './mikro-orm.ts';
import type { OrmPatch } from './orm-patch.ts';
import { prismaClient, prismaRuntime } from './prisma.ts';
import { sequelizeTransactions } from './sequelize.ts';
import { typeormTransactions } from './typeorm.ts';

/** Of all databases: an application says nowhere which ORM it uses. */
export const ormPatches: readonly OrmPatch[] = [
  knexTransactions,
  kyselyTransactions,
  drizzleOnPg,
  drizzleOnMysql2,
  drizzleOnSqlite,
  typeormTransactions,
  sequelizeTransactions,
  mikroOrmTransactions,
  prismaClient,
  prismaRuntime,
];
