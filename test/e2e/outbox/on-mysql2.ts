import type { Library } from './library.ts';
import { sequelizeOn, typeormOn } from './orms.ts';
import { drizzleOn, knexOn, kyselyOn } from './query-builders.ts';

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

const pool = (from: string): string => `import mysql from '${from}';

const pool = mysql.createPool({ uri: process.env.DATABASE, connectionLimit: 12 });`;
const knex = knexOn("{ client: 'mysql2', connection: process.env.DATABASE, pool: { min: 0, max: 12 } }");
const kysely = kyselyOn('MysqlDialect', pool('mysql2'), '{ pool }');
const drizzle = drizzleOn(
  `import { mysqlTable, varchar } from 'drizzle-orm/mysql-core';
import { drizzle } from 'drizzle-orm/mysql2';`,
  pool('mysql2/promise'),
  "mysqlTable('orders', { id: varchar({ length: 64 }).primaryKey() })",
);
const typeorm = typeormOn('mysql', "type: 'varchar', length: 64");
const sequelize = sequelizeOn(
  "process.env.DATABASE.replace(/^mariadb:/, 'mysql:'), { dialect: 'mysql', ",
  'STRING(64)',
);

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
