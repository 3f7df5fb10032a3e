import type { Form } from './form.ts';

const kind = 'cjs';

/** The same in CommonJS. */
export const cjsForms: readonly Form[] = [
  {
    id: 'cjs-declaration',
    title: 'Function declaration, exported (`module.exports = { createOrder }`) and internal',
    kind,
    files: {
      'orders.cjs': `'use strict';
async function createOrder(id) {
  here();
  return price(id);
}
function price(id) { here(); return id * 10; }
module.exports = { createOrder };
`,
    },
    targets: [{ function: 'createOrder' }, { function: 'price' }],
    call: `const { createOrder } = require('./orders.cjs');
module.exports = async () => [await createOrder(1), await createOrder(2)];`,
    returns: [10, 20],
    events: { createOrder: 2, price: 2 },
  },
  {
    id: 'cjs-exports',
    title: '`exports.f = …`, called through `exports`, through `this` and by others',
    kind,
    files: {
      'orders.cjs': `exports.createOrder = async function (id) {
  here();
  return exports.price(id) + this.price(id);
};
exports.price = (id) => { here(); return id * 10; };
module.exports.cancel = function cancel(id) { here(); return -id; };
`,
    },
    targets: [{ function: 'createOrder' }, { function: 'price' }, { function: 'cancel' }],
    call: `const orders = require('./orders.cjs');
module.exports = async () => [await orders.createOrder(1), orders.price(2), orders.cancel(3)];`,
    returns: [20, 20, -3],
    events: { createOrder: 1, price: 3, cancel: 1 },
  },
  {
    id: 'cjs-module-exports',
    title: '`module.exports = function`, an arrow, a class (named `default`)',
    kind,
    files: {
      'function.cjs': 'module.exports = async function (id) {\n  here();\n  return id;\n};\nmodule.exports.tag = "kept";\n',
      'arrow.cjs': 'module.exports = (id) => (here(), id);\n',
      'named.cjs': 'module.exports = createOrder;\nfunction createOrder(id) { here(); return id; }\n',
      'class.cjs': 'module.exports = class Orders { create(id) { here(); return id; } };\n',
    },
    targets: [
      { function: 'default', name: 'function' },
      { module: './arrow.cjs', function: 'default', name: 'arrow' },
      { module: './named.cjs', function: 'default', name: 'named' },
      { module: './class.cjs', function: 'default.prototype.create', name: 'class' },
    ],
    call: `const fn = require('./function.cjs');
const arrow = require('./arrow.cjs');
const named = require('./named.cjs');
const Class = require('./class.cjs');
module.exports = async () => [await fn(1), arrow(2), named(3), new Class().create(4), fn.tag];`,
    returns: [1, 2, 3, 4, 'kept'],
    events: { function: 1, arrow: 1, named: 1, class: 1 },
  },
  {
    id: 'cjs-class',
    title: 'Class methods: prototype, static, field, assigned in the constructor',
    kind,
    files: {
      'orders.cjs': `class OrderService {
  constructor() { this.assigned = (id) => { here(); return id; }; }
  async create(id) { here(); return this.check(id); }
  check(id) { here(); return id; }
  static of() { here(); return new OrderService(); }
  field = async (id) => {
    here();
    return id;
  };
}
exports.OrderService = OrderService;
`,
    },
    targets: [
      { function: 'OrderService.prototype.create' },
      { function: 'OrderService.prototype.check' },
      { function: 'OrderService.prototype.field' },
      { function: 'OrderService.prototype.assigned' },
      { function: 'OrderService.of' },
    ],
    call: `const { OrderService } = require('./orders.cjs');
module.exports = async () => {
  const service = OrderService.of();
  return [await service.create(1), service.check(2), await service.field(3), service.assigned(4)];
};`,
    returns: [1, 2, 3, 4],
    events: {
      'OrderService.prototype.create': 1,
      'OrderService.prototype.check': 2,
      'OrderService.prototype.field': 1,
      'OrderService.prototype.assigned': 1,
      'OrderService.of': 1,
    },
  },
  {
    id: 'cjs-object-and-factory',
    title: 'Object literals and what factories return',
    kind,
    files: {
      'orders.cjs': `const repo = { save(id) { here(); return id; } };
function createRepository() { return { insert: async (id) => { here(); return id; } }; }
module.exports = { repo, repository: createRepository(), remove(id) { here(); return id; } };
`,
    },
    targets: [{ function: 'repo.save' }, { function: 'createRepository().insert' }, { function: 'default.remove' }],
    call: `const { repo, repository, remove } = require('./orders.cjs');
module.exports = async () => [repo.save(1), await repository.insert(2), remove(3)];`,
    returns: [1, 2, 3],
    events: { 'repo.save': 1, 'createRepository().insert': 1, 'default.remove': 1 },
  },
  {
    id: 'cjs-mode',
    title: 'Strict and sloppy mode, `__filename`, `require.main`, `module.parent` stay what they are',
    kind,
    files: {
      'strict.cjs': `'use strict';
exports.isStrict = function () { here(); return [this === undefined, (function () { return this === undefined; })()]; };
`,
      'sloppy.cjs': `exports.look = function () {
  here();
  var octal = 010;
  with ({ inside: 1 }) { octal += inside; }
  return [octal, this === globalThis, (function () { return this === globalThis; })(), require.main.filename.split(/[\\\\/]/).pop(), __filename.split(/[\\\\/]/).pop(), module.parent.filename.split(/[\\\\/]/).pop(), module.children.length];
};
`,
    },
    targets: [{ function: 'isStrict' }, { module: './sloppy.cjs', function: 'look' }],
    call: `const { isStrict } = require('./strict.cjs');
const { look } = require('./sloppy.cjs');
module.exports = () => [isStrict(), look()];`,
    returns: [[true, true], [9, true, true, 'main.cjs', 'sloppy.cjs', 'call.cjs', 0]],
    events: { isStrict: 1, look: 1 },
  },
  {
    id: 'cjs-requires-esm',
    title: 'ES module that CommonJS loads with `require()`',
    kind,
    files: {
      'orders.mjs': "export async function createOrder(id) { here(); return price(id); }\nfunction price(id) { here(); return id * 10; }\nexport default class { run(id) { here(); return id; } }\n",
    },
    targets: [{ function: 'createOrder' }, { function: 'price' }, { function: 'default.prototype.run' }],
    call: `const { createOrder, default: Runner } = require('./orders.mjs');
module.exports = async () => [await createOrder(1), new Runner().run(2)];`,
    returns: [10, 2],
    events: { createOrder: 1, price: 1, 'default.prototype.run': 1 },
  },
  {
    id: 'cjs-imports-esm',
    title: 'ES module that CommonJS loads with `import()`',
    kind,
    files: { 'orders.mjs': 'export async function createOrder(id) { here(); return id; }\n' },
    targets: [{ function: 'createOrder' }],
    call: `module.exports = async () => (await import('./orders.mjs')).createOrder(1);`,
    returns: 1,
    events: { createOrder: 1 },
  },
  {
    id: 'cjs-reload',
    title: 'Module that is loaded again after it left `require.cache`',
    kind,
    files: { 'orders.cjs': 'exports.createOrder = (id) => { here(); return id; };\n' },
    targets: [{ function: 'createOrder' }],
    call: `module.exports = () => {
  const one = require('./orders.cjs');
  delete require.cache[require.resolve('./orders.cjs')];
  const two = require('./orders.cjs');
  return [one.createOrder(1), two.createOrder(2), one === two];
};`,
    returns: [1, 2, false],
    events: { createOrder: 2 },
  },
  {
    id: 'cjs-worker',
    title: 'CommonJS in a worker thread',
    kind,
    files: {
      'orders.cjs': 'exports.createOrder = async (id) => { globalThis.here?.(); return id; };\n',
      'worker.cjs': `const { parentPort } = require('node:worker_threads');
require('./orders.cjs').createOrder(1).then((id) => parentPort.postMessage(id));
`,
    },
    targets: [{ function: 'createOrder' }],
    call: `const { once } = require('node:events');
const { join } = require('node:path');
const { Worker } = require('node:worker_threads');
module.exports = async () => {
  const worker = new Worker(join(__dirname, 'worker.cjs'));
  const [[message], [code]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]);
  return [message, code];
};`,
    returns: [1, 0],
    events: { createOrder: 1 },
  },
  {
    id: 'cjs-from-esm',
    title: 'CommonJS imported from an ES module (named and default import, `createRequire`)',
    kind: 'esm',
    files: {
      'orders.cjs': 'async function createOrder(id) { here(); return exports.price(id); }\nexports.createOrder = createOrder;\nexports.price = (id) => { here(); return id * 10; };\n',
    },
    targets: [{ function: 'createOrder' }, { function: 'price' }],
    call: `import { createRequire } from 'node:module';
import orders, { createOrder } from './orders.cjs';
const required = createRequire(import.meta.url)('./orders.cjs');
export default async () => [await createOrder(1), await orders.createOrder(2), required.price(3), required.createOrder === createOrder];`,
    returns: [10, 20, 30, true],
    events: { createOrder: 2, price: 3 },
  },
];
