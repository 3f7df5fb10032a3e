import * as nodeSqlite from 'node:sqlite';
import BetterSqlite3 from 'better-sqlite3';
import mysql from 'mysql2';
import mysqlPromise from 'mysql2/promise';
import pg from 'pg';
import postgres from 'postgres';
import { mysql2Drivers } from '../../../src/adapters/mysql/mysql2-driver.ts';
import { pgDriver } from '../../../src/adapters/postgres/pg-driver.ts';
import { sqliteDrivers } from '../../../src/adapters/sqlite/sqlite-driver.ts';
import { startOwnWork } from '../../../src/ground/lifecycle.ts';
import { patchDriver } from '../../contract/captured.ts';
import { startMariadb } from '../../support/mariadb.ts';
import { startPostgres } from '../../support/postgres.ts';
import type { Requirement } from '../../support/requires.ts';

type Send = (text: string) => unknown;

/** An application's own way to its database: two tables, and transactions that it begins and ends itself. */
export interface Shop {
  /** Handed to `runInTransaction`. */
  readonly dataSource: object;
  /** What `runInTransaction` hands over, and `transaction` as well. */
  order(executor: unknown, id: string): unknown;
  transaction<R>(work: (executor: object) => Promise<R>): Promise<R>;
  /** An executor that is in no transaction, as long as `work` runs. */
  outside?(work: (executor: object) => Promise<unknown>): Promise<unknown>;
  ids(table: 'orders' | 'events'): Promise<string[]>;
  clear(): Promise<void>;
  close(): Promise<unknown> | undefined;
}

export interface ShopKind {
  readonly title: string;
  readonly needs?: Requirement;
  /** svc sees the end of its transactions. */
  readonly isFollowed: boolean;
  open(): Promise<Shop>;
}

const tables = ['orders', 'events'].map((name) => `CREATE TABLE ${name} (id varchar(99) PRIMARY KEY)`);
const idsOf = (rows: unknown): string[] => (rows as { id: string }[]).map(({ id }) => id);
const insert = (id: string): string => `INSERT INTO orders (id) VALUES ('${id}')`;
const deletes = ['DELETE FROM orders', 'DELETE FROM events'];
const select = (table: string): string => `SELECT id FROM ${table} ORDER BY id`;

async function byHand<R>(send: Send, work: () => Promise<R>): Promise<R> {
  await send('BEGIN');
  try {
    const result = await work();
    await send('COMMIT');
    return result;
  } catch (error) {
    // SQLite: svc may have done it.
    await Promise.resolve()
      .then(() => send('ROLLBACK'))
      .catch(() => {});
    throw error;
  }
}

async function openPg(): Promise<Shop> {
  patchDriver(pgDriver, pg);
  const pool = new pg.Pool({ connectionString: await (await startPostgres()).freshDatabase(), max: 4 });
  for (const text of tables) await startOwnWork(() => pool.query(text));
  const withClient = async <R>(work: (client: pg.PoolClient) => Promise<R>): Promise<R> => {
    const client = await pool.connect();
    try {
      return await work(client);
    } finally {
      client.release();
    }
  };
  return {
    dataSource: pool,
    order: (client, id) => (client as pg.PoolClient).query(insert(id)),
    transaction: (work) =>
      withClient((client) =>
        byHand(
          (text) => client.query(text),
          () => work(client),
        ),
      ),
    outside: withClient,
    ids: async (table) => idsOf((await startOwnWork(() => pool.query(select(table)))).rows),
    async clear() {
      for (const text of deletes) await startOwnWork(() => pool.query(text));
    },
    close: () => pool.end(),
  };
}

async function openPostgresJs(): Promise<Shop> {
  const sql = postgres(await (await startPostgres()).freshDatabase(), { max: 4, onnotice() {} });
  for (const text of tables) await sql.unsafe(text);
  return {
    dataSource: sql,
    order: (tx, id) => (tx as postgres.TransactionSql).unsafe(insert(id)),
    transaction: (work) => sql.begin((tx) => work(tx)) as never,
    outside: (work) => work(sql),
    ids: async (table) => idsOf(await sql.unsafe(select(table))),
    async clear() {
      for (const text of deletes) await sql.unsafe(text);
    },
    close: () => sql.end(),
  };
}

async function mariadbUri(): Promise<string> {
  for (const [index, exports] of [mysql, mysqlPromise].entries())
    patchDriver(mysql2Drivers[index] as (typeof mysql2Drivers)[number], exports);
  return (await (await startMariadb()).freshDatabase()).replace(/^mariadb:/, 'mysql:');
}

