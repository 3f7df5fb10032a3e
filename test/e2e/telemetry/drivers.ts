import type { Dependencies } from '../../support/packed.ts';
import type { Requirement } from '../../support/requires.ts';
import type { OtelLine } from '../support/subject.ts';

/** A database, and what an application uses it through: the instrumentations watch all of it. */
export interface TracedDriver {
  readonly title: string;
  readonly dialect: 'postgres' | 'mysql';
  readonly server: Extract<Requirement, 'postgres' | 'mariadb'>;
  /** Classes by their package. */
  readonly instrumentations: Readonly<Record<string, string>>;
  /** Text of an ES module: `work()`, in which `place…` are captured functions. */
  readonly work: string;
}

export const tracedDrivers: readonly TracedDriver[] = [
  {
    title: 'pg, and Knex and TypeORM on it',
    dialect: 'postgres',
    server: 'postgres',
    instrumentations: {
      '@opentelemetry/instrumentation-pg': 'PgInstrumentation',
      '@opentelemetry/instrumentation-knex': 'KnexInstrumentation',
      '@opentelemetry/instrumentation-typeorm': 'TypeormInstrumentation',
    },
    work: `
import knex from 'knex';
import pg from 'pg';
import { DataSource, EntitySchema } from 'typeorm';

async function place(client, id) {
  await client.query('INSERT INTO orders (id) VALUES ($1)', [id]);
  return { id };
}
async function placeWithKnex(tx, id) {
  await tx('orders').insert({ id });
  return { id };
}
async function placeWithTypeorm(tx, id) {
  await tx.insert('Order', { id });
  return { id };
}

const placePrepared = (client) => client.query({ name: 'place', text: 'INSERT INTO orders (id) VALUES ($1)', values: ['2'] });

async function work() {
  const pool = new pg.Pool({ connectionString: process.env.DATABASE, max: 2 });
  await pool.query('SELECT 1');
  const client = await pool.connect();
  await client.query('BEGIN');
  await place(client, '1');
  await client.query('COMMIT');
  await client.query('BEGIN');
  await place(client, '3');
  await placePrepared(client);
  await client.query('ROLLBACK');
  await new Promise((resolve) => client.query('SELECT 2', resolve));
  client.release();
  await new Promise((resolve) => pool.connect((error, found, release) => { release(); resolve(); }));
  await pool.end();

  const db = knex({ client: 'pg', connection: process.env.DATABASE });
  await db.transaction((tx) => placeWithKnex(tx, '4'));
  await db('orders').select();
  await db.destroy();

  const Order = new EntitySchema({ name: 'Order', tableName: 'orders', columns: { id: { type: 'text', primary: true } } });
  const source = await new DataSource({ type: 'postgres', url: process.env.DATABASE, entities: [Order] }).initialize();
  await source.transaction((tx) => placeWithTypeorm(tx, '5'));
  await source.getRepository('Order').save({ id: '6' });
  await source.getRepository('Order').find();
  await source.destroy();
}`,
  },
  {
    title: 'mysql2',
    dialect: 'mysql',
    server: 'mariadb',
    instrumentations: { '@opentelemetry/instrumentation-mysql2': 'MySQL2Instrumentation' },
    work: `
import mysql from 'mysql2/promise';

async function place(connection, id) {
  await connection.execute('INSERT INTO orders (id) VALUES (?)', [id]);
  return { id };
}

async function work() {
  const pool = mysql.createPool(process.env.DATABASE);
  await pool.query('SELECT 1');
  const connection = await pool.getConnection();
  await connection.beginTransaction();
  await place(connection, '1');
  await connection.commit();
  connection.release();
  await pool.end();
}`,
  },
];

const same: Dependencies = {
  pg: '8.23.1',
  mysql2: '3.24.6',
  knex: '3.3.0',
  typeorm: '1.1.1',
  'reflect-metadata': '0.2.2',
};

/** What the application installs beside the SDK. */
export const driverDependencies: Readonly<Record<OtelLine, Dependencies>> = {
  3: {
    ...same,
    '@opentelemetry/instrumentation-pg': '0.77.0',
    '@opentelemetry/instrumentation-mysql2': '0.70.0',
    '@opentelemetry/instrumentation-knex': '0.68.0',
    '@opentelemetry/instrumentation-typeorm': '0.22.0',
  },
  2: {
    ...same,
    '@opentelemetry/instrumentation-pg': '0.75.0',
    '@opentelemetry/instrumentation-mysql2': '0.69.0',
    '@opentelemetry/instrumentation-knex': '0.67.0',
    '@opentelemetry/instrumentation-typeorm': '0.21.0',
  },
};

/** The same program in either form, which prints what the SDK of the application has seen. */
export function programOf(work: string, form: 'mjs' | 'cjs'): string {
  const text = `${work}\n
const main = async () => {
  await work();
  console.log(JSON.stringify(await globalThis.sdkSeen()));
};
main();`;
  return form === 'mjs' ? text : text.replace(/^import (.+) from ('.+');$/gm, 'const $1 = require($2);');
}
