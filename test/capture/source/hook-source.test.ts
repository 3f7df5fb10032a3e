import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Outcome, runApp, writeApp } from './run-app.ts';

const esm = {
  'package.json': '{"type":"module"}',
  'orders.js': `export async function createOrder(order) { return check(order); }
function check(order) { return order; }
export const quick = async (id) => id;
export class Orders { constructor() { this.n = 1; } async create(a) { return this.help(a); } help(a) { return a; } static of() { return new Orders(); } field = async (a) => a; }
export const repo = { async save(row) { return row; } };
function makeRepo(db) { return { async insert(row) { return db + row; } }; }
export const made = makeRepo('db');
export default async function () { throw new Error('boom'); }
`,
  'main.mjs': `import fail, { createOrder, quick, Orders, repo, made } from './orders.js';
function entry() { return 1; }
await createOrder(1); await quick(1); const o = Orders.of(); await o.create(1); await o.field(1); await repo.save(1); await made.insert(1); entry();
try { await fail(); } catch (error) { console.log('LINE', /orders\\.js:(\\d+)/.exec(error.stack)[1]); }
`,
};
const names = [
  'createOrder',
  'check',
  'quick',
  'Orders.prototype.create',
  'Orders.prototype.help',
  'Orders.of',
  'Orders.prototype.field',
  'repo.save',
  'makeRepo().insert',
  'default',
];
const esmTargets = [...names.map((name) => `./orders.js#${name}`), './main.mjs#entry'];

function assertCalled(outcome: Outcome, targets: readonly string[], calls = 1): void {
  const expected = Object.fromEntries(targets.map((id) => [id, calls]));
  assert.deepEqual(outcome.calls, expected, outcome.stderr);
  for (const id of targets) {
    assert.equal(outcome.reports[id]?.state, 'patched', `${id}: ${outcome.reports[id]?.reason}`);
  }
  assert.equal(outcome.status, 0, outcome.stderr);
}

