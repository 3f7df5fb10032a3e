import type { Library } from './library.ts';

const mysql2 = { mysql2: '3.24.6' };

const promises = `
import mysql from 'mysql2/promise';

const pool = mysql.createPool({ uri: process.env.DATABASE, connectionLimit: 12 });

export async function transaction(work) {
  const connection = await pool.getConnection();
  try {
    await connection.beginTransaction();
    const result = await work(connection);
    await connection.commit();
    return result;
  } catch (error) {
    await connection.rollback();
    throw error;
  } finally {
    connection.release();
  }
}

export async function nested(tx, work) {
  await tx.query('SAVEPOINT inner_one');
  try {
    const result = await work(tx);
    await tx.query('RELEASE SAVEPOINT inner_one');
    return result;
  } catch (error) {
    await tx.query('ROLLBACK TO SAVEPOINT inner_one');
    throw error;
  }
}

export const insert = (tx, id) => (tx ?? pool).execute('INSERT INTO orders (id) VALUES (?)', [id]);

export async function begin() {
  const tx = await pool.getConnection();
  await tx.query('START TRANSACTION');
  const end = async (text) => { try { await tx.query(text); } finally { tx.release(); } };
  return { tx, commit: () => end('COMMIT'), rollback: () => end('ROLLBACK') };
}

export const close = () => pool.end();
export const dataSource = async () => pool;
`;

const callbacks = `
import mysql from 'mysql2';

const pool = mysql.createPool({ uri: process.env.DATABASE, connectionLimit: 12 });

export const transaction = (work) => new Promise((resolve, reject) => {
  pool.getConnection((error, connection) => {
    if (error) return reject(error);
    const failed = (reason) => void connection.rollback(() => { connection.release(); reject(reason); });
    connection.beginTransaction((error) => {
      if (error) return failed(error);
      work(connection).then((result) => void connection.commit((error) => {
        if (error) return failed(error);
        connection.release();
        resolve(result);
      }), failed);
    });
  });
});

export const nested = (tx, work) => new Promise((resolve, reject) => {
  tx.query('SAVEPOINT inner_one', (error) => {
    if (error) return reject(error);
    work(tx).then(
      (result) => void tx.query('RELEASE SAVEPOINT inner_one', (error) => (error ? reject(error) : resolve(result))),
      (reason) => void tx.query('ROLLBACK TO SAVEPOINT inner_one', () => reject(reason)),
    );
  });
});

export const insert = (tx, id) => new Promise((resolve, reject) => {
  (tx ?? pool).execute('INSERT INTO orders (id) VALUES (?)', [id], (error, result) => (error ? reject(error) : resolve(result)));
});

export const begin = () => new Promise((resolve, reject) => {
  pool.getConnection((error, tx) => {
    if (error) return reject(error);
    const end = (text) => () => new Promise((done, failed) => {
      tx.query(text, (error) => { tx.release(); error ? failed(error) : done(); });
    });
    tx.query('START TRANSACTION', (error) => (error ? reject(error) : resolve({ tx, commit: end('COMMIT'), rollback: end('ROLLBACK') })));
  });
});

export const dataSource = async () => pool;
export const close = () => new Promise((resolve) => pool.end(resolve));
`;

const knex = `
import knex from 'knex';

const db = knex({ client: 'mysql2', connection: process.env.DATABASE, pool: { min: 0, max: 12 } });

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

const kysely = `
import { Kysely, MysqlDialect, sql } from 'kysely';
import mysql from 'mysql2';

const pool = mysql.createPool({ uri: process.env.DATABASE, connectionLimit: 12 });
const db = new Kysely({ dialect: new MysqlDialect({ pool }) });

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

const drizzle = `
import { mysqlTable, varchar } from 'drizzle-orm/mysql-core';
import { drizzle } from 'drizzle-orm/mysql2';
import mysql from 'mysql2/promise';

const pool = mysql.createPool({ uri: process.env.DATABASE, connectionLimit: 12 });
const db = drizzle({ client: pool });
const orders = mysqlTable('orders', { id: varchar({ length: 64 }).primaryKey() });

export const transaction = (work) => db.transaction(work);
export const nested = (tx, work) => tx.transaction(work);
export const insert = (tx, id) => (tx ?? db).insert(orders).values({ id });
export const close = () => pool.end();
export const dataSource = async () => db;
`;

