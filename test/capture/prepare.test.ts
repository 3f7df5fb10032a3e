import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import sinon from 'sinon';
import type { Call } from '../../src/capture/call.ts';
import { followImports, inspect } from '../../src/capture/inspect.ts';
import { prepare } from '../../src/capture/prepare.ts';
import type { CaptureTarget } from '../../src/capture/target-record.ts';
import { SvcError } from '../../src/ground/errors.ts';
import { useClock } from '../support/fake-time.ts';
import { logInto, useLogger } from '../support/log.ts';
import { writeApp } from './source/run-app.ts';

interface Made {
  readonly names: (readonly string[] | undefined)[];
}

function target(id: string, made: Made = { names: [] }): CaptureTarget {
  const [module = '', functionPath = ''] = id.split('#');
  return {
    id,
    module,
    functionPath,
    makePlan(names) {
      made.names.push(names);
      return {
        id,
        origin: 'configuration',
        eventType: 'T',
        severity: 'INFO',
        phase: 'AFTER',
        failOnError: false,
        afterCommit: false,
        payload: () => null,
      };
    },
  };
}

const lines: string[] = [];
const logger = logInto(lines);
const load = createRequire(import.meta.url);

type Capture = ReturnType<typeof prepare>;

describe('capture: prepare', () => {
  const open: Capture[] = [];
  const start = (baseDir: string, targets: readonly CaptureTarget[], onChange?: () => void): Capture => {
    useLogger(logger);
    const capture = prepare(targets, { baseDir, ...(onChange ? { onChange } : {}) });
    open.push(capture);
    return capture;
  };
  beforeEach(() => {
    lines.length = 0;
  });
  afterEach(() => {
    for (const capture of open.splice(0)) capture.close();
  });

  it('reads no more files for many targets of a file than for one, neither at the start nor for what was never loaded', () => {
    const folder = writeApp({ 'a.cjs': '', 'package.json': '{}' });
    const readsFor = (count: number): number => {
      const spies = [sinon.spy(fs, 'readFileSync'), sinon.spy(fs, 'statSync')];
      syncBuiltinESMExports();
      try {
        const targets = Array.from({ length: count }, (_, index) => target(`./a.cjs#f${index}`));
        const capture = start(folder, targets);
        assert.equal(capture.report(true).filter(({ state }) => state === 'unloaded').length, count);
        capture.close();
        return spies.reduce((sum, { callCount }) => sum + callCount, 0);
      } finally {
        for (const spy of spies) spy.restore();
        syncBuiltinESMExports();
      }
    };
    // The first one loads what looks for compiled files.
    readsFor(1);
    const one = readsFor(1);
    assert.ok(one > 0);
    assert.equal(readsFor(50), one);
  });

  it('goes from pending to patched, tells each change, and makes one slot', () => {
    const folder = writeApp({ 'a.cjs': 'exports.create = (order, { x }) => order;' });
    const made: Made = { names: [] };
    let changes = 0;
    const capture = start(folder, [target('./a.cjs#create', made)], () => changes++);
    assert.deepEqual(capture.report(), [
      { id: './a.cjs#create', state: 'pending', notes: [], calls: 0, failed: 0, skipped: 0 },
    ]);
    const calls: Call[] = [];
    load(join(folder, 'a.cjs')).create(1, {});
    capture.setOnCall((call) => {
      calls.push(call);
      return undefined;
    });
    const { create } = load(join(folder, 'a.cjs'));
    assert.equal(create('x', {}), 'x');
    assert.equal(calls.length, 1, 'calls before setOnCall make no event');
    assert.deepEqual(calls[0]?.args, ['x', {}]);
    assert.deepEqual(capture.report(), [
      { id: './a.cjs#create', state: 'patched', notes: [], calls: 1, failed: 0, skipped: 0 },
    ]);
    assert.deepEqual(made.names, [['order', '']]);
    assert.equal(changes, 1);
    capture.setOnCall(null);
    create('y', {});
    assert.equal(calls.length, 1);
  });

  it('unloaded: nothing has loaded its file in time, or another one was loaded in its place', () => {
    const folder = writeApp({
      'src/late.cjs': 'exports.run = () => 1;',
      'src/orders.cts': 'export function create() {}',
      'dist/orders.cjs': 'exports.create = () => 1;',
      'main.cjs': 'require("./dist/orders.cjs")',
      'node_modules/pad/package.json': '{"name":"pad"}',
      'node_modules/pad/index.js': 'exports.left = () => 1;',
    });
    let nowMs = 5;
    useClock({ monotonic: () => nowMs });
    const targets = ['./src/late.cjs#run', './src/orders.cts#create', 'pad#left'].map((id) => target(id));
    useLogger(logger);
    const capture = prepare(targets, { baseDir: folder });
    open.push(capture);
    const states = () => capture.report().map(({ state }) => state);
    nowMs += 100_000;
    assert.deepEqual(states(), ['pending', 'pending', 'pending'], 'no module of the application was loaded');
    load(join(folder, 'main.cjs'));
    assert.deepEqual(states(), ['pending', 'unloaded', 'pending']);
    assert.match(
      capture.report()[1]?.reason ?? '',
      /^\.\/dist\/orders\.cjs is loaded in its place: write source maps/,
    );
    nowMs += 29_999;
    assert.deepEqual(states(), ['pending', 'unloaded', 'pending']);
    nowMs += 1;
    assert.deepEqual(states(), ['unloaded', 'unloaded', 'unloaded']);
    const [late, , ofPackage] = capture.report();
    assert.match(
      late?.reason ?? '',
      /^its file was not loaded within 30 s: where the application is built, write source maps/,
    );
    assert.equal(ofPackage?.reason, 'its package was not loaded within 30 s');
    load(join(folder, 'src/late.cjs'));
    assert.deepEqual(states(), ['patched', 'unloaded', 'unloaded']);
    assert.equal(capture.report()[0]?.reason, undefined);
  });

  it('says once that a target is not captured, and only when its module has loaded', async () => {
    const folder = writeApp({ 'a.cjs': 'exports.create = 5;' });
    const capture = start(folder, [target('./a.cjs#create'), target('./a.cjs#create')]);
    load(join(folder, 'a.cjs'));
    assert.deepEqual(
      lines.filter((line) => line.startsWith('warn')),
      [],
      'later',
    );
    await new Promise(setImmediate);
    capture.report();
    assert.deepEqual(
      lines.filter((line) => line.startsWith('warn')),
      [
        'warn target ./a.cjs#create is not captured: this target is configured more than once',
        'warn target ./a.cjs#create is not captured: create is not a function but a plain value',
      ],
    );
  });

  it('close: captured functions make no more events, and files load as they are', () => {
    const folder = writeApp({ 'a.cjs': 'exports.create = () => 1;', 'b.cjs': 'exports.create = () => 1;' });
    const capture = start(folder, [target('./a.cjs#create'), target('./b.cjs#create')]);
    let calls = 0;
    capture.setOnCall(() => {
      calls++;
      return undefined;
    });
    const { create } = load(join(folder, 'a.cjs'));
    create();
    capture.close();
    create();
    load(join(folder, 'b.cjs')).create();
    assert.equal(calls, 1);
    assert.equal(load(join(folder, 'b.cjs')).create.toString(), '() => 1');
  });

  it('a plan that cannot be made fails its target with its message; the function stays as it is', async () => {
    const folder = writeApp({ 'a.mjs': 'export const create = () => 1; export const cancel = () => 2;' });
    const refused: CaptureTarget = {
      ...target('./a.mjs#create'),
      makePlan() {
        throw new SvcError('SVC_CAPTURE_EXPRESSION_SYNTAX', 'payload: #x is no parameter');
      },
    };
    const capture = start(folder, [refused, target('./a.mjs#cancel')]);
    const m = await import(pathToFileURL(join(folder, 'a.mjs')).href);
    assert.equal(m.create.toString(), '() => 1');
    assert.deepEqual(
      capture.report().map(({ state, reason }) => [state, reason]),
      [
        ['failed', 'payload: #x is no parameter'],
        ['patched', undefined],
      ],
    );
    assert.deepEqual(
      lines.filter((line) => line.startsWith('warn')),
      ['warn target ./a.mjs#create is not captured: payload: #x is no parameter'],
    );
  });

  it('says at once what no file has to be loaded for', () => {
    const folder = writeApp({ 'orders.cjs': '' });
    const capture = start(folder, [
      target('./order.cjs#create'),
      target('./orders.cjs#create()()'),
      target('./orders.cjs#x'),
      target('./orders.cjs#x'),
    ]);
    assert.deepEqual(
      capture.report().map(({ state, reason }) => [state, reason]),
      [
        ['failed', 'no such file: ./order.cjs (did you mean ./orders.cjs?)'],
        ['failed', '"create()()" has more than one (): svc follows only one factory'],
        ['pending', undefined],
        ['failed', 'this target is configured more than once'],
      ],
    );
  });

  it('a second target of one function fails; the first goes on', () => {
    const folder = writeApp({ 'a.cjs': 'function create() {}\nmodule.exports = { create, make: create };' });
    const capture = start(folder, [target('./a.cjs#create'), target('./a.cjs#make')]);
    load(join(folder, 'a.cjs')).create();
    assert.deepEqual(
      capture.report().map(({ state, reason }) => [state, reason]),
      [
        ['patched', undefined],
        ['failed', 'make is captured by the target ./a.cjs#create already'],
      ],
    );
  });

  it('tells what only the first call of a factory shows', () => {
    const folder = writeApp({
      'a.cjs': 'const base = {};\nexports.make = (extra) => ({ ...base, ...extra });',
    });
    const capture = start(folder, [target('./a.cjs#make().save')]);
    const { make } = load(join(folder, 'a.cjs'));
    assert.equal(capture.report()[0]?.state, 'patched');
    make({});
    assert.deepEqual(capture.report()[0]?.reason, 'what make() returned has no save');
    make({ save() {} });
    assert.equal(capture.report()[0]?.state, 'patched');
  });

  describe('of a linked package, or a #import, with two builds, each that is loaded counts', () => {
    const builds = { import: './x.mjs', require: './x.cjs', development: './x.dev.cjs' };
    const texts = {
      'x.mjs': 'export const other = 1;',
      'x.cjs': 'exports.create = () => 1;',
      'x.dev.cjs': 'exports.develop = () => 1;',
    };
    const elsewhere = (where: string) => new RegExp(`^no create in this file \\(in ${where}; elsewhere`);
    const rows: [title: string, loaded: (keyof typeof texts)[], wanted: RegExp | undefined][] = [
      ['what has it alone', ['x.cjs'], undefined],
      ['both, that with it first', ['x.cjs', 'x.mjs'], elsewhere('what import loads')],
      ['both, that without it first', ['x.mjs', 'x.cjs'], elsewhere('what import loads')],
      ['one that another condition leads to', ['x.cjs', 'x.dev.cjs'], elsewhere('.*x.dev.cjs')],
    ];
    for (const [title, loaded, wanted] of rows)
      for (const module of ['#x', 'linked'])
        it(`${module}: ${title}`, () => {
          const at = module === '#x' ? '' : 'packages/linked/';
          const folder = writeApp({
            'package.json': JSON.stringify({ imports: { '#x': builds } }),
            'node_modules/linked': '->../packages/linked',
            'packages/linked/package.json': JSON.stringify({ name: 'linked', exports: builds }),
            ...Object.fromEntries(Object.entries(texts).map(([file, text]) => [at + file, text])),
            'main.mjs': loaded.includes('x.mjs')
              ? `import '${module}'; import './main.cjs';`
              : "import './main.cjs';",
            'main.cjs': `require('${module}');`,
          });
          const create = { ...target('x#create'), module };
          const capture = start(folder, [create]);
          for (const file of loaded) load(join(folder, at + file));
          const [report] = capture.report();
          assert.equal(report?.state, wanted === undefined ? 'patched' : 'failed');
          if (wanted !== undefined) assert.match(report?.reason ?? '', wanted);
          if (loaded.includes('x.dev.cjs')) return;
          const { packages } = followImports([join(folder, 'main.mjs')], folder);
          const options = { baseDir: folder, loadedBy: (specifier: string) => packages.get(specifier) };
          const [check] = inspect([create], options);
          assert.equal(check?.state, wanted === undefined ? 'found' : 'failed');
          assert.equal(check?.reason, report?.reason);
        });
  });

  it('two captures in one process know their own targets only', () => {
    const folder = writeApp({ 'a.cjs': 'exports.a = () => 1;', 'b.cjs': 'exports.b = () => 1;' });
    const first = start(folder, [target('./a.cjs#a')]);
    const second = start(folder, [target('./b.cjs#b')]);
    load(join(folder, 'a.cjs'));
    load(join(folder, 'b.cjs'));
    assert.deepEqual(
      [...first.report(), ...second.report()].map(({ id, state }) => [id, state]),
      [
        ['./a.cjs#a', 'patched'],
        ['./b.cjs#b', 'patched'],
      ],
    );
  });

  it('without targets nothing is hooked', () => {
    const { _compile: before } = load('node:module').prototype;
    start('/', []);
    assert.equal(load('node:module').prototype._compile, before);
  });
});