describe('capture: a real process', function () {
  this.timeout(30_000);

  it('captures ES modules, the entry file too; lines stay, no warning', () => {
    const outcome = runApp(writeApp(esm), esmTargets);
    assertCalled(outcome, esmTargets);
    assert.match(outcome.stdout, /LINE 8/);
    assert.equal(outcome.stderr, '');
    assert.deepEqual(outcome.names['./orders.js#createOrder'], ['order']);
  });

  it('captures a module whose text names its own address', () => {
    const create = 'export function create(a) { return a; }';
    for (const more of [
      '//# sourceURL=<url>',
      '//# sourceMappingURL=<url>.map',
      '/* from "<url>" */ export const at = "<url>";',
      'export const worker = () => import("<url>.worker.js");',
    ]) {
      const folder = writeApp({ 'main.mjs': "import { create } from './mod.mjs';\ncreate(1);" });
      const url = pathToFileURL(join(folder, 'mod.mjs')).href;
      writeFileSync(join(folder, 'mod.mjs'), `${create}\n${more.replaceAll('<url>', url)}\n`);
      assertCalled(runApp(folder, ['./mod.mjs#create']), ['./mod.mjs#create']);
    }
  });

  it('captures by --require as well', () => {
    assertCalled(runApp(writeApp(esm), esmTargets, { by: '--require' }), esmTargets);
  });

  const cjs = {
    'orders.js': `'use strict';
async function create(order) { return check(order); }
function check(order) { return order; }
exports.create = create;
exports.self = async function (order) { return exports.other(order); };
exports.other = (order) => order;
exports.strict = (function () { return this === undefined; })();
`,
    'single.cjs': 'module.exports = async function (input) { return input; };',
    'main.cjs': `const orders = require('./orders.js'); const single = require('./single.cjs');
function entry() { return 1; }
entry(); orders.create(1); orders.self(1); single(1);
if (!orders.strict || require.main !== module || module.parent) throw new Error('not as it was');
`,
  };
  const cjsTargets = [
    './orders.js#create',
    './orders.js#check',
    './orders.js#self',
    './orders.js#other',
    './single.cjs#default',
    './main.cjs#entry',
  ];

  for (const by of ['--import', '--require']) {
    it(`captures CommonJS with ${by}, the entry file too; strict mode and require.main stay`, () => {
      assertCalled(runApp(writeApp(cjs), cjsTargets, { main: 'main.cjs', by }), cjsTargets);
    });

    it(`captures ES modules that CommonJS requires, once each, with ${by}`, () => {
      const folder = writeApp({
        ...esm,
        'main.cjs': `const { createOrder, quick } = require('./orders.js'); createOrder(1); quick(1);`,
      });
      const targets = ['./orders.js#createOrder', './orders.js#check', './orders.js#quick'];
      assertCalled(runApp(folder, targets, { main: 'main.cjs', by }), targets);
    });
  }

  it('captures typed files that Node strips itself, ES modules and CommonJS', () => {
    const text = `interface Order { id: number }
export async function create(order: Order): Promise<number> { return check(order.id); }
function check(id: number): number { return id as number; }
export class Orders<T> { private x?: T; async create(order: Order): Promise<Order> { return order; } field = async (order: Order): Promise<Order> => order; }
`;
    const folder = writeApp({
      'orders.mts': text,
      'legacy.cts': `function create(order: { id: number }): number { return order.id; }\nexports.create = create;`,
      'main.mts': `import { create, Orders } from './orders.mts'; import legacy from './legacy.cts';
await create({ id: 1 }); const o = new Orders<number>(); await o.create({ id: 1 }); await o.field({ id: 1 }); legacy.create({ id: 1 });`,
    });
    const targets = [
      './orders.mts#create',
      './orders.mts#check',
      './orders.mts#Orders.prototype.create',
      './orders.mts#Orders.prototype.field',
      './legacy.cts#create',
    ];
    assertCalled(runApp(folder, targets, { main: 'main.mts' }), targets);
  });

  it('captures through queries, dynamic import, links and backslashes', () => {
    const folder = writeApp({
      'package.json': '{"type":"module"}',
      'real/orders.js': 'export function create() {}',
      'linked/orders.js': '->../real/orders.js',
      'main.mjs': `for (const from of ['./real/orders.js', './linked/orders.js?v=1', './real/orders.js?v=2#x']) (await import(from)).create();`,
    });
    const target = '.\\linked\\orders.js#create';
    assertCalled(runApp(folder, [target]), [target], 3);
  });

  it('captures links that Node is told to keep', () => {
    const folder = writeApp({
      'real/orders.cjs': 'exports.create = () => {};',
      linked: '->./real',
      'main.cjs': `require('./linked/orders.cjs').create();`,
    });
    const target = './real/orders.cjs#create';
    assertCalled(runApp(folder, [target], { main: 'main.cjs', args: ['--preserve-symlinks'] }), [target]);
  });

  it('captures in worker threads', () => {
    const folder = writeApp({
      ...esm,
      'worker.mjs': `import { Worker, isMainThread } from 'node:worker_threads'; import { quick } from './orders.js';
if (isMainThread) { await new Promise((resolve) => new Worker(new URL(import.meta.url)).on('exit', resolve)); } else await quick(1);`,
    });
    assertCalled(runApp(folder, ['./orders.js#quick'], { main: 'worker.mjs' }), ['./orders.js#quick']);
  });

  for (const first of ['before', 'after']) {
    for (const way of ['synchronous', 'asynchronous']) {
      it(`captures once, and reports nothing wrong, with ${way} hooks of import-in-the-middle ${first} svc`, () => {
        const from = createRequire(import.meta.url);
        const address = (name: string) => pathToFileURL(from.resolve(`import-in-the-middle/${name}`)).href;
        const folder = writeApp({
          ...esm,
          'hooks.mjs':
            way === 'synchronous'
              ? `import { register } from '${address('register-hooks.mjs')}'; register();`
              : `import { register } from 'node:module'; register('${address('hook.mjs')}');`,
        });
        const hooks = join(folder, 'hooks.mjs');
        const outcome = runApp(folder, esmTargets, {
          [first === 'before' ? 'before' : 'args']: ['--import', hooks],
          env: { CAPTURE_LOG: 'warn' },
        });
        assertCalled(outcome, esmTargets);
        assert.equal(outcome.stderr, '');
      });
    }
  }

  it('keeps a nameless default function hoisted in a circle of imports', () => {
    const folder = writeApp({
      'a.mjs': `import './b.mjs';\nexport default function () { return 'early'; }`,
      'b.mjs': `import a from './a.mjs';\nconsole.log(a(), a.name);`,
    });
    const outcome = runApp(folder, ['./a.mjs#default'], { main: 'a.mjs' });
    assert.match(outcome.stdout, /^early /);
    assert.equal(outcome.reports['./a.mjs#default']?.state, 'patched');
  });

  it('captures #imports and workspace packages by source', () => {
    const folder = writeApp({
      'package.json': JSON.stringify({ name: 'app', type: 'module', imports: { '#lib/*': './src/*.js' } }),
      'src/orders.js': 'export function create() {}',
      'packages/stock/package.json': JSON.stringify({
        name: '@acme/stock',
        type: 'module',
        exports: { '.': { import: './index.js', require: './index.cjs' } },
      }),
      'packages/stock/index.js':
        'function take() { return 1; }\nexport const takeTwice = () => take() + take();',
      'packages/stock/index.cjs': 'function take() { return 1; }\nexports.takeTwice = () => take() + take();',
      'node_modules/@acme/stock': '->../../packages/stock',
      'main.mjs': `import { create } from '#lib/orders'; import { takeTwice } from '@acme/stock'; import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
create(); create(); takeTwice();`,
      'other.mjs': `import { create } from '#lib/orders'; import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module'; create(); create(); createRequire(import.meta.url)('@acme/stock').takeTwice();`,
    });
    const targets = ['#lib/orders#create', '@acme/stock#take'];
    assertCalled(runApp(folder, targets), targets, 2);
    assertCalled(runApp(folder, targets, { main: 'other.mjs' }), targets, 2);
  });

  it('leaves the application alone whatever is wrong with its targets', () => {
    const folder = writeApp({ ...esm, 'unused.js': 'export function never() {}' });
    const good = './orders.js#quick';
    const bad = [
      './orders.js#quik',
      './none.js#x',
      './orders.js#Orders',
      './orders.js#repo.save',
      './unused.js#never',
      'not a module#x',
    ];
    const outcome = runApp(folder, [good, ...bad], { env: { CAPTURE_REFUSE: './orders.js#repo.save' } });
    assert.equal(outcome.status, 0);
    assert.match(outcome.stdout, /LINE 8/);
    assert.deepEqual(outcome.calls, { [good]: 1 });
    const states = Object.fromEntries(Object.values(outcome.reports).map(({ id, state }) => [id, state]));
    assert.deepEqual(states, {
      [good]: 'patched',
      './orders.js#quik': 'failed',
      './none.js#x': 'failed',
      './orders.js#Orders': 'failed',
      './orders.js#repo.save': 'failed',
      './unused.js#never': 'pending',
      'not a module#x': 'failed',
    });
    assert.equal(outcome.reports['./orders.js#repo.save']?.reason, 'the expression #x does not fit');
  });

  it("reports a file that cannot be parsed, and its error stays Node's", () => {
    const folder = writeApp({
      'broken.mjs': 'export function a( {',
      'main.mjs': `await import('./broken.mjs').catch((error) => console.log(error.name));`,
    });
    const outcome = runApp(folder, ['./broken.mjs#a']);
    assert.match(outcome.stdout, /^SyntaxError/);
    assert.match(outcome.reports['./broken.mjs#a']?.reason ?? '', /^cannot be parsed: /);
  });
});
