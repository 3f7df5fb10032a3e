import type { Form } from './form.ts';

const kind = 'esm';

/** What a target says beside the name of its function. */
export const targetForms: readonly Form[] = [
  {
    id: 'phases',
    title: 'Phases BEFORE, AFTER_RETURNING and AFTER',
    kind,
    files: {
      'orders.mjs': `const work = (id) => { here(); if (id === 0) throw new Error('zero'); return { id, done: true }; };
export function early(id) { return work(id); }
export function returning(id) { return work(id); }
export async function late(id) { return work(id); }
`,
    },
    targets: [
      { function: 'early', phase: 'BEFORE', payloadIndex: 0 },
      { function: 'returning', phase: 'AFTER_RETURNING' },
      { function: 'late', phase: 'AFTER', payload: '{ id: #args[0], result: #result }' },
    ],
    call: `import { early, late, returning } from './orders.mjs';
const attempt = async (fn, id) => { try { return await fn(id); } catch (error) { return error.message; } };
export default async () => {
  const all = [];
  for (const fn of [early, returning, late]) for (const id of [1, 0]) all.push(await attempt(fn, id));
  return all;
};`,
    returns: [{ id: 1, done: true }, 'zero', { id: 1, done: true }, 'zero', { id: 1, done: true }, 'zero'],
    events: { early: 2, returning: 1, late: 2 },
    payloads: {
      early: [{ value: 1 }, { value: 0 }],
      returning: [{ id: 1, done: true }],
      late: [
        { id: 1, result: { id: 1, done: true } },
        { id: 0, result: null },
      ],
    },
  },
  {
    id: 'payload-index',
    title: '`payloadIndex`: the returned value (-1) or an argument',
    kind,
    files: { 'orders.mjs': 'export const a = (x, y) => ({ sum: x + y });\nexport const b = (x, y) => ({ sum: x + y });\nexport const c = (x, y) => ({ sum: x + y });\n' },
    targets: [
      { function: 'a', payloadIndex: -1 },
      { function: 'b', payloadIndex: 0 },
      { function: 'c', payloadIndex: 1 },
    ],
    call: `import { a, b, c } from './orders.mjs';
export default () => [a(1, 2), b(1, 2), c(1, 2)];`,
    returns: [{ sum: 3 }, { sum: 3 }, { sum: 3 }],
    events: { a: 1, b: 1, c: 1 },
    payloads: { a: [{ sum: 3 }], b: [{ value: 1 }], c: [{ value: 2 }] },
  },
  {
    id: 'expressions',
    title: 'Expressions for payload and key: `#result.…`, `#args[0]`, `#p0`, `#parameter`, without `#`, objects, `?.`, `?:`',
    kind,
    files: {
      'orders.mjs': `const order = (email, quantity) => ({ orderId: \`o-\${quantity}\`, lines: [{ sku: 's' }], email });
export function byResult(email, quantity) { here(); return order(email, quantity); }
export function byArgs(customer) { here(); return customer.email; }
export function byPosition(email, quantity) { here(); return order(email, quantity); }
export const byName = async (email, quantity = 1) => { here(); return order(email, quantity); };
export class Orders { byThird({ email }, quantity, note) { here(); return email + quantity; } }
`,
    },
    targets: [
      { function: 'byResult', payload: '#result.orderId', key: '#result.orderId' },
      { function: 'byArgs', payload: '#args[0].email', key: '#p0.id' },
      { function: 'byPosition', payload: '{ who: #p0, many: #a1 > 1 ? "many" : "one" }', key: 'email' },
      { function: 'byName', payload: '{ email: #email, sku: #result.lines[0].sku, none: #result?.customer?.name }', key: "#email + ':' + #result.orderId" },
      { function: 'Orders.prototype.byThird', payload: '{ quantity: quantity, note: #note }', key: '#p0?.email' },
    ],
    call: `import { byArgs, byName, byPosition, byResult, Orders } from './orders.mjs';
export default async () => [
  byResult('a@b.c', 1).orderId, byArgs({ id: 'c-1', email: 'd@e.f' }), byPosition('g@h.i', 2).orderId,
  (await byName('j@k.l')).orderId, new Orders().byThird({ email: 'm' }, 3, 'n'),
];`,
    returns: ['o-1', 'd@e.f', 'o-2', 'o-1', 'm3'],
    events: { byResult: 1, byArgs: 1, byPosition: 1, byName: 1, 'Orders.prototype.byThird': 1 },
    payloads: {
      byResult: [{ value: 'o-1' }],
      byArgs: [{ value: 'd@e.f' }],
      byPosition: [{ who: 'g@h.i', many: 'many' }],
      byName: [{ email: 'j@k.l', sku: 's', none: null }],
      'Orders.prototype.byThird': [{ quantity: 3, note: 'n' }],
    },
    keys: { byResult: ['o-1'], byArgs: ['c-1'], byPosition: ['g@h.i'], byName: ['j@k.l:o-1'], 'Orders.prototype.byThird': ['m'] },
  },
  {
    id: 'callback',
    title: '`callback: last`: a function that answers through its last argument, the error first',
    kind,
    files: {
      'payments.mjs': `const later = (callback, ...answer) => setTimeout(callback, 5, ...answer);
export function charge(id, callback) { here(); later(callback, id < 0 ? new RangeError(\`no \${id}\`) : null, { id }); return 'queued'; }
export function atOnce(id, callback) { here(); callback.call('self', null, id, 'both'); }
export class Ledger { constructor() { this.seen = []; } book(id, callback) { this.seen.push(id); later(callback, null, this.seen.length); } }
`,
    },
    targets: [
      { function: 'charge', callback: 'last', payload: '{ asked: #p0, got: #result }', key: '#id' },
      { function: 'atOnce', callback: 'last' },
      { function: 'Ledger.prototype.book', callback: 'last' },
    ],
    call: `import { atOnce, charge, Ledger } from './payments.mjs';
const ask = (call) => new Promise((resolve) => call((error, ...answer) => resolve(error ? error.message : answer)));
export default async () => {
  const ledger = new Ledger();
  let returned;
  const own = [];
  atOnce(3, function (...given) { own.push(String(this), ...given); });
  return [
    await ask((callback) => { returned = charge(1, callback); }), returned, await ask((callback) => charge(-1, callback)),
    own, await ask((callback) => ledger.book('b', callback)), ledger.seen,
  ];
};`,
    returns: [[{ id: 1 }], 'queued', 'no -1', ['self', null, 3, 'both'], [1], ['b']],
    events: { charge: 1, atOnce: 1, 'Ledger.prototype.book': 1 },
    payloads: {
      charge: [{ asked: 1, got: { id: 1 } }],
      atOnce: [{ value: [3, 'both'] }],
      'Ledger.prototype.book': [{ value: 1 }],
    },
    keys: { charge: ['1'] },
  },
  {
    id: 'when',
    title: '`when`: which calls make an event',
    kind,
    files: {
      'orders.mjs': `const orders = new Map([[1, { id: 1, total: 5 }], [2, { id: 2, total: 500 }]]);
export const find = async (id) => { here(); return orders.get(id) ?? null; };
export function large(id) { here(); return orders.get(id); }
export function asked(id, isQuiet) { here(); return id; }
`,
    },
    targets: [
      { function: 'find', when: '#result != null' },
      { function: 'large', when: '#result.total > 100' },
      { function: 'asked', when: '!#isQuiet' },
    ],
    call: `import { asked, find, large } from './orders.mjs';
export default async () => [await find(1), await find(9), large(1).id, large(2).id, asked(1, true), asked(2, false)];`,
    returns: [{ id: 1, total: 5 }, null, 1, 2, 1, 2],
    events: { find: 1, large: 1, asked: 1 },
    payloads: { find: [{ id: 1, total: 5 }], large: [{ id: 2, total: 500 }], asked: [{ value: 2 }] },
  },
  {
    id: 'headers',
    title: '`headers`: headers of the record from expressions',
    kind,
    files: {
      'orders.mjs': `export const create = async (tenant, id) => { here(); return { id, paid: id > 1, note: undefined }; };
export class Orders { cancel(id, reason) { here(); return { id, reason }; } }
`,
    },
    targets: [
      { function: 'create', headers: { tenant: '#p0', paid: '#result.paid', id: '#result.id', note: '#result.note', source: "'web'" } },
      { function: 'Orders.prototype.cancel', headers: { reason: 'reason' } },
    ],
    call: `import { create, Orders } from './orders.mjs';
export default async () => [(await create('acme', 1)).id, (await create('b', 2)).id, new Orders().cancel(3, 'late').id];`,
    returns: [1, 2, 3],
    events: { create: 2, 'Orders.prototype.cancel': 1 },
    headers: {
      create: [
        { tenant: 'acme', paid: 'false', id: '1', source: 'web' },
        { tenant: 'b', paid: 'true', id: '2', source: 'web' },
      ],
      'Orders.prototype.cancel': [{ reason: 'late' }],
    },
  },
  {
    id: 'publish-event',
    title: '`publishEvent(options, fn)`: a function without a name',
    kind,
    files: {
      'app.mjs': `import { publishEvent } from 'svc';
export const routes = {};
routes.post = publishEvent({ eventType: 'publish-event route' }, async (id) => { here(); return { id }; });
routes.delete = publishEvent({ eventType: 'publish-event keyed', key: ({ args }) => args[0], payload: '#p0' }, (id) => { here(); return true; });
`,
    },
    targets: [],
    call: `import { routes } from './app.mjs';
export default async () => [await routes.post(1), await routes.post(2), routes.delete('x'), routes.post.length];`,
    returns: [{ id: 1 }, { id: 2 }, true, 1],
    events: { route: 2, keyed: 1 },
    payloads: { keyed: [{ value: 'x' }] },
    keys: { keyed: ['x'] },
  },
  {
    id: 'declared-and-configured',
    title: 'Declared in code and configured: publishes once, by the configured target',
    kind,
    files: {
      'orders.mjs': `import { publishEvent } from 'svc';
export const createOrder = publishEvent({ eventType: 'declared-and-configured in code' }, async (id) => { here(); return id; });
`,
    },
    targets: [{ function: 'createOrder' }],
    call: `import { createOrder } from './orders.mjs';
export default async () => [await createOrder(1), await createOrder(2)];`,
    returns: [1, 2],
    events: { createOrder: 2, 'in code': 0 },
  },
  {
    id: 'own-work',
    title: "Functions that svc's own work calls (`toJSON`, getters, `payload` functions) are not captured",
    kind,
    files: {
      'orders.mjs': `export function describe(id) { return \`order \${id}\`; }
class Order {
  constructor(id) { this.id = id; }
  toJSON() { return { id: this.id, text: describe(this.id) }; }
}
export function createOrder(id) { here(); return new Order(id); }
`,
    },
    targets: [{ function: 'createOrder' }, { function: 'describe' }],
    call: `import { createOrder, describe } from './orders.mjs';
export default () => [createOrder(1).id, describe(2)];`,
    returns: [1, 'order 2'],
    events: { createOrder: 1, describe: 1 },
    payloads: { createOrder: [{ id: 1, text: 'order 1' }], describe: [{ value: 'order 2' }] },
  },
];
