import assert from 'node:assert/strict';
import { captured, find, type TextKind } from '../run-text.ts';

interface Case {
  readonly what: string;
  readonly text: string;
  readonly path: string;
  readonly problem: string | RegExp;
  readonly kind?: TextKind;
}

const cases: readonly Case[] = [
  {
    what: 'a name that is not there',
    text: 'export function createOrder() {}',
    path: 'createOrdre',
    problem: 'no createOrdre in this file (did you mean createOrder?)',
  },
  {
    what: 'a name that is like nothing there',
    text: 'export function createOrder() {}',
    path: 'sendInvoice',
    problem: 'no sendInvoice in this file',
  },
  {
    what: 'no default export',
    text: 'export const a = 1;',
    path: 'default',
    problem: 'no default in this file',
  },
  {
    what: 'a method that is not there',
    text: 'export class A { create() {} cancel() {} }',
    path: 'A.prototype.creat',
    problem: 'no A.prototype.creat in this file (did you mean A.prototype.create, A.prototype.cancel?)',
  },
  {
    what: 'an instance method named as a static one',
    text: 'export class A { create() {} }',
    path: 'A.create',
    problem: 'no A.create in this file (did you mean A.prototype.create?)',
  },
  {
    what: 'a static method named as one of instances',
    text: 'export class A { static create() {} }',
    path: 'A.prototype.create',
    problem: 'no A.prototype.create in this file (did you mean A.create?)',
  },
  {
    what: 'an inherited method',
    text: 'class Base { save() {} }\nexport class A extends Base {}',
    path: 'A.prototype.save',
    problem:
      'no A.prototype.save in this file; if A inherits it, name Base.prototype.save, where it is defined',
  },
  {
    what: 'a method named without its class',
    text: 'export class OrderService { createOrder() {} }',
    path: 'createOrder',
    problem: 'no createOrder in this file (did you mean OrderService.prototype.createOrder?)',
  },
  {
    what: 'a property that an object does not have',
    text: 'export const repo = { save() {} };',
    path: 'repo.sav',
    problem: 'no repo.sav in this file (did you mean repo.save?)',
  },
  {
    what: 'a method that what a factory returns does not have',
    text: 'const make = () => ({ insert() {} });\nexport const repo = make();',
    path: 'make().inset',
    problem: 'no make().inset in this file (did you mean make().insert?)',
  },
  {
    what: 'two definitions in the module scope',
    text: 'let f = () => 1;\nf = () => 2;\nexport { f };',
    path: 'f',
    problem:
      'f is ambiguous: it is defined 2 times (lines 1, 2); give the one that is meant a name of its own',
  },
  {
    what: 'three nested ones',
    text: 'const a = () => { function f() {} };\nconst b = () => { const f = () => 1; };\n\nfunction c() { function f() {} }',
    path: 'f',
    problem:
      'f is ambiguous: it is defined 3 times (lines 1, 2, 4); give the one that is meant a name of its own',
  },
  {
    what: 'two in one line',
    text: 'const a=()=>{function f(){}},b=()=>{function f(){}}',
    path: 'f',
    problem: 'f is ambiguous: it is defined 2 times (line 1); give the one that is meant a name of its own',
  },
  {
    what: 'a number',
    text: 'export const x = 5;',
    path: 'x',
    problem: 'x is not a function but a plain value',
  },
  { what: 'a string', text: 'export const x = `a`;', path: 'x', problem: 'x is not a function but a string' },
  { what: 'an array', text: 'export const x = [];', path: 'x', problem: 'x is not a function but an array' },
  {
    what: 'a class',
    text: 'export class A { create() {} static of() {} }',
    path: 'A',
    problem: 'A is not a function but a class: name one of its methods; it has A.prototype.create, A.of',
  },
  {
    what: 'a class prototype',
    text: 'export class A { create() {} }',
    path: 'A.prototype',
    problem: 'A.prototype is not a function: name one of its methods',
  },
  {
    what: 'an object',
    text: 'export const repo = { save() {}, find: 1 };',
    path: 'repo',
    problem: 'repo is not a function but an object; it has repo.save, repo.find',
  },
  {
    what: 'a property that is a value',
    text: 'export const repo = { size: 5 };',
    path: 'repo.size',
    problem: 'repo.size is not a function but a plain value',
  },
  {
    what: 'a field that is a value',
    text: 'export class A { size = 5; }',
    path: 'A.prototype.size',
    problem: 'A.prototype.size is not a function but a plain value',
  },
  {
    what: 'a getter of a class',
    text: 'export class A { get size() { return 1; } }',
    path: 'A.prototype.size',
    problem: 'A.prototype.size is a getter, not a method',
  },
  {
    what: 'a getter of an object',
    text: 'export const a = { get size() { return 1; } };',
    path: 'a.size',
    problem: 'a.size is a getter, not a method',
  },
  {
    what: 'a constructor',
    text: 'export class A { constructor() {} }',
    path: 'A.prototype.constructor',
    problem: 'A.prototype.constructor is a constructor: name a method',
  },
  {
    what: 'something inside of a method',
    text: 'export class A { m() {} }',
    path: 'A.prototype.m.n',
    problem: 'A.prototype.m is a method and has no n',
  },
  {
    what: 'a private method, named as one',
    text: 'export class A { #m() {} }',
    path: 'A.prototype.#m',
    problem: /^#m is private, .*publishEvent\(options, fn\)$/,
  },
  {
    what: 'a private method, named as if it were not',
    text: 'export class A { #m() {} }',
    path: 'A.prototype.m',
    problem: /^#m is private/,
  },
  {
    what: 'an imported function',
    text: "import { a } from './a.js';\nexport { a };",
    path: 'a',
    problem: "a is not defined in this file, it comes from './a.js': name that as the module",
  },
  {
    what: 'a re-exported function',
    text: "export { a as b } from './a.js';",
    path: 'b',
    problem: "b is not defined in this file, it comes from './a.js': name that as the module",
  },
  {
    what: 'an imported function as default',
    text: "import a from './a.js';\nexport default a;",
    path: 'default',
    problem: "default is not defined in this file, it comes from './a.js': name that as the module",
  },
  {
    what: 'a required function',
    kind: 'cjs',
    text: "const { a } = require('./a');\na();",
    path: 'a',
    problem: "a is not defined in this file, it comes from './a': name that as the module",
  },
  {
    what: 'a function that tsc re-exports',
    kind: 'cjs',
    text: 'var a_1 = require("./a");\nObject.defineProperty(exports, "a", { enumerable: true, get: function () { return a_1.a; } });',
    path: 'a',
    problem: "a is not defined in this file, it comes from './a': name that as the module",
  },
  {
    what: 'a star export',
    text: "export * from './a.js';\nexport function b() {}",
    path: 'a',
    problem:
      "no a in this file; this file hands on all of './a.js': if it is defined there, name that as the module",
  },
  {
    what: 'a star export as tsc writes it',
    kind: 'cjs',
    text: '__exportStar(require("./a"), exports);',
    path: 'createOrder',
    problem:
      "no createOrder in this file; this file hands on all of './a': if it is defined there, name that as the module",
  },
  {
    what: 'a file that cannot be parsed',
    text: 'export function a() {}\nexport function {',
    path: 'a',
    problem: /^cannot be parsed: .+ \(line 2\)$/,
  },
  {
    what: 'a path that is none',
    text: '',
    path: 'a b',
    problem: /^"a b" is not the path of a function/,
  },
  { what: 'an empty path', text: '', path: '', problem: /^"" is not the path of a function/ },
  { what: 'a path with a dot at its end', text: '', path: 'a.', problem: /^"a\." is not the path/ },
  { what: 'a path that goes on behind ()', text: '', path: 'a()b', problem: /^"a\(\)b" is not the path/ },
  {
    what: 'two factories',
    text: '',
    path: 'a().b().c',
    problem: '"a().b().c" has more than one (): only one factory can be followed',
  },
  {
    what: 'the notation of documentation',
    text: '',
    path: 'A#create',
    problem: 'write A.prototype.create instead of A#create',
  },
];

