import type { Form } from './form.ts';

const kind = 'esm';

/** What functions return, and what a wrapper must not change about them. */
export const esmResults: readonly Form[] = [
  {
    id: 'result-value',
    title: 'Returns a value: object, primitive, nothing',
    kind,
    files: {
      'orders.mjs': 'export const object = () => { here(); return { a: [1] }; };\nexport const text = () => "x";\nexport const nothing = () => {};\nexport const big = () => 2n ** 70n;\n',
    },
    targets: [{ function: 'object' }, { function: 'text' }, { function: 'nothing' }, { function: 'big' }],
    call: `import { object, text, nothing, big } from './orders.mjs';
export default () => [object(), text(), nothing(), big()];`,
    returns: [{ a: [1] }, 'x', 'undefined', '1180591620717411303424n'],
    events: { object: 1, text: 1, nothing: 1, big: 1 },
    payloads: {
      object: [{ a: [1] }],
      text: [{ value: 'x' }],
      nothing: [{ value: null }],
      big: [{ value: '1180591620717411303424' }],
    },
  },
  {
    id: 'result-promise',
    title: 'Returns a promise; rejections reach the caller and publish nothing',
    kind,
    files: {
      'orders.mjs': `export async function createOrder(id) {
  here();
  await new Promise((resolve) => setTimeout(resolve, 5));
  if (id < 0) throw new RangeError(\`no \${id}\`);
  return id;
}
export const subclass = (id) => Tracked.resolve(id);
export class Tracked extends Promise {}
`,
    },
    targets: [{ function: 'createOrder' }, { function: 'subclass' }],
    call: `import { createOrder, subclass, Tracked } from './orders.mjs';
export default async () => {
  const kept = subclass(3);
  return [await createOrder(1), await createOrder(-1).catch((error) => error.name + ' ' + error.message), kept instanceof Tracked, await kept];
};`,
    returns: [1, 'RangeError no -1', true, 3],
    events: { createOrder: 1, subclass: 1 },
  },
  {
    id: 'result-own-promise',
    title:
      'Returns a promise that is more than its end: a subclass with private fields, one with properties, one that the function handles itself',
    kind,
    files: {
      'jobs.mjs': `export class Job extends Promise {
  #id = 7;
  cancel() { return 'cancelled ' + this.#id; }
}
export const start = () => { here(); return new Job((resolve) => setTimeout(resolve, 5, 'done')); };
export const shell = () => Object.assign(Promise.resolve('out'), { kill: () => 'killed' });
export const handled = [];
export function fire() {
  const work = Promise.reject(new Error('no work'));
  work.catch((error) => handled.push(error.message));
  return work;
}
`,
    },
    targets: [{ function: 'start' }, { function: 'shell' }, { function: 'fire' }],
    call: `import { fire, handled, Job, shell, start } from './jobs.mjs';
export default async () => {
  const unhandled = [];
  const listener = (error) => unhandled.push(error.message);
  process.on('unhandledRejection', listener);
  fire();
  const job = start();
  const running = shell();
  const seen = [job instanceof Job, job.cancel(), running.kill(), await running, await job];
  await new Promise((resolve) => setTimeout(resolve, 20));
  process.off('unhandledRejection', listener);
  return [...seen, handled, unhandled];
};`,
    returns: [true, 'cancelled 7', 'killed', 'out', 'done', ['no work'], []],
    events: { start: 1, shell: 1, fire: 0 },
  },
  {
    id: 'result-thenable',
    title: 'Returns a lazy thenable: it runs when its caller awaits it, once, and not at all when nobody does',
    kind,
    files: {
      'query.mjs': `export const ran = [];
class Query {
  constructor(id) { this.id = id; }
  where(id) { this.id = id; return this; }
  then(onValue, onError) { ran.push(this.id); return Promise.resolve({ id: this.id }).then(onValue, onError); }
}
export function find(id) { here(); return new Query(id); }
`,
    },
    targets: [{ function: 'find' }],
    call: `import { find, ran } from './query.mjs';
export default async () => {
  find('never awaited');
  const found = await find(1).where(2);
  return [found, ran];
};`,
    returns: [{ id: 2 }, [2]],
    events: { find: 1 },
    payloads: { find: [{ id: 2 }] },
  },
  {
    id: 'result-knex',
    title: 'Returns a query of knex: runs exactly once, and can still be chained',
    kind,
    files: {
      'database.mjs': `import { createRequire } from 'node:module';
import { DatabaseSync } from 'node:sqlite';
import knex from 'knex';

const Client = createRequire(import.meta.url)('knex/lib/dialects/better-sqlite3/index.js');
/** Node's own SQLite in the place of the native driver. */
class NodeSqlite extends Client {
  _driver() {
    return class {
      constructor(file) { this.database = new DatabaseSync(file); }
      prepare(sql) {
        const statement = this.database.prepare(sql);
        return {
          reader: /^\\s*select|returning/i.test(sql),
          all: (bindings = []) => statement.all(...bindings),
          run: (bindings = []) => statement.run(...bindings),
        };
      }
      safeIntegers() {}
      close() { this.database.close(); }
    };
  }
}
export const db = knex({ client: NodeSqlite, connection: { filename: ':memory:' }, useNullAsDefault: true, pool: { min: 1, max: 1 } });
export const statements = [];
db.on('query', ({ sql }) => statements.push(sql));
`,
      'orders.mjs': `import { db } from './database.mjs';
export function insertOrder(product) { here(); return db('orders').insert({ product }); }
export function findOrders() { here(); return db('orders').select('id', 'product'); }
`,
    },
    targets: [
      { module: './orders.mjs', function: 'insertOrder' },
      { module: './orders.mjs', function: 'findOrders' },
    ],
    call: `import { db, statements } from './database.mjs';
import { findOrders, insertOrder } from './orders.mjs';
export default async () => {
  await db.schema.createTable('orders', (table) => { table.increments('id'); table.string('product'); });
  statements.length = 0;
  const [id] = await insertOrder('bicycle');
  insertOrder('never awaited, so never run');
  const found = await findOrders().where({ id });
  const counts = await db('orders').count({ n: '*' });
  await db.destroy();
  return [id, found, counts, statements.length];
};`,
    returns: [1, [{ id: 1, product: 'bicycle' }], [{ n: 1 }], 3],
    events: { insertOrder: 1, findOrders: 1 },
    payloads: { findOrders: [{ value: [{ id: 1, product: 'bicycle' }] }] },
  },
  {
    id: 'result-async-iterator',
    title: 'Async generator: one event, at its end; a `break` and an error end it as well',
    kind,
    files: {
      'orders.mjs': `export async function* list(count) {
  for (let id = 1; id <= count; id++) { here(); yield id; }
  return 'listed';
}
`,
    },
    targets: [{ function: 'list' }],
    call: `import { list } from './orders.mjs';
export default async () => {
  const seen = [];
  for await (const id of list(3)) seen.push(id);
  for await (const id of list(9)) { seen.push(id); if (id === 2) break; }
  list(5);
  const made = list(0);
  return [seen, typeof made.next, made[Symbol.asyncIterator]() === made, await made.next()];
};`,
    returns: [[1, 2, 3, 1, 2], 'function', true, { value: 'listed', done: true }],
    events: { list: 3 },
  },
  {
    id: 'result-generator',
    title: 'Generator: one event, at its end',
    kind,
    files: { 'orders.mjs': "export function* list(count) {\n  for (let id = 1; id <= count; id++) {\n    here();\n    yield id;\n  }\n  return 'listed';\n}\n" },
    targets: [{ function: 'list' }],
    call: `import { list } from './orders.mjs';
export default () => {
  const started = list(2);
  started.next();
  return [[...list(3)], [...list(2)].length, typeof started.return];
};`,
    returns: [[1, 2, 3], 2, 'function'],
    events: { list: 2 },
    payloads: { list: [{ value: 'listed' }, { value: 'listed' }] },
  },
  {
    id: 'result-throws',
    title: 'Throws: the same error reaches the caller; an event only in phase AFTER',
    kind,
    files: {
      'orders.mjs': 'export const failure = new TypeError("refused");\nexport function createOrder() { here(); throw failure; }\nexport function cancelOrder() { here(); throw failure; }\nexport const nothing = () => { throw undefined; };\n',
    },
    targets: [{ function: 'createOrder' }, { function: 'cancelOrder', phase: 'AFTER', payloadIndex: 0 }, { function: 'nothing' }],
    call: `import { cancelOrder, createOrder, failure, nothing } from './orders.mjs';
const caught = (fn) => { try { return fn('x'); } catch (error) { return error; } };
export default () => [caught(createOrder) === failure, caught(cancelOrder) === failure, caught(nothing)];`,
    returns: [true, true, 'undefined'],
    events: { createOrder: 0, cancelOrder: 1, nothing: 0 },
    payloads: { cancelOrder: [{ value: 'x' }] },
  },
  {
    id: 'call-new',
    title: 'Called with `new`, `Reflect.construct`, and as a superclass',
    kind,
    files: {
      'orders.mjs': 'export function Order(id) {\n  here();\n  this.id = id;\n  this.made = new.target?.name;\n}\nOrder.prototype.total = function () { return this.id * 2; };\nexport class Special extends Order {}\n',
    },
    targets: [{ function: 'Order' }],
    call: `import { Order, Special } from './orders.mjs';
export default () => {
  const made = [new Order(1), new Special(2), Reflect.construct(Order, [3])];
  return [made.map((order) => [order.id, order.made, order.total(), order instanceof Order]), made[1] instanceof Special];
};`,
    returns: [[[1, 'Order', 2, true], [2, 'Special', 4, true], [3, 'Order', 6, true]], true],
    events: { Order: 3 },
  },
  {
    id: 'function-looks',
    title: '`this`, `length`, `name`, own properties, prototype, `toString()`, identity',
    kind,
    files: {
      'orders.mjs': `export function create(first, second = 2, ...rest) { here(); return [this?.tag, first, second, rest.length, arguments.length]; }
create.schema = { type: 'object' };
export const same = () => create;
export function bare() { here(); return [this === undefined, typeof this]; }
export class Service { handle(request, reply) { here(); return [this.tag, request, reply]; } }
export const arrow = async (a, b) => { here(); return a + b; };
`,
    },
    targets: [{ function: 'create' }, { function: 'bare' }, { function: 'Service.prototype.handle' }, { function: 'arrow' }],
    call: `import { create, same, bare, Service, arrow } from './orders.mjs';
const look = (fn) => [fn.name, fn.length, Object.keys(fn), String(fn).slice(0, 40), Object.prototype.toString.call(fn), 'prototype' in fn];
export default async () => [
  create.call({ tag: 't' }, 1), create.apply({ tag: 'u' }, [1, 2, 3, 4]), create.bind({ tag: 'v' })(5),
  create === same(), create.schema, look(create), look(Service.prototype.handle), look(arrow),
  Object.keys(new Service()), Object.getOwnPropertyDescriptor(Service.prototype, 'handle').enumerable,
  new Service().handle.call({ tag: 'w' }, 1, 2), await arrow(1, 2), bare(), bare.call(1),
];`,
    returns: [
      ['t', 1, 2, 0, 1],
      ['u', 1, 2, 2, 4],
      ['v', 5, 2, 0, 1],
      true,
      { type: 'object' },
      ['create', 1, ['schema'], 'function create(first, second = 2, ...re', '[object Function]', true],
      ['handle', 2, [], 'handle(request, reply) { here(); return ', '[object Function]', false],
      ['arrow', 2, [], 'async (a, b) => { here(); return a + b; ', '[object AsyncFunction]', false],
      [],
      false,
      ['w', 1, 2],
      3,
      [true, 'undefined'],
      [false, 'number'],
    ],
    events: { create: 3, bare: 2, 'Service.prototype.handle': 1, arrow: 1 },
  },
];
