import assert from 'node:assert/strict';
import { captured, find, type TextKind } from '../run-text.ts';

type Case = readonly [what: string, path: string, problem: string | RegExp, text: string, kind?: TextKind];

// biome-ignore format: a row for each.
const cases: readonly Case[] = [
  ['a name that is not there', 'createOrdre', 'no createOrdre in this file (did you mean createOrder?)', 'export function createOrder() {}'],
  ['a name that is like nothing there', 'sendInvoice', 'no sendInvoice in this file', 'export function createOrder() {}'],
  ['no default export', 'default', 'no default in this file', 'export const a = 1;'],
  ['a method that is not there', 'A.prototype.creat', 'no A.prototype.creat in this file (did you mean A.prototype.create, A.prototype.cancel?)', 'export class A { create() {} cancel() {} }'],
  ['an instance method named as a static one', 'A.create', 'no A.create in this file (did you mean A.prototype.create?)', 'export class A { create() {} }'],
  ['a static method named as one of instances', 'A.prototype.create', 'no A.prototype.create in this file (did you mean A.create?)', 'export class A { static create() {} }'],
  ['an inherited method', 'A.prototype.save', 'no A.prototype.save in this file; if A inherits it, name Base.prototype.save, where it is defined', 'class Base { save() {} }\nexport class A extends Base {}'],
  ['a method named without its class', 'createOrder', 'no createOrder in this file (did you mean OrderService.prototype.createOrder?)', 'export class OrderService { createOrder() {} }'],
  ['a property that an object does not have', 'repo.sav', 'no repo.sav in this file (did you mean repo.save?)', 'export const repo = { save() {} };'],
  ['a method that what a factory returns does not have', 'make().inset', 'no make().inset in this file (did you mean make().insert?)', 'const make = () => ({ insert() {} });\nexport const repo = make();'],
  ['two definitions in the module scope', 'f', 'f is ambiguous: it is defined 2 times (lines 1, 2); give the target a unique name', 'let f = () => 1;\nf = () => 2;\nexport { f };'],
  ['three nested ones', 'f', 'f is ambiguous: it is defined 3 times (lines 1, 2, 4); give the target a unique name', 'const a = () => { function f() {} };\nconst b = () => { const f = () => 1; };\n\nfunction c() { function f() {} }'],
  ['two in one line', 'f', 'f is ambiguous: it is defined 2 times (line 1); give the target a unique name', 'const a=()=>{function f(){}},b=()=>{function f(){}}'],
  ['a number', 'x', 'x is not a function but a plain value', 'export const x = 5;'],
  ['a string', 'x', 'x is not a function but a string', 'export const x = `a`;'],
  ['an array', 'x', 'x is not a function but an array', 'export const x = [];'],
  ['a class', 'A', 'A is not a function but a class: name one of its methods; it has A.prototype.create, A.of', 'export class A { create() {} static of() {} }'],
  ['a class prototype', 'A.prototype', 'A.prototype is not a function: name one of its methods', 'export class A { create() {} }'],
  ['an object', 'repo', 'repo is not a function but an object; it has repo.save, repo.find', 'export const repo = { save() {}, find: 1 };'],
  ['a property that is a value', 'repo.size', 'repo.size is not a function but a plain value', 'export const repo = { size: 5 };'],
  ['a field that is a value', 'A.prototype.size', 'A.prototype.size is not a function but a plain value', 'export class A { size = 5; }'],
  ['a getter of a class', 'A.prototype.size', 'A.prototype.size is a getter, not a method', 'export class A { get size() { return 1; } }'],
  ['a getter of an object', 'a.size', 'a.size is a getter, not a method', 'export const a = { get size() { return 1; } };'],
  ['a constructor', 'A.prototype.constructor', 'A.prototype.constructor is a constructor: name a method', 'export class A { constructor() {} }'],
  ['something inside of a method', 'A.prototype.m.n', 'A.prototype.m is a method and has no n', 'export class A { m() {} }'],
  ['a private method, named as one', 'A.prototype.#m', /^#m is private, .*publishEvent\(options, fn\)$/, 'export class A { #m() {} }'],
  ['a private method, named as if it were not', 'A.prototype.m', /^#m is private/, 'export class A { #m() {} }'],
  ['an imported function', 'a', "a is not defined in this file but in './a.js': name that module", "import { a } from './a.js';\nexport { a };"],
  ['a re-exported function', 'b', "b is not defined in this file but in './a.js': name that module", "export { a as b } from './a.js';"],
  ['an imported function as default', 'default', "default is not defined in this file but in './a.js': name that module", "import a from './a.js';\nexport default a;"],
  ['a required function', 'a', "a is not defined in this file but in './a': name that module", "const { a } = require('./a');\na();", 'cjs'],
  ['a function that tsc re-exports', 'a', "a is not defined in this file but in './a': name that module", 'var a_1 = require("./a");\nObject.defineProperty(exports, "a", { enumerable: true, get: function () { return a_1.a; } });', 'cjs'],
  ['a star export', 'a', "no a in this file; this file re-exports all of './a.js': if it is defined there, name that module", "export * from './a.js';\nexport function b() {}"],
  ['a star export as tsc writes it', 'createOrder', "no createOrder in this file; this file re-exports all of './a': if it is defined there, name that module", '__exportStar(require("./a"), exports);', 'cjs'],
  ['a file that cannot be parsed', 'a', /^cannot be parsed: .+ \(line 2\)$/, 'export function a() {}\nexport function {'],
  ['a path that is none', 'a b', /^"a b" is not the path of a function/, ''],
  ['an empty path', '', /^"" is not the path of a function/, ''],
  ['a path with a dot at its end', 'a.', /^"a\." is not the path/, ''],
  ['a path that goes on behind ()', 'a()b', /^"a\(\)b" is not the path/, ''],
  ['two factories', 'a().b().c', '"a().b().c" has more than one (): svc follows only one factory', ''],
  ['the notation of documentation', 'A#create', 'write A.prototype.create instead of A#create', ''],
];

describe('capture: targets that a text does not have', () => {
  for (const [what, path, problem, text, kind = 'esm'] of cases) {
    it(what, () => {
      const it = captured(text, path, kind);
      assert.equal(it.text, text, 'the text stays as it is');
      if (typeof problem === 'string') assert.equal(it.problem, problem);
      else assert.match(it.problem ?? '', problem);
    });
  }

  it('aliases in a circle end', () => {
    assert.match(find('export { a as b, b as a };', 'a').problem ?? '', /^no a in this file/);
  });

  it('a parse error says nothing of the text', () => {
    const { problem = '' } = find('const secret = "4111111111111111" "x";', 'a');
    assert.match(problem, /cannot be parsed/);
    assert.doesNotMatch(problem, /4111/);
  });
});

describe('capture: targets that only run time can tell about', () => {
  // biome-ignore format: a row for each.
  const atRunTime: readonly Case[] = [
    ['a value that is no function', 'f', 'f is not a function but a value of type number', 'const make = () => 5;\nexport const f = make();'],
    ['an object without the method', 'repo.save', 'repo.save does not exist at runtime: no object has save', 'const make = () => ({});\nexport const repo = make();'],
    ['nothing where an object should be', 'api.orders.create', 'api.orders.create does not exist at runtime: no object has orders', 'const make = () => ({});\nexport const api = make();'],
    ['a frozen object', 'repo.save', 'repo.save cannot be replaced: its object is frozen', 'const make = () => Object.freeze({ save() {} });\nexport const repo = make();'],
    ['a getter', 'repo.save', 'repo.save is a getter, not a function', 'const make = () => ({ get save() { return () => {}; } });\nexport const repo = make();'],
    ['a factory whose object lacks the method', 'make().insert', 'what make() returned has no insert', 'const base = {};\nexport const make = () => ({ ...base });\nmake();'],
    ['a factory whose object is frozen', 'make().insert', 'insert of what make() returned cannot be replaced: its object is frozen', 'export const make = () => Object.freeze({ insert() {} });\nmake();'],
  ];
  for (const [what, path, problem, text] of atRunTime) {
    it(what, async () => {
      const it = captured(text, path, 'esm');
      assert.equal(it.problem, undefined);
      await it.run();
      assert.equal(it.problem, problem);
    });
  }
});