describe('capture: targets that a text does not have', () => {
  for (const { what, text, path, problem, kind = 'esm' } of cases) {
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
  const atRunTime: readonly Case[] = [
    {
      what: 'a value that is no function',
      text: 'const make = () => 5;\nexport const f = make();',
      path: 'f',
      problem: 'f is not a function but a value of type number',
    },
    {
      what: 'an object without the method',
      text: 'const make = () => ({});\nexport const repo = make();',
      path: 'repo.save',
      problem: 'repo.save is not there at run time: nothing has a save',
    },
    {
      what: 'nothing where an object should be',
      text: 'const make = () => ({});\nexport const api = make();',
      path: 'api.orders.create',
      problem: 'api.orders.create is not there at run time: nothing has a create',
    },
    {
      what: 'a frozen object',
      text: 'const make = () => Object.freeze({ save() {} });\nexport const repo = make();',
      path: 'repo.save',
      problem: 'repo.save cannot be replaced: its object is frozen',
    },
    {
      what: 'a getter',
      text: 'const make = () => ({ get save() { return () => {}; } });\nexport const repo = make();',
      path: 'repo.save',
      problem: 'repo.save is not a function but a getter',
    },
    {
      what: 'a factory whose object lacks the method',
      text: 'const base = {};\nexport const make = () => ({ ...base });\nmake();',
      path: 'make().insert',
      problem: 'what make() returned has no insert',
    },
    {
      what: 'a factory whose object is frozen',
      text: 'export const make = () => Object.freeze({ insert() {} });\nmake();',
      path: 'make().insert',
      problem: 'insert of what make() returned cannot be replaced: its object is frozen',
    },
  ];
  for (const { what, text, path, problem } of atRunTime) {
    it(what, async () => {
      const it = captured(text, path, 'esm');
      assert.equal(it.problem, undefined);
      await it.run();
      assert.equal(it.problem, problem);
    });
  }
});
