import type { Form } from './form.ts';

const kind = 'esm';

/** Functions, as they are written in ES modules of an application. */
export const esmDefinitions: readonly Form[] = [
  {
    id: 'esm-declaration',
    title: 'Function declaration, exported',
    kind,
    files: { 'orders.mjs': 'export async function createOrder(id) {\n  here();\n  return { id };\n}\n' },
    targets: [{ function: 'createOrder' }],
    call: `import { createOrder } from './orders.mjs';
export default async () => [await createOrder(1), await createOrder(2)];`,
    returns: [{ id: 1 }, { id: 2 }],
    events: { createOrder: 2 },
    payloads: { createOrder: [{ id: 1 }, { id: 2 }] },
  },
  {
    id: 'esm-internal',
    title: 'Function declaration, not exported, called inside its own module',
    kind,
    files: {
      'orders.mjs':
        'export function place(id) { return price(id) + price(id); }\nfunction price(id) { here(); return id * 10; }\n',
    },
    targets: [{ function: 'price' }],
    call: `import { place } from './orders.mjs';
export default () => place(2);`,
    returns: 40,
    events: { price: 2 },
  },
  {
    id: 'esm-exported-internal',
    title: 'Exported function, called from inside its module and from outside',
    kind,
    files: {
      'orders.mjs':
        'export function place(id) { return check(id) && save(id); }\nexport function check(id) { here(); return id > 0; }\nexport const save = (id) => { here(); return `saved ${id}`; };\n',
    },
    targets: [{ function: 'check' }, { function: 'save' }],
    call: `import { place, check, save } from './orders.mjs';
export default () => [place(2), check(0), save(3)];`,
    returns: ['saved 2', false, 'saved 3'],
    events: { check: 2, save: 2 },
  },
  {
    id: 'esm-arrow',
    title: 'Arrow function and function expression in a constant, exported or not; assigned to a variable',
    kind,
    files: {
      'orders.mjs': `export const create = async (id) => { here(); return id; };
const expression = function (id) { here(); return id; };
const hidden = (id) => (here(), id);
let late;
late = (id) => {
  here();
  return id;
};
export const all = (id) => [expression(id), hidden(id), late(id)];
`,
    },
    targets: [{ function: 'create' }, { function: 'expression' }, { function: 'hidden' }, { function: 'late' }],
    call: `import { create, all } from './orders.mjs';
export default async () => [await create(1), ...all(2)];`,
    returns: [1, 2, 2, 2],
    events: { create: 1, expression: 1, hidden: 1, late: 1 },
  },
  {
    id: 'esm-default-named',
    title: 'Default export, a named function',
    kind,
    files: { 'orders.mjs': 'export default function createOrder(id) { here(); return id; }\nexport const twice = (id) => createOrder(id) * 2;\n' },
    targets: [{ function: 'default' }],
    call: `import create, { twice } from './orders.mjs';
export default () => [create(1), twice(2)];`,
    returns: [1, 4],
    events: { default: 2 },
  },
  {
    id: 'esm-default-anonymous',
    title: 'Default export, anonymous: arrow, function, class',
    kind,
    files: {
      'arrow.mjs': 'export default async (id) => { here(); return id; };\n',
      'function.mjs': 'export default function (id) { here(); return id; }\n',
      'class.mjs': 'export default class { create(id) { here(); return id; } }\n',
    },
    targets: [
      { function: 'default', name: 'arrow' },
      { module: './function.mjs', function: 'default', name: 'function' },
      { module: './class.mjs', function: 'default.prototype.create', name: 'class' },
    ],
    call: `import arrow from './arrow.mjs';
import fn from './function.mjs';
import Class from './class.mjs';
export default async () => [await arrow(1), fn(2), new Class().create(3), arrow.name, fn.name, Class.name];`,
    returns: [1, 2, 3, 'default', 'default', 'default'],
    events: { arrow: 1, function: 1, class: 1 },
  },
  {
    id: 'esm-export-alias',
    title: 'Export under another name, named by either; `export { f as default }`',
    kind,
    files: {
      'orders.mjs': `function createOrder(id) { here(); return id; }
const remove = (id) => { here(); return id; };
function cancel(id) { here(); return id; }
export { createOrder as create, remove as removeOrder, cancel as default };
`,
    },
    targets: [{ function: 'create' }, { function: 'remove' }, { function: 'default' }],
    call: `import cancel, { create, removeOrder } from './orders.mjs';
export default () => [create(1), removeOrder(2), cancel(3)];`,
    returns: [1, 2, 3],
    events: { create: 1, remove: 1, default: 1 },
  },
  {
    id: 'esm-reexport',
    title: 'Called through modules that export it again (`export *`, `export * as`, named)',
    kind,
    files: {
      'orders.mjs': 'export function createOrder(id) { here(); return id; }\n',
      'star.mjs': "export * from './orders.mjs';\n",
      'index.mjs': "export * from './star.mjs';\nexport * as orders from './orders.mjs';\nexport { createOrder as named } from './star.mjs';\n",
    },
    targets: [{ function: 'createOrder' }],
    call: `import { createOrder, orders, named } from './index.mjs';
export default () => [createOrder(1), orders.createOrder(2), named(3)];`,
    returns: [1, 2, 3],
    events: { createOrder: 3 },
  },
  {
    id: 'esm-class-prototype',
    title: 'Class method on the prototype, called from outside, as `this.m()` and as `super.m()`',
    kind,
    files: {
      'orders.mjs': `export class OrderService {
  #orders = [];
  async create(id) {
    here();
    return this.check(id);
  }
  check(id) {
    here();
    this.#orders.push(id);
    return this.#orders.length;
  }
}
export class AuditedService extends OrderService {
  async create(id) {
    here();
    return (await super.create(id)) + 100;
  }
}
class Hidden { run(id) { here(); return id; } }
export const hidden = new Hidden();
export const Expression = class { run(id) { here(); return id; } };
`,
    },
    targets: [
      { function: 'OrderService.prototype.create' },
      { function: 'OrderService.prototype.check' },
      { function: 'AuditedService.prototype.create' },
      { function: 'Hidden.prototype.run' },
      { function: 'Expression.prototype.run' },
    ],
    call: `import { OrderService, AuditedService, hidden, Expression } from './orders.mjs';
export default async () => [await new OrderService().create(1), await new AuditedService().create(2), hidden.run(3), new Expression().run(4)];`,
    returns: [1, 101, 3, 4],
    events: {
      'OrderService.prototype.create': 2,
      'OrderService.prototype.check': 2,
      'AuditedService.prototype.create': 1,
      'Hidden.prototype.run': 1,
      'Expression.prototype.run': 1,
    },
  },
  {
    id: 'esm-class-static',
    title: 'Static method of a class',
    kind,
    files: {
      'orders.mjs': 'export class Order {\n  static of(id) {\n    here();\n    return Object.assign(new this(), { id });\n  }\n  static two() { return [Order.of(1), this.of(2)]; }\n}\n',
    },
    targets: [{ function: 'Order.of' }],
    call: `import { Order } from './orders.mjs';
export default () => Order.two().map((order) => [order instanceof Order, order.id]);`,
    returns: [[true, 1], [true, 2]],
    events: { 'Order.of': 2 },
  },
  {
    id: 'esm-class-field',
    title: 'Class field that holds an arrow function, one per instance; static field',
    kind,
    files: {
      'orders.mjs': `export class OrderService {
  name = 'orders';
  create = async (id) => {
    here();
    return \`\${this.name} \${id}\`;
  };
  static open = (id) => { here(); return id; };
}
`,
    },
    targets: [{ function: 'OrderService.prototype.create' }, { function: 'OrderService.open' }],
    call: `import { OrderService } from './orders.mjs';
export default async () => {
  const [one, other] = [new OrderService(), new OrderService()];
  return [await one.create(1), await other.create(2), await one.create(3), OrderService.open(4)];
};`,
    returns: ['orders 1', 'orders 2', 'orders 3', 4],
    events: { 'OrderService.prototype.create': 3, 'OrderService.open': 1 },
  },
  {
    id: 'esm-constructor-field',
    title: 'Function that the constructor assigns (`this.create = …`, `this.create = this.create.bind(this)`)',
    kind,
    files: {
      'orders.mjs': `export class OrderService {
  constructor(prefix) {
    this.create = (id) => { here(); return prefix + id; };
    this.cancel = this.cancel.bind(this);
    this.prefix = prefix;
  }
  cancel(id) { here(); return this.prefix + id; }
}
export function Legacy(prefix) {
  this.create = function (id) { here(); return prefix + id; };
}
`,
    },
    targets: [
      { function: 'OrderService.prototype.create' },
      { function: 'OrderService.prototype.cancel' },
      { function: 'Legacy.prototype.create' },
    ],
    call: `import { OrderService, Legacy } from './orders.mjs';
export default () => {
  const { create, cancel } = new OrderService('o-');
  return [create(1), cancel(2), new Legacy('l-').create(3)];
};`,
    returns: ['o-1', 'o-2', 'l-3'],
    events: { 'OrderService.prototype.create': 1, 'OrderService.prototype.cancel': 1, 'Legacy.prototype.create': 1 },
  },
  {
    id: 'esm-function-prototype',
    title: 'Method of a constructor function (`Order.prototype.cancel = function …`)',
    kind,
    files: {
      'orders.mjs': 'export function Order(id) { this.id = id; }\nOrder.prototype.cancel = function () {\n  here();\n  return -this.id;\n};\n',
    },
    targets: [{ function: 'Order.prototype.cancel' }],
    call: `import { Order } from './orders.mjs';
export default () => new Order(5).cancel();`,
    returns: -5,
    events: { 'Order.prototype.cancel': 1 },
  },
  {
    id: 'esm-object-literal',
    title: 'Method of an object literal, exported or not, nested, default export',
    kind,
    files: {
      'orders.mjs': `export const repo = {
  async save(id) { here(); return this.find(id); },
  find: (id) => { here(); return id; },
  archive: { remove(id) { here(); return id; } },
};
const hidden = { run: function (id) { here(); return id; } };
export const run = (id) => hidden.run(id);
export default { create(id) { here(); return id; } };
`,
    },
    targets: [
      { function: 'repo.save' },
      { function: 'repo.find' },
      { function: 'repo.archive.remove' },
      { function: 'hidden.run' },
      { function: 'default.create' },
    ],
    call: `import orders, { repo, run } from './orders.mjs';
export default async () => [await repo.save(1), repo.find(2), repo.archive.remove(3), run(4), orders.create(5)];`,
    returns: [1, 2, 3, 4, 5],
    events: { 'repo.save': 1, 'repo.find': 2, 'repo.archive.remove': 1, 'hidden.run': 1, 'default.create': 1 },
  },
];