describe('capture: inspect', () => {
  it('reads a file once for all of its targets, one that is configured twice among them', () => {
    const names = Array.from({ length: 50 }, (_, index) => `act${index}`);
    const text = names.map((name) => `export function ${name}(order) {}`).join('\n');
    const folder = writeApp({ 'a.mjs': text });
    const read = sinon.spy(fs, 'readFileSync');
    syncBuiltinESMExports();
    try {
      const targets = [...names, 'act7', 'missing'].map((name) => target(`./a.mjs#${name}`));
      const reports = inspect(targets, { baseDir: folder });
      assert.deepEqual(
        reports.map(({ state }) => state),
        [...names, 'act7'].map(() => 'found').concat('failed'),
      );
      assert.equal(read.args.filter(([path]) => String(path).endsWith('a.mjs')).length, 1);
    } finally {
      read.restore();
      syncBuiltinESMExports();
    }
  });

  it('reports what would be patched and what would not, without loading anything', () => {
    const folder = writeApp({
      'a.ts':
        'export function create(order: string): void { throw new Error("loaded"); }\nthrow new Error("loaded");',
      'b.cjs': 'throw new Error("loaded");\nexports.create = () => 1;',
      'c.js': 'export const create = () => 1; await 1;',
      'd.mjs': 'export {',
    });
    const made: Made = { names: [] };
    const refused: CaptureTarget = {
      ...target('./a.ts#create'),
      id: 'refused',
      makePlan() {
        throw new SvcError('SVC_CAPTURE_EXPRESSION_SYNTAX', 'payload: position 3');
      },
    };
    const reports = inspect(
      [
        target('./a.ts#create', made),
        target('./b.cjs#create'),
        target('./c.js#create'),
        target('./a.ts#creat'),
        target('./d.mjs#create'),
        target('./e.ts#create'),
        target('./a.ts#a b'),
        target('not-installed-anywhere#x'),
        target('node:fs#readFileSync'),
        refused,
      ],
      { baseDir: folder },
    );
    assert.deepEqual(
      reports.map(({ state, reason }) =>
        state !== 'failed' ? state : reason?.replace(/cannot be parsed: .*/, 'cannot be parsed'),
      ),
      [
        'found',
        'found',
        'found',
        'no creat in this file (did you mean create?)',
        'cannot be parsed',
        'no such file: ./e.ts',
        '"a b" is not the path of a function, such as createOrder, default, OrderService.prototype.create, repo.save or createRepository().insert',
        `no package not-installed-anywhere is installed for ${folder}`,
        'pending',
        'payload: position 3',
      ],
    );
    assert.deepEqual(made.names, [['order']]);
  });
});
