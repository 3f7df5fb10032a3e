import type { Library } from './library.ts';

const pg = { pg: '8.23.1' };

/** Each is the same on every database but for its type, and that of a text that can be a key. */
export const typeormOn = (type: string, text: string): string => `
import { DataSource, EntitySchema } from 'typeorm';

const Order = new EntitySchema({ name: 'Order', tableName: 'orders', columns: { id: { ${text}, primary: true } } });
const source = new DataSource({ type: '${type}', url: process.env.DATABASE, entities: [Order], poolSize: 12 });
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

export const sequelizeOn = (open: string, text: string): string => `
import { DataTypes, Sequelize } from 'sequelize';

const db = new Sequelize(${open}logging: false, pool: { max: 12 } });
const Order = db.define('Order', { id: { type: DataTypes.${text}, primaryKey: true } }, { tableName: 'orders', timestamps: false });

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

const mikro = `
import { EntitySchema, MikroORM } from '@mikro-orm/postgresql';

const Order = new EntitySchema({ name: 'Order', tableName: 'orders', properties: { id: { type: 'text', primary: true } } });
const ready = MikroORM.init({ clientUrl: process.env.DATABASE, entities: [Order], pool: { min: 0, max: 12 } });
const fork = async () => (await ready).em.fork();

export const transaction = async (work) => (await fork()).transactional(work);
export const nested = (tx, work) => tx.transactional(work);
export const insert = async (tx, id) => (tx ?? (await fork())).insert(Order, { id });
export async function begin() {
  const tx = await fork();
  await tx.begin();
  return { tx, commit: () => tx.commit(), rollback: () => tx.rollback() };
}
export const close = async () => (await ready).close();
export const dataSource = async () => fork();
`;

export const orms: readonly Library[] = [
  {
    id: 'typeorm',
    title: 'TypeORM',
    form: 'cjs',
    dependencies: { ...pg, typeorm: '1.1.1', 'reflect-metadata': '0.2.2' },
    database: typeormOn('postgres', "type: 'text'"),
    remark:
      '`save()` and `remove()` outside `transaction()` open their own: `result: transaction` is the entity, with its generated id. Without a transaction, `insert()`, `update()` and `delete()` write by themselves',
  },
  {
    id: 'sequelize',
    title: 'Sequelize',
    form: 'esm',
    dependencies: { ...pg, sequelize: '6.37.8' },
    database: sequelizeOn('process.env.DATABASE, { ', 'TEXT'),
    remark: 'Each call needs `{ transaction }`, or `Sequelize.useCLS`: without it Sequelize writes by itself',
  },
  {
    id: 'mikro-orm',
    title: 'MikroORM',
    form: 'esm',
    dependencies: { ...pg, '@mikro-orm/core': '7.2.1', '@mikro-orm/postgresql': '7.2.1' },
    database: mikro,
    remark:
      '`persist()` writes nothing: name the function that flushes, or call everything in `transactional()`, which flushes before its COMMIT. `flush()` outside it opens its own transaction: `result: transaction` is the entity',
  },
];
