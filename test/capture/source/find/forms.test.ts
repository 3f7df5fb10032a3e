import assert from 'node:assert/strict';
import { captured, type Exports, type TextKind } from '../run-text.ts';

interface More {
  /** Default: 1. */
  readonly calls?: number;
  readonly names?: readonly string[];
  /** What `.name` of the captured function is. */
  readonly name?: string;
}

/** What it is, the path of the target, what calls it, the text; what more must be so stands before the text. */
type Form =
  | readonly [what: string, path: string, drive: (exports: Exports) => unknown, text: string]
  | readonly [what: string, path: string, drive: (exports: Exports) => unknown, more: More, text: string];

// biome-ignore format: two lines for each form.
const forms: Readonly<Record<TextKind, readonly Form[]>> = {
  esm: [
    ['an exported function declaration, called inside its module as well', 'a', (m) => [m.a(1), m.b()], { calls: 2, names: ['x', 'y'], name: 'a' },
      'export async function a(x, y) { return x; }\nexport const b = () => a(1);'],
    ['a function declaration that is not exported', 'a', (m) => m.b(), { names: ['x'] },
      'function a(x) { return x; }\nexport const b = () => a(1);'],
    ['a generator declaration, read to its end', 'a', (m) => [...m.a(1)], { names: ['n'] },
      'export function* a(n) { yield n; }'],
    ['an arrow function constant keeps its name', 'a', (m) => m.a(1), { names: ['x'], name: 'a' },
      'export const a = async (x) => x;'],
    ['a function that a helper names, as esbuild writes it', 'a', (m) => m.a(1), { calls: 2, names: ['x'], name: 'a' },
      'var __name = (f, value) => Object.defineProperty(f, "name", { value, configurable: true });\nexport const a = /* @__PURE__ */ __name(async (x) => x, "a")\n;[1].map(() => a(2));'],
    ['what a call makes of a function and a string, not the function inside of it', 'a', (m) => m.a(1), { names: ['x'] },
      'const twice = (f, label) => async function (...a) { await f(...a); return f(...a); };\nexport const a = twice(async (x) => x, "create-order")'],
    ['a method that an object literal inherits by __proto__', 'repo.save', (m) => m.repo.save(1),
      'const base = { save(x) { return x; } };\nexport const repo = { __proto__: base, other() {} };'],
    ['a parenthesized nameless function keeps its name', 'a', (m) => m.a(1), { names: ['x'], name: 'a' },
      'export const a = (function (x) { return x; });'],
    ['a function expression with a name of its own', 'a', (m) => m.a(1), { name: 'inner' },
      'export const a = function inner(x) { return x; };'],
    ['a let that is assigned later', 'a', (m) => m.a(1), { names: ['x'], name: 'a' },
      'export let a;\na = (x) => x;'],
    ['a default export with a name, by its name', 'a', (m) => [m.default(), m.b()], { calls: 2 },
      'export default function a() {}\nexport const b = () => a();'],
    ['a default export with a name, as default', 'default', (m) => [m.default(), m.b()], { calls: 2 },
      'export default function a() {}\nexport const b = () => a();'],
    ['a nameless default function with comments about it', 'default', (m) => m.default(1), { names: ['a', 'b'], name: 'default' },
      'export default async /* x */ function /* y */ (a, b) { return a; }'],
    ['a nameless default generator function', 'default', (m) => [...m.default(1)], { names: ['a'], name: 'default' },
      'export default function*(a){yield a}'],
    ['a default arrow function, with a line after it that starts with a bracket', 'default', (m) => m.default(1), { names: ['a'], name: 'default' },
      'export default async (a) => { return a; }\n[1].map(String)'],
    ['a default export of a name', 'default', (m) => m.default(1), { names: ['x'] },
      'const a = (x) => x;\nexport default a;'],
    ['an alias of an export', 'b', (m) => m.b(1), { names: ['x'] },
      'function a(x) {}\nexport { a as b };'],
    ['an alias that is a string', 'b', (m) => m.b(1),
      'function a(x) {}\nexport { a as "b" };'],
    ['a constant that is another name of a function', 'b', (m) => m.b(1), { names: ['x'] },
      'function a(x) {}\nexport const b = a;'],
    ['a class method, also through this', 'A.prototype.n', (m) => new m.A().m(1), { names: ['x'] },
      'export class A { m(x) { return this.n(x); } n(x) { return this.m2(x); } m2() {} }'],
    ['a method of a class expression', 'A.prototype.m', (m) => new m.A().m(1), { names: ['x'] },
      'export const A = class { m(x) {} };'],
    ['a method of a nameless default class', 'default.prototype.m', (m) => new m.default().m(1), { names: ['x'] },
      'export default class { m(x) {} }'],
    ['a method with a string for a name, beside a getter', 'A.prototype.m', (m) => new m.A().m(1),
      'export class A { "m"(x) {} get n() { return 1; } }'],
    ['a static method', 'A.of', (m) => [m.A.of(1), new m.A().of()], { names: ['x'] },
      'export class A { static of(x) { return new A(); } of() {} }'],
    ['a method in a minified class whose last field has no semicolon', 'A.prototype.m', (m) => new m.A().m(1),
      'export class A{a=1;m(x){return this.a}b=()=>2}'],
    ['an arrow field of every instance', 'A.prototype.m', (m) => [new m.A().m(1), new m.A().m(2)], { calls: 2, names: ['x'] },
      'export class A { m = async (x) => x; }'],
    ['an arrow field without a semicolon, before a generator method', 'A.prototype.m', (m) => new m.A().m(1),
      'export class A {\n  m = (x) => { return x }\n  *n() {}\n}'],
    ['an arrow field at the end of a minified class', 'A.prototype.m', (m) => new m.A().m(1),
      'export class A{m=x=>x}'],
    ['a static arrow field', 'A.m', (m) => m.A.m(1), { names: ['x'] },
      'export class A { static m = (x) => x; }'],
    ['a field assigned in the constructor', 'A.prototype.m', (m) => new m.A().m(1), { names: ['x'] },
      'export class A { constructor() { this.b = 1; if (true) this.m = (x) => x; } }'],
    ['a field assigned in a minified constructor of a subclass', 'A.prototype.m', (m) => new m.A().m(1),
      'class B{}export class A extends B{constructor(){super(...arguments),this.a=1,this.m=x=>x}}'],
    ['an object in a field of a class', 'A.prototype.repo.save', (m) => new m.A().repo.save(1),
      'export class A { repo = { save(x) {} }; }'],
    ['a method of an object literal', 'repo.save', (m) => m.repo.save(1), { names: ['row'] },
      'export const repo = { async save(row) { return row; }, other: 1 };'],
    ['an arrow function in an object literal, called through this', 'repo.find', (m) => m.repo.all(), { names: ['key'], name: 'find' },
      'export const repo = { all() { return this.find(1); }, find: (key) => key };'],
    ['a method of an object in an object', 'api.orders.create', (m) => m.api.orders.create(1), { names: ['x'] },
      'export const api = { orders: { create(x) {} } };'],
    ['a method of a frozen object', 'repo.save', (m) => m.repo.save(1),
      'export const repo = Object.freeze({ save(x) {} });'],
    ['a property that hands on a function', 'repo.save', (m) => m.repo.save(1), { names: ['row'] },
      'function save(row) {}\nexport const repo = { save };'],
    ['a method that comes with a spread', 'repo.save', (m) => m.repo.save(1),
      'const base = { save(x) {} };\nexport const repo = { ...base };'],
    ['a method of an instance', 'repo.save', (m) => [m.repo.save(1), m.other.save(1)],
      'class Repo { save(x) {} }\nexport const repo = new Repo();\nexport const other = new Repo();'],
    ['a method of what a call returned', 'repo.save', (m) => m.repo.save(1),
      'const make = () => ({ save(x) {} });\nexport const repo = make();'],
    ['a method of what a factory returns', 'make().insert', (m) => m.repo.insert(1), { names: ['row'] },
      'function make(db) { return { async insert(row) { return db; } }; }\nexport const repo = make(1);'],
    ['a method of what an arrow factory returns', 'make().insert', (m) => m.make(1).insert(1), { names: ['row'] },
      'export const make = (db) => ({ insert: async (row) => db });'],
    ['a method of what an async factory resolves to', 'make().insert', async (m) => (await m.make()).insert(1), { names: ['row'] },
      'export async function make() { function insert(row) {} return { insert }; }'],
    ['a method that a factory puts on its object later', 'make().insert', (m) => m.make().insert(1), { names: ['row'] },
      'export function make() { const repo = {}; repo.insert = (row) => row; return repo; }'],
    ['a method of an instance that a factory returns', 'make().insert', (m) => m.make().insert(1), { names: ['row'] },
      'class Repo { insert(row) {} }\nexport const make = () => new Repo();'],
    ['the function that a factory returns', 'make()', (m) => m.make(1)(2), { names: ['order'] },
      'export const make = (db) => (order) => db + order;'],
    ['a factory that is a method', 'Db.prototype.open().save', (m) => new m.Db().open().save(1), { names: ['row'] },
      'export class Db { open() { return { save(row) {} }; } }'],
    ['a factory that is the default export', 'default().save', (m) => m.default().save(1), { names: ['row'] },
      'export default () => ({ save(row) {} });'],
    ['a nested function with a unique name', 'handler', (m) => m.plugin(1), { names: ['req'] },
      'export function plugin(app) { "use strict"\nasync function handler(req) { return req; }\nreturn handler(app); }'],
    ['a nested arrow function with a unique name', 'handler', (m) => m.plugin(1), { names: ['req'] },
      'export const plugin = (app) => { const handler = (req) => req; return handler(app); };'],
    ['a named function in an argument', 'createOrder', (m) => m.routes[0](1), { names: ['req'] },
      'const routes = [];\nconst post = (path, f) => routes.push(f);\npost("/x", async function createOrder(req) { return req; });\nexport { routes };'],
    ['the definition in the module scope before a nested one of the same name', 'a', (m) => [m.a(1), m.b()], { names: ['x'] },
      'export function a(x) {}\nexport function b() { function a(y) {} a(1); }'],
    ['a function in a block', 'a', (m) => m.b(),
      'export let b;\nif (true) { function a(x) {} b = () => a(1); }'],
  ],
  cjs: [
    ['a method of an older class', 'A.prototype.m', (A) => new A().m(1), { names: ['x'] },
      'function A() {}\nA.prototype.m = function (x) {};\nmodule.exports = A;'],
    ['a method that an older class assigns in its constructor', 'A.prototype.m', (A) => new A().m(1), { names: ['x'] },
      'function A() { this.m = function (x) {}; }\nmodule.exports = A;'],
    ['a prototype that is one object', 'A.prototype.m', (A) => new A().m(1), { names: ['x'] },
      'function A() {}\nA.prototype = { m(x) {} };\nmodule.exports = A;'],
    ['a function in a property of a function', 'a.b', (a) => a.b(1), { names: ['x'] },
      'function a() {}\na.b = (x) => x;\nmodule.exports = a;'],
    ['a named function behind new', 'Made', (m) => assert.equal(m.made().x, 1), { names: ['x'] },
      'exports.made = () => new function Made(x) { this.x = 1; }();'],
    ['a function in the body of an IIFE, as bundlers wrap modules', 'a', (m) => m.b(), { names: ['x'] },
      '(function () { "use strict"; function a(x) {} exports.b = () => a(1); function c() { function a() {} } c(); })();'],
    ['a UMD module', 'a', (m) => m.a(1), { names: ['x'] },
      '(function (root, factory) { if (typeof module === "object") module.exports = factory(); else root.x = factory(); })(this, function () { function a(x) {} return { a: a }; });'],
    ['exports.f', 'g', (m) => m.f(1), { names: ['y'] },
      '"use strict";\nexports.f = async function (x) { return exports.g(x); };\nexports.g = (y) => y;'],
    ['module.exports.f of a local function', 'f', (m) => [m.f(1), m.g()], { calls: 2 },
      'function f(x) {}\nmodule.exports.f = f;\nmodule.exports.g = () => f(1);'],
    ['two exports in one assignment', 'a', (m) => [m.a(1), m.b(1)], { calls: 2 },
      'exports.a = exports.b = function (x) {};'],
    ['module.exports as default', 'default', (m) => m(1), { names: ['x'] },
      'module.exports = async function (x) { return x; };'],
    ['exports = module.exports as default', 'default', (m) => m(1), { names: ['x'] },
      'exports = module.exports = (x) => x;'],
    ['a method in module.exports = {}', 'create', (m) => m.create(1), { names: ['order'] },
      'module.exports = { async create(order) { return order; }, cancel: (id) => id };'],
    ['a local function in module.exports = {}, called inside as well', 'create', (m) => [m.create(1), m.again()], { calls: 2, names: ['order'] },
      'function make(order) {}\nmodule.exports = { create: make, again: () => make(1) };'],
    ['a class in module.exports', 'Orders.prototype.create', (Orders) => new Orders().create(1),
      'module.exports = class Orders { create(x) {} };'],
    ['a factory in module.exports', 'default().save', (m) => m(1).save(1), { names: ['row'] },
      'module.exports = (db) => ({ save: (row) => row });'],
    ['a fallback value', 'f', (m) => m.f(1),
      'var f = f || function (x) {};\nexports.f = f;'],
    ['a function that is decorated afterwards', 'f', (m) => m.f(1), { calls: 2, names: ['x'] },
      'let f = (x) => x;\nf = twice(f);\nfunction twice(g) { return (x) => g(g(x)); }\nexports.f = f;'],
    ['sloppy code that no module may hold', 'f', (m) => m.f({ y: 1 }),
      'function f(x) { with (x) return y; }\nexports.f = f;\nreturn;'],
  ],
  ts: [
    ['typed code: overloads, this, optional and default parameters, generics', 'f', (m) => m.f('x'), { names: ['a', 'b', ''] },
      'export function f(a: string): void;\nexport function f<T>(this: void, a?: any, b: number = 1, ...c: T[]): void {}'],
    ['typed code: an arrow function behind satisfies', 'f', (m) => m.f(1), { names: ['x'], name: 'f' },
      'type F = (x: number) => number;\nexport const f = ((x: number) => x) satisfies F as F\n;[1].map(String)'],
    ['typed code: a class with abstract and overloaded members', 'A.prototype.m', (m) => new m.A().m(1), { names: ['x'] },
      'abstract class B { abstract m(x: number): void; }\nexport class A<T> extends B { private x?: T; declare y: T; m(x: number): void; m(x: any): void {} field = async (a: T): Promise<T> => a; }'],
    ['typed code: a typed arrow field', 'A.prototype.field', (m) => new m.A().field(1), { names: ['a'] },
      'export class A<T> { readonly field = async (a: T): Promise<T> => a; }'],
  ],
};

describe('capture: forms of functions in a text', () => {
  for (const kind of ['esm', 'cjs', 'ts'] as const) {
    for (const [what, path, drive, ...rest] of forms[kind]) {
      const [{ calls = 1, names, name }, text] = rest.length === 1 ? [{} as More, ...rest] : rest;
      it(`${kind}: ${what}`, async () => {
        const it = captured(text, path, kind);
        assert.equal(it.problem, undefined);
        assert.equal(it.text.split('\n').length, text.split('\n').length, 'no line is added');
        if (names) assert.deepEqual(it.parameterNames, names);
        await Promise.all([await drive(await it.run())].flat());
        assert.equal(it.problem, undefined);
        assert.equal(it.calls.length, calls);
        if (name !== undefined) {
          const exports = await it.run();
          const [head = ''] = path.split('.');
          const found = path.includes('.') ? exports.repo.find : exports[head];
          assert.equal(found.name, name);
        }
      });
    }
  }
});