async function openMysql2(): Promise<Shop> {
  const pool = mysqlPromise.createPool(await mariadbUri());
  for (const text of tables) await startOwnWork(() => pool.query(text));
  const withConnection = async <R>(work: (one: mysqlPromise.PoolConnection) => Promise<R>): Promise<R> => {
    const connection = await pool.getConnection();
    try {
      return await work(connection);
    } finally {
      connection.release();
    }
  };
  return {
    dataSource: pool,
    order: (connection, id) => (connection as mysqlPromise.Connection).query(insert(id)),
    transaction: (work) =>
      withConnection((one) =>
        byHand(
          (text) => one.query(text),
          () => work(one),
        ),
      ),
    outside: withConnection,
    ids: async (table) => idsOf((await startOwnWork(() => pool.query(select(table))))[0]),
    async clear() {
      for (const text of deletes) await startOwnWork(() => pool.query(text));
    },
    close: () => pool.end(),
  };
}

async function openMysql2Callbacks(): Promise<Shop> {
  const pool = mysql.createPool(await mariadbUri());
  const promised = pool.promise();
  for (const text of tables) await startOwnWork(() => promised.query(text));
  const send = (connection: mysql.Connection, text: string) =>
    new Promise((resolve, reject) =>
      connection.query(text, (error, rows) => (error ? reject(error) : resolve(rows))),
    );
  return {
    dataSource: pool,
    order: (connection, id) => send(connection as mysql.Connection, insert(id)),
    async transaction(work) {
      const { connection } = await promised.getConnection();
      const one = connection as unknown as mysql.PoolConnection;
      try {
        return await byHand(
          (text) => send(one, text),
          () => work(one),
        );
      } finally {
        one.release();
      }
    },
    ids: async (table) => idsOf((await startOwnWork(() => promised.query(select(table))))[0]),
    async clear() {
      for (const text of deletes) await startOwnWork(() => promised.query(text));
    },
    close: () => promised.end(),
  };
}

interface Handle {
  exec(text: string): unknown;
  prepare(text: string): { all(): unknown[] };
  close(): unknown;
}

function sqliteShop(handle: Handle): Shop {
  startOwnWork(() => handle.exec(tables.join(';')));
  return {
    dataSource: handle,
    order: (_, id) => handle.exec(insert(id)),
    transaction: (work) =>
      byHand(
        (text) => handle.exec(text),
        () => work(handle),
      ),
    outside: (work) => work(handle),
    ids: async (table) => idsOf(startOwnWork(() => handle.prepare(select(table)).all())),
    async clear() {
      startOwnWork(() => handle.exec(deletes.join(';')));
    },
    close: () => void handle.close(),
  };
}

/** The smallest executor, over a driver that is not followed. */
async function openPort(): Promise<Shop> {
  const shop = await openPostgresJs();
  const port = (tx: unknown) => ({
    dialect: 'postgres' as const,
    execute: (text: string, params: unknown[] = []) =>
      (tx as postgres.TransactionSql).unsafe(text, params as never[]),
  });
  return {
    ...shop,
    dataSource: {
      transaction: (work: (tx: object) => Promise<unknown>) => shop.transaction((tx) => work(port(tx))),
    },
    order: (executor, id) => (executor as ReturnType<typeof port>).execute(insert(id)),
    transaction: (work) => shop.transaction((tx) => work(port(tx))),
    outside: undefined as never,
  };
}

export const shopKinds: readonly ShopKind[] = [
  { title: 'pg', needs: 'postgres', isFollowed: true, open: openPg },
  { title: 'postgres.js', needs: 'postgres', isFollowed: false, open: openPostgresJs },
  { title: 'a port', needs: 'postgres', isFollowed: false, open: openPort },
  { title: 'mysql2/promise', needs: 'mariadb', isFollowed: true, open: openMysql2 },
  { title: 'mysql2 with callbacks', needs: 'mariadb', isFollowed: true, open: openMysql2Callbacks },
  {
    title: 'node:sqlite',
    isFollowed: true,
    async open() {
      patchDriver(sqliteDrivers.nodeSqlite, nodeSqlite);
      return sqliteShop(new nodeSqlite.DatabaseSync(':memory:'));
    },
  },
  {
    title: 'better-sqlite3',
    isFollowed: true,
    async open() {
      patchDriver(sqliteDrivers.betterSqlite3, BetterSqlite3);
      return sqliteShop(new BetterSqlite3(':memory:'));
    },
  },
];
