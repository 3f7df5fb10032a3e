import type { Dependencies } from '../../support/packed.ts';
import type { Files } from '../support/run-app.ts';
import { orms } from './orms.ts';
import { generate, prisma } from './prisma.ts';

/** An ORM that writes and commits by itself, as most applications use it: nothing in the code says "transaction". */
export interface CrudOrm {
  readonly id: string;
  readonly title: string;
  readonly dependencies: Dependencies;
  /**
   * Text of the module `orders`, in ES modules: `create(note)` writes an order with two lines, `change(id, note)` changes one, `remove(id)`
   * deletes one; each returns the order, whose id the database has made.
   */
  readonly orders: string;
  /** A script of the application folder that must have run. */
  readonly build?: string;
  /** It has TypeScript in it that Node has to run. */
  readonly hasTypes?: boolean;
  readonly files?: Files;
}

export const tables = [
  'CREATE TABLE sales (id serial PRIMARY KEY, note text NOT NULL UNIQUE)',
  'CREATE TABLE lines (id serial PRIMARY KEY, sku text NOT NULL, order_id int NOT NULL REFERENCES sales (id) ON DELETE CASCADE)',
];

const typeorm = `
import { DataSource, EntitySchema } from 'typeorm';

const id = { type: 'int', primary: true, generated: true };
const Order = new EntitySchema({
  name: 'Order', tableName: 'sales', columns: { id, note: { type: 'text' } },
  relations: { lines: { type: 'one-to-many', target: 'Line', inverseSide: 'order', cascade: true } },
});
const Line = new EntitySchema({
  name: 'Line', tableName: 'lines', columns: { id, sku: { type: 'text' } },
  relations: { order: { type: 'many-to-one', target: 'Order', joinColumn: { name: 'order_id' } } },
});
const source = await new DataSource({ type: 'postgres', url: process.env.DATABASE, entities: [Order, Line], poolSize: 12 }).initialize();
const repo = source.getRepository(Order);

export async function create(note) {
  return repo.save({ note, lines: [{ sku: 'a' }, { sku: 'b' }] });
}
export async function change(id, note) {
  const order = await repo.findOneByOrFail({ id });
  order.note = note;
  return source.manager.save(Order, order);
}
export async function remove(id) {
  const order = await repo.findOneByOrFail({ id });
  await repo.remove(order);
  return { id };
}
export const close = () => source.destroy();
`;

const mikro = `
import { EntitySchema, MikroORM } from '@mikro-orm/postgresql';

const id = { type: 'number', primary: true, autoincrement: true };
const Order = new EntitySchema({
  name: 'Order', tableName: 'sales',
  properties: { id, note: { type: 'text' }, lines: { kind: '1:m', entity: () => Line, mappedBy: 'order' } },
});
const Line = new EntitySchema({
  name: 'Line', tableName: 'lines',
  properties: { id, sku: { type: 'text' }, order: { kind: 'm:1', entity: () => Order, fieldName: 'order_id' } },
});
const orm = await MikroORM.init({ clientUrl: process.env.DATABASE, entities: [Order, Line], pool: { min: 0, max: 12 } });

export async function create(note) {
  const em = orm.em.fork();
  const order = em.create(Order, { note, lines: [{ sku: 'a' }, { sku: 'b' }] }, { persist: false });
  em.persist(order);
  await em.flush();
  return order;
}
export async function change(id, note) {
  const em = orm.em.fork();
  const order = await em.findOneOrFail(Order, id);
  order.note = note;
  await em.flush();
  return order;
}
export async function remove(id) {
  const em = orm.em.fork();
  const order = await em.findOneOrFail(Order, id);
  em.remove(order);
  await em.flush();
  return order;
}
export const close = () => orm.close();
`;

const prismaOrders = (client: string): string => `
import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from '${client}';

const db = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE, max: 12 }) });

export async function create(note) {
  return db.order.create({ data: { note, lines: { create: [{ sku: 'a' }, { sku: 'b' }] } }, include: { lines: true } });
}
export async function change(id, note) {
  return db.order.update({ where: { id }, data: { note, lines: { updateMany: { where: {}, data: { sku: 'c' } } } } });
}
export async function remove(id) {
  return db.order.update({ where: { id }, data: { lines: { deleteMany: {} } } });
}
export const close = () => db.$disconnect();
`;

const schema = (generator: string): string => `
generator client {
  ${generator}
}
datasource db {
  provider = "postgresql"
}
model Order {
  id    Int    @id @default(autoincrement())
  note  String @unique
  lines Line[]
  @@map("sales")
}
model Line {
  id      Int    @id @default(autoincrement())
  sku     String
  orderId Int    @map("order_id")
  order   Order  @relation(fields: [orderId], references: [id], onDelete: Cascade)
  @@map("lines")
}
`;

function dependenciesOf(id: string): Dependencies {
  return [...orms, ...prisma].find((library) => library.id === id)?.dependencies ?? {};
}

export const crudOrms: readonly CrudOrm[] = [
  {
    id: 'typeorm',
    title: 'TypeORM, save() and remove() of a repository',
    dependencies: dependenciesOf('typeorm'),
    orders: typeorm,
  },
  {
    id: 'mikro-orm',
    title: 'MikroORM, flush()',
    dependencies: dependenciesOf('mikro-orm'),
    orders: mikro,
  },
  {
    id: 'mikro-orm-6',
    title: 'MikroORM 6, persistAndFlush() and removeAndFlush()',
    dependencies: { pg: '8.23.1', '@mikro-orm/core': '6.6.7', '@mikro-orm/postgresql': '6.6.7' },
    orders: mikro.replaceAll(
      /em\.(persist|remove)\(order\);\n {2}await em\.flush\(\);/g,
      'await em.$1AndFlush(order);',
    ),
  },
  {
    id: 'prisma',
    title: 'Prisma, nested writes',
    dependencies: dependenciesOf('prisma'),
    orders: prismaOrders('./generated/client.ts'),
    build: generate,
    hasTypes: true,
    files: {
      'schema.prisma': schema(
        'provider = "prisma-client"\n  output = "./generated"\n  moduleFormat = "esm"\n  importFileExtension = "ts"',
      ),
    },
  },
  {
    id: 'prisma-js',
    title: 'Prisma, nested writes, generator `prisma-client-js`',
    dependencies: dependenciesOf('prisma-js'),
    orders: prismaOrders('@prisma/client'),
    build: generate,
    files: { 'schema.prisma': schema('provider = "prisma-client-js"') },
  },
];

export const main = `
import * as orders from './orders.mjs';

const eight = [0, 1, 2, 3, 4, 5, 6, 7];
const ends = {};
const tell = async (name, work) => {
  try {
    ends[name] = await work();
  } catch (error) {
    const said = [];
    for (let each = error; each && said.length < 5; each = each.cause) said.push(each.code, each.message);
    ends[name] = said.join(' ');
  }
};
await tell('created', async () => {
  const { id, note, lines } = await orders.create('first');
  return { id, note, lines: [...(lines ?? [])].length };
});
await tell('changed', async () => ({ note: (await orders.change(1, 'second')).note }));
await tell('taken', async () => void (await orders.create('second')));
await tell('refused', async () => void (await orders.create('refused')));
await Promise.all(eight.map((n) => orders.create('eight-' + (n % 2 ? 'same' : n)).catch(() => {})));
await tell('removed', async () => ({ id: (await orders.remove(1)).id }));
console.log(JSON.stringify(ends));
await orders.close();
`;
