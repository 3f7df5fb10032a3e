import type { Library } from './library.ts';

const pg = { pg: '8.23.1' };

/** Each is the same on every database but for how it is opened. */
export const knexOn = (options: string): string => `
import knex from 'knex';

const db = knex(${options});

export const transaction = (work) => db.transaction(work);
export const nested = (tx, work) => tx.transaction(work);
export const insert = (tx, id) => (tx ?? db)('orders').insert({ id });
export async function begin() {
  const tx = await db.transaction();
  return { tx, commit: () => tx.commit(), rollback: () => tx.rollback() };
}
export const close = () => db.destroy();
export const dataSource = async () => db;
`;

export const kyselyOn = (dialect: string, driver: string, options: string): string => `
import { Kysely, ${dialect}, sql } from 'kysely';
${driver}
const db = new Kysely({ dialect: new ${dialect}(${options}) });

export const transaction = (work) => db.transaction().execute(work);
export async function nested(tx, work) {
  await sql\`SAVEPOINT inner_one\`.execute(tx);
  try {
    return await work(tx);
  } catch (error) {
    await sql\`ROLLBACK TO SAVEPOINT inner_one\`.execute(tx);
    throw error;
  }
}
export const insert = (tx, id) => (tx ?? db).insertInto('orders').values({ id }).execute();
export async function begin() {
  const tx = await db.startTransaction().execute();
  return { tx, commit: () => tx.commit().execute(), rollback: () => tx.rollback().execute() };
}
export const close = () => db.destroy();
export const dataSource = async () => db;
`;

export const drizzleOn = (imports: string, driver: string, orders: string): string => `
${imports}
${driver}
const db = drizzle({ client: pool });
const orders = ${orders};

export const transaction = (work) => db.transaction(work);
export const nested = (tx, work) => tx.transaction(work);
export const insert = (tx, id) => (tx ?? db).insert(orders).values({ id });
export const close = () => pool.end();
export const dataSource = async () => db;
`;

const pool = `import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE, max: 12 });`;
const knex = knexOn("{ client: 'pg', connection: process.env.DATABASE, pool: { min: 0, max: 12 } }");
const kysely = kyselyOn('PostgresDialect', pool, '{ pool }');
const drizzle = drizzleOn(
  `import { drizzle } from 'drizzle-orm/node-postgres';
import { pgTable, text } from 'drizzle-orm/pg-core';`,
  pool,
  "pgTable('orders', { id: text().primaryKey() })",
);

export const queryBuilders: readonly Library[] = [
  {
    id: 'knex',
    title: 'Knex',
    form: 'esm',
    isEveryday: true,
    dependencies: { ...pg, knex: '3.3.0' },
    database: knex,
    remark:
      'A callback that returns no promise and calls `trx.commit()` itself has no result before the COMMIT',
  },
  {
    id: 'knex-cjs',
    title: 'Knex, CommonJS',
    form: 'cjs',
    dependencies: { ...pg, knex: '3.3.0' },
    database: knex,
  },
  {
    id: 'kysely',
    title: 'Kysely',
    form: 'esm',
    dependencies: { ...pg, kysely: '0.29.9' },
    database: kysely,
    remark: 'With `PostgresDialect`',
  },
  {
    id: 'kysely-0.28',
    title: 'Kysely 0.28, CommonJS',
    form: 'cjs',
    dependencies: { ...pg, kysely: '0.28.18' },
    database: kysely,
  },
  {
    id: 'drizzle',
    title: 'Drizzle',
    form: 'esm',
    isEveryday: true,
    dependencies: { ...pg, 'drizzle-orm': '0.45.4' },
    database: drizzle,
    remark: 'Through `drizzle-orm/node-postgres`',
    hasNoBegin: true,
  },
  {
    id: 'drizzle-cjs',
    title: 'Drizzle, CommonJS',
    form: 'cjs',
    dependencies: { ...pg, 'drizzle-orm': '0.45.4' },
    database: drizzle,
    hasNoBegin: true,
  },
];