const typeorm = `
import { DataSource, EntitySchema } from 'typeorm';

const Order = new EntitySchema({ name: 'Order', tableName: 'orders', columns: { id: { type: 'varchar', length: 64, primary: true } } });
const source = new DataSource({ type: 'mysql', url: process.env.DATABASE, entities: [Order], poolSize: 12 });
const ready = source.initialize();

export const transaction = async (work) => (await ready).transaction(work);
export const nested = (tx, work) => tx.transaction(work);
export const insert = async (tx, id) => (tx ?? (await ready).manager).insert(Order, { id });
export async function begin() {
  const runner = (await ready).createQueryRunner();
  await runner.connect();
  await runner.startTransaction();
  const end = async (work) => { try { await work(); } finally { await runner.release(); } };
  return {
    tx: runner.manager,
    commit: () => end(() => runner.commitTransaction()),
    rollback: () => end(() => runner.rollbackTransaction()),
  };
}
export const close = async () => (await ready).destroy();
export const dataSource = async () => ready;
`;

const sequelize = `
import { DataTypes, Sequelize } from 'sequelize';

const db = new Sequelize(process.env.DATABASE.replace(/^mariadb:/, 'mysql:'), { dialect: 'mysql', logging: false, pool: { max: 12 } });
const Order = db.define('Order', { id: { type: DataTypes.STRING(64), primaryKey: true } }, { tableName: 'orders', timestamps: false });

export const transaction = (work) => db.transaction(work);
export const nested = (tx, work) => db.transaction({ transaction: tx }, work);
export const insert = (tx, id) => Order.create({ id }, { transaction: tx });
export async function begin() {
  const tx = await db.transaction();
  return { tx, commit: () => tx.commit(), rollback: () => tx.rollback() };
}
export const close = () => db.close();
export const dataSource = async () => db;
`;

const onMariadb = { server: 'mariadb', form: 'esm' } as const;
const onMysql8 = { server: 'mysql', form: 'esm' } as const;

/** The same on `mysql2`, run against MariaDB, and in part against MySQL 8.0. */
export const onMysql2: readonly Library[] = [
  {
    ...onMariadb,
    id: 'mysql2',
    title: '`mysql2/promise`',
    isEveryday: true,
    dependencies: mysql2,
    database: promises,
    hasNoCallbackResult: true,
  },
  {
    ...onMariadb,
    id: 'mysql2-callbacks',
    title: '`mysql2` with callbacks',
    form: 'cjs',
    dependencies: mysql2,
    database: callbacks,
    hasNoCallbackResult: true,
  },
  {
    ...onMariadb,
    id: 'knex-mysql2',
    title: 'Knex on `mysql2`',
    dependencies: { ...mysql2, knex: '3.3.0' },
    database: knex,
  },
  {
    ...onMariadb,
    id: 'kysely-mysql2',
    title: 'Kysely on `mysql2`',
    dependencies: { ...mysql2, kysely: '0.29.9' },
    database: kysely,
  },
  {
    ...onMariadb,
    id: 'drizzle-mysql2',
    title: 'Drizzle on `mysql2`',
    dependencies: { ...mysql2, 'drizzle-orm': '0.45.4' },
    database: drizzle,
    hasNoBegin: true,
  },
  {
    ...onMariadb,
    id: 'typeorm-mysql2',
    title: 'TypeORM on `mysql2`',
    form: 'cjs',
    dependencies: { ...mysql2, typeorm: '1.1.1', 'reflect-metadata': '0.2.2' },
    database: typeorm,
  },
  {
    ...onMariadb,
    id: 'sequelize-mysql2',
    title: 'Sequelize on `mysql2`',
    dependencies: { ...mysql2, sequelize: '6.37.8' },
    database: sequelize,
  },
  {
    ...onMysql8,
    id: 'mysql2-mysql8',
    title: '`mysql2/promise` on MySQL',
    dependencies: mysql2,
    database: promises,
    hasNoCallbackResult: true,
  },
  {
    ...onMysql8,
    id: 'typeorm-mysql8',
    title: 'TypeORM on `mysql2` on MySQL',
    form: 'cjs',
    dependencies: { ...mysql2, typeorm: '1.1.1', 'reflect-metadata': '0.2.2' },
    database: typeorm,
  },
];
