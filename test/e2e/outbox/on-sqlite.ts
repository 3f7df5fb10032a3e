import type { Library } from './library.ts';
import { knexOn, kyselyOn } from './query-builders.ts';

const betterSqlite3 = { 'better-sqlite3': '13.2.0' };

/** Of both drivers, whose methods are alike. */
const byHand = (open: string, isOpen: string): string => `
${open}

const rollBack = () => { if (db.${isOpen}) db.exec('ROLLBACK'); };

export async function transaction(work) {
  db.exec('BEGIN');
  try {
    const result = await work(db);
    db.exec('COMMIT');
    return result;
  } catch (error) {
    rollBack();
    throw error;
  }
}

export async function nested(tx, work) {
  tx.exec('SAVEPOINT inner_one');
  try {
    const result = await work(tx);
    tx.exec('RELEASE inner_one');
    return result;
  } catch (error) {
    tx.exec('ROLLBACK TO inner_one');
    throw error;
  }
}

export const insert = async (tx, id) => void (tx ?? db).prepare('INSERT INTO orders (id) VALUES (?)').run(id);

export async function begin() {
  db.exec('begin immediate');
  return { tx: db, commit: async () => db.exec('commit'), rollback: async () => rollBack() };
}

export const dataSource = async () => db;
export const close = async () => void db.close();
`;

const nodeSqlite = byHand(
  `import { DatabaseSync } from 'node:sqlite';

const db = new DatabaseSync(process.env.DATABASE);`,
  'isTransaction',
);

const better = byHand(
  `import Database from 'better-sqlite3';

const db = new Database(process.env.DATABASE);`,
  'inTransaction',
);

const knex = knexOn(
  "{ client: 'better-sqlite3', connection: { filename: process.env.DATABASE }, useNullAsDefault: true }",
);

const kysely = kyselyOn(
  'SqliteDialect',
  "import Database from 'better-sqlite3';\n",
  '{ database: new Database(process.env.DATABASE) }',
);

const drizzle = `
import Database from 'better-sqlite3';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/better-sqlite3';
import { sqliteTable, text } from 'drizzle-orm/sqlite-core';

const client = new Database(process.env.DATABASE);
const db = drizzle({ client });
const orders = sqliteTable('orders', { id: text().primaryKey() });

const rollBack = () => { if (client.inTransaction) db.run(sql\`ROLLBACK\`); };

export async function transaction(work) {
  db.run(sql\`BEGIN\`);
  try {
    const result = await work(db);
    db.run(sql\`COMMIT\`);
    return result;
  } catch (error) {
    rollBack();
    throw error;
  }
}
export async function nested(tx, work) {
  tx.run(sql\`SAVEPOINT inner_one\`);
  try {
    return await work(tx);
  } catch (error) {
    tx.run(sql\`ROLLBACK TO inner_one\`);
    throw error;
  }
}
export const insert = async (tx, id) => (tx ?? db).insert(orders).values({ id }).run();
export async function begin() {
  db.run(sql\`BEGIN IMMEDIATE\`);
  return { tx: db, commit: async () => db.run(sql\`COMMIT\`), rollback: async () => rollBack() };
}
export const dataSource = async () => db;
export const close = async () => void client.close();
`;

const inFile = { server: 'sqlite', form: 'esm', hasOneConnection: true } as const;

/** On a file, with the one connection that SQLite's users have. */
export const onSqlite: readonly Library[] = [
  {
    ...inFile,
    id: 'node-sqlite',
    title: '`node:sqlite`',
    isEveryday: true,
    dependencies: {},
    database: nodeSqlite,
    hasNoCallbackResult: true,
    needsNode: '22.16',
    remark: 'Node 22.16 and later',
  },
  {
    ...inFile,
    id: 'better-sqlite3',
    title: '`better-sqlite3`',
    form: 'cjs',
    isEveryday: true,
    dependencies: betterSqlite3,
    database: better,
    hasNoCallbackResult: true,
    remark: 'Its own `transaction()` is synchronous: there, `result: transaction` is known',
  },
  {
    ...inFile,
    id: 'knex-sqlite',
    title: 'Knex on `better-sqlite3`',
    dependencies: { ...betterSqlite3, knex: '3.3.0' },
    database: knex,
  },
  {
    ...inFile,
    id: 'kysely-sqlite',
    title: 'Kysely on `better-sqlite3`',
    dependencies: { ...betterSqlite3, kysely: '0.29.9' },
    database: kysely,
  },
  {
    ...inFile,
    id: 'drizzle-sqlite',
    title: 'Drizzle on `better-sqlite3`',
    dependencies: { ...betterSqlite3, 'drizzle-orm': '0.45.4' },
    database: drizzle,
    hasNoCallbackResult: true,
    remark: 'With `BEGIN` and `COMMIT` as statements: its `transaction()` takes no asynchronous function',
  },
];
