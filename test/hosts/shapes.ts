/** One small module, how it is used, and its targets: the program prints the same with svc as without it. */
export interface Shape {
  readonly title: string;
  /** Default: `mjs`. */
  readonly as?: 'mjs' | 'cjs' | 'mts' | 'cts' | 'js';
  readonly text: string;
  /** Statements with the module as `m`; what they put into `out` is compared. */
  readonly use: string;
  /** Function paths, and how many calls of each make an event; `failed`: the report says that it cannot be captured. */
  readonly targets: Readonly<Record<string, number | 'failed'>>;
}

/** Shapes in which a wrapper, or the text around it, could be told from the function. */
export const shapes: readonly Shape[] = [
  {
    title: 'class and namespace of one name, compiled',
    text: `export class Order { async create(x) { return [x, Order.Kind.New]; } }
(function (Order) { let Kind; (function (Kind) { Kind[Kind["New"] = 1] = "New"; })(Kind = Order.Kind || (Order.Kind = {})); })(Order || (Order = {}));
export function cancel(x) { return [x, cancel.reason]; }
(function (cancel) { cancel.reason = 'none'; })(cancel || (cancel = {}));`,
    use: 'out.push(await new m.Order().create(1), m.cancel(2));',
    targets: { 'Order.prototype.create': 1, cancel: 1 },
  },
  {
    title: 'class and namespace of one name, compiled to CommonJS',
    as: 'cjs',
    text: `exports.Order = exports.cancel = void 0;
class Order { create(x) { return [x, Order.Kind]; } }
exports.Order = Order;
(function (Order) { Order.Kind = 1; })(Order || (exports.Order = Order = {}));
function cancel(x) { return [x, cancel.reason]; }
exports.cancel = cancel;
(function (cancel) { cancel.reason = 'none'; })(cancel || (exports.cancel = cancel = {}));`,
    use: 'out.push(new m.Order().create(1), m.cancel(2));',
    targets: { 'Order.prototype.create': 1, cancel: 1 },
  },
  {
    title: 'namespace alone, compiled',
    as: 'cjs',
    text: `var Orders; (function (Orders) { function create(x) { return x; } Orders.create = create; })(Orders || (exports.Orders = Orders = {}));`,
    use: 'out.push(m.Orders.create(1));',
    targets: { 'Orders.create': 1 },
  },
  {
    title: 'a method and a field of one name: the field is what is called',
    text: 'export class A { create(x) { return x; } create = async (x) => [x]; }',
    use: 'out.push(await new m.A().create(1), m.A.prototype.create(2));',
    targets: { 'A.prototype.create': 1 },
  },
  {
    title: 'two methods of one name: the last is what is called',
    text: 'export class A { create(x) { return x; } create(x) { return [x]; } }',
    use: 'out.push(new m.A().create(1));',
    targets: { 'A.prototype.create': 1 },
  },
  {
    title: 'frozen objects',
    text: `export const a = Object.freeze({ save(x) { return x; } });
const b = { save(x) { return x; } }; Object.freeze(b); export { b };
class Service { save(x) { return x; } } export const c = Object.freeze(new Service());`,
    use: 'out.push(m.a.save(1), m.b.save(2), m.c.save(3), Object.isFrozen(m.a), Object.keys(m.a), Object.isFrozen(m.c));',
    targets: { 'a.save': 1, 'b.save': 1, 'c.save': 1 },
  },
  {
    title: 'proxies',
    text: `export const repo = new Proxy({ save(x) { return x; } }, {});
export const strict = new Proxy({ save(x) { return x; } }, { defineProperty() { throw new Error('read only'); }, set() { return false; } });`,
    use: 'out.push(m.repo.save(1), m.strict.save(2), Object.keys(m.repo));',
    targets: { 'repo.save': 1, 'strict.save': 1 },
  },
  {
    title: 'a proxy whose members are made by its handler',
    text: "export const api = new Proxy({}, { get: (_, key) => (x) => [key, x], getOwnPropertyDescriptor() { throw new Error('asked'); } });",
    use: 'out.push(m.api.save(1));',
    targets: { 'api.save': 'failed' },
  },
  {
    title: 'a Symbol and a globalThis of its own',
    text: `export class Symbol { constructor(x) { this.x = x; } of(x) { return [x, this.x]; } }
export const globalThis = { Symbol };
export function create(x) { return new Symbol(x).of(x); }
export class Order { total = (x) => [x]; }
export function makeRepo(Symbol) { return { save(x) { return [x, Symbol]; } }; }`,
    use: 'out.push(m.create(1), new m.Order().total(2), m.makeRepo(3).save(4));',
    targets: { create: 1, 'Symbol.prototype.of': 1, 'Order.prototype.total': 1, 'makeRepo().save': 1 },
  },
  {
    title: 'a function of the name Symbol',
    as: 'cjs',
    text: `function Symbol (x) { return [x]; }
exports.Symbol = Symbol; exports.create = async (x) => Symbol(x);`,
    use: 'out.push(m.Symbol(1), await m.create(2));',
    targets: { Symbol: 2, create: 1 },
  },
  {
    title: 'keys with a dot',
    text: "export const handlers = { 'orders.create'(x) { return x; }, 'orders.cancel': (x) => [x] };",
    use: "out.push(m.handlers['orders.create'](1), m.handlers['orders.cancel'](2));",
    targets: { 'handlers.orders.create': 1, 'handlers.orders.cancel': 1 },
  },
  {
    title: 'functions in blocks of sloppy code',
    as: 'cjs',
    text: `if (true) { function create(x) { return x; } }
if (true) function cancel(x) { return [x]; }
exports.create = create; exports.cancel = cancel;`,
    use: 'out.push(m.create(1), m.cancel(2));',
    targets: { create: 1, cancel: 'failed' },
  },
  {
    title: 'add-module-exports of Babel',
    as: 'cjs',
    text: `Object.defineProperty(exports, '__esModule', { value: true }); exports.default = void 0;
async function create(x) { return x; }
var _default = exports.default = create;
module.exports = exports.default;`,
    use: 'out.push(await m(1), m.name);',
    targets: { default: 1 },
  },
  {
    title: 'add-module-exports of Babel, with a value of its own',
    as: 'cjs',
    text: `Object.defineProperty(exports, '__esModule', { value: true }); exports.default = void 0;
var _default = exports.default = async (x) => x;
module.exports = exports.default; module.exports.default = exports.default;`,
    use: 'out.push(await m(1), m === m.default, m.name);',
    targets: { default: 1 },
  },
  {
    title: 'a path through getters, which open a connection when they are first used',
    text: `class Db { constructor() { globalThis.opened = (globalThis.opened ?? 0) + 1; } async save(x) { return x; } }
class App { get db() { return this.kept ??= new Db(); } get fresh() { return { save: async (x) => x }; } static get main() { return this.one ??= new App(); } }
export const app = new App();
export { App };
export const lazy = { get db() { return this.kept ??= new Db(); } };`,
    use: 'out.push(globalThis.opened, await m.app.db.save(1), await m.app.fresh.save(2), await m.lazy.db.save(3), globalThis.opened);',
    targets: { 'app.db.save': 'failed', 'app.fresh.save': 'failed', 'lazy.db.save': 'failed' },
  },
  {
    title: 'an object that inherits',
    text: `const base = { save(x) { return x; } };
export const app = Object.create(base, { name: { value: 'app', enumerable: true } });
class Service { name = 'service'; save(x) { return x; } }
export const service = new Service();
export const other = new Service();`,
    use: 'out.push({ ...m.app }, Object.keys(m.app), JSON.stringify(m.app), Object.assign({}, m.app), (() => { const keys = []; for (const key in m.app) keys.push(key); return keys; })(), { ...m.service }, m.app.save(1), m.service.save(2), m.other.save(3));',
    targets: { 'app.save': 1, 'service.save': 1 },
  },
  {
    title: 'a destructured export',
    text: `function makeService() { return { async create(x) { return x; } }; }
export const { create, ...others } = makeService();`,
    use: 'out.push(await m.create(1), m.others);',
    targets: { create: 'failed', 'makeService().create': 1 },
  },
  {
    title: 'the text of a class, for containers that read the first parentheses',
    text: 'export class Orders { constructor(repo, mailer) { this.args = [repo, mailer]; } create(x) { return x; } static of(x) { return x; } static first = Orders.of(0); }',
    use: 'out.push(/\\(([^)]*)\\)/.exec(m.Orders.toString())[1], new m.Orders(1, 2).create(1), m.Orders.of(2));',
    targets: { 'Orders.prototype.create': 1, 'Orders.of': 2 },
  },
  {
    title: 'the text and the names of functions',
    text: `export async function create(x) { return x; }
export const arrow = (a, b = 1) => a;
export function* walk() { yield 1; }
export class Named { static make() { return 1; } }`,
    use: `const inspect = process.getBuiltinModule('node:util').inspect;
for (const f of [m.create, m.arrow, m.walk, m.Named.make]) out.push(inspect(f), String(f), f.name, f.length, Object.getOwnPropertyNames(f).sort().join(), f.constructor.name, Object.prototype.toString.call(f));
out.push(inspect({ service: m.create, deep: [m.walk] }), [...m.walk()]); await m.create(1); m.arrow(1); m.Named.make();`,
    targets: { create: 1, arrow: 1, walk: 1, 'Named.make': 1 },
  },
  {
    title: 'what V8 knows of a function',
    text: `export async function create(x) { return x; }
export function* walk() { yield 1; }
export async function* tail() { yield 1; }
export const arrow = async (a, b = 1) => a;
export class Named { static async make() { return 1; } plain() { return 1; } }`,
    use: `const { types, inspect } = process.getBuiltinModule('node:util');
const own = await import('node:util/types');
const text = Function.prototype.toString;
for (const f of [m.create, m.walk, m.tail, m.arrow, m.Named.make, m.Named.prototype.plain]) out.push(types.isAsyncFunction(f), types.isGeneratorFunction(f), own.isAsyncFunction(f), own.isGeneratorFunction(f), text.call(f));
for (const f of [text, types.isAsyncFunction, own.isGeneratorFunction]) out.push(String(f), f.name, f.length, 'prototype' in f, Object.getPrototypeOf(f) === Function.prototype, inspect(f), Object.getOwnPropertyNames(f).join());
for (const no of [undefined, 1, {}, 'async () => {}']) { out.push(types.isAsyncFunction(no)); try { text.call(no); } catch (error) { out.push(error.name, error.message); } }
try { new text(); } catch (error) { out.push(error.message); }
out.push(Object.keys(types).length, Object.keys(Function.prototype).length, text.call(new Proxy(m.create, {})), text.call(class A { x = 1 }));
await m.create(1); [...m.walk()]; for await (const x of m.tail()) out.push(x); await m.arrow(1); await m.Named.make(); new m.Named().plain();`,
    targets: { create: 1, walk: 1, tail: 1, arrow: 1, 'Named.make': 1, 'Named.prototype.plain': 1 },
  },
  {
    title: 'a class that is constructed',
    text: 'export class Order { constructor(x) { this.x = x; } static kinds = [1]; }\nexport class Sub extends Order {}',
    use: "const inspect = process.getBuiltinModule('node:util').inspect; out.push(inspect(m.Order), inspect(m.Sub), inspect(new m.Order(1)), new m.Sub(2) instanceof m.Order);",
    targets: { Order: 'failed' },
  },
  {
    title: 'a name in another normal form of Unicode',
    text: 'export async function cr\u00e9er(x) { return x; }\nexport const repo = { cr\u00e9er(x) { return x; } };',
    use: "out.push(await m['cr\u00e9er'](1), m.repo['cr\u00e9er'](2));",
    targets: { 'cre\u0301er': 1, 'repo.cre\u0301er': 1 },
  },
];
