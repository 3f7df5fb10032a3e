import { exported, type OrmPatch, patchTransaction, prototypeOf } from './orm-patch.ts';

const drizzle = (driver: string, session: string): OrmPatch => ({
  specifier: `drizzle-orm/${driver}`,
  patch: (exports) => patchTransaction(prototypeOf(exported(exports, session)), 'transaction'),
});

export const drizzleOnPg = drizzle('node-postgres', 'NodePgSession');
export const drizzleOnMysql2 = drizzle('mysql2', 'MySql2Session');
export const drizzleOnSqlite = drizzle('better-sqlite3', 'BetterSQLiteSession');
