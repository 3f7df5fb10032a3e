import assert from 'node:assert/strict';
import { captured, type Exports, fixture, type TextKind } from './run-text.ts';

/** What `fixtures/orders.ts` defines, and how to call it. */
const targets: Record<string, { drive: (m: Exports) => unknown; calls: number; names: readonly string[] }> = {
  'OrderService.prototype.create': {
    drive: (m) => new m.OrderService('p').create({ id: '1' }),
    calls: 1,
    names: ['order', 'note'],
  },
  'OrderService.prototype.total': {
    drive: (m) => new m.OrderService('p').create({ id: '1' }),
    calls: 1,
    names: ['base'],
  },
  'OrderService.prototype.quick': {
    drive: (m) => new m.OrderService('p').quick('1'),
    calls: 1,
    names: ['order'],
  },
  'OrderService.open': { drive: (m) => m.OrderService.open('p'), calls: 1, names: ['prefix'] },
  'OrderService.defaults': { drive: (m) => m.OrderService.defaults(2), calls: 1, names: ['size'] },
  placeOrder: { drive: (m) => [m.placeOrder('1'), m.default('2')], calls: 2, names: ['order'] },
  verifyOrder: { drive: (m) => [m.placeOrder('1'), m.verifyOrder('2')], calls: 2, names: ['order'] },
  cancelOrder: { drive: (m) => m.cancelOrder('1'), calls: 1, names: ['id'] },
  'repo.save': { drive: (m) => m.repo.save('1'), calls: 1, names: ['row'] },
  'repo.find': { drive: (m) => m.repo.find('1'), calls: 1, names: ['key'] },
  'createRepository().insert': { drive: (m) => m.orders.insert('1'), calls: 1, names: ['row'] },
  default: { drive: (m) => m.default('1'), calls: 1, names: ['input'] },
};

/** A minifier renames what is not exported, and inlines: `placeOrder` does not call `verifyOrder` any more. */
const minified = ['createRepository().insert', 'verifyOrder'];

const files: readonly { file: string; without?: readonly string[]; returned?: string }[] = [
  { file: 'tsc-cjs-es2022.cjs' },
  { file: 'tsc-cjs-es2017.cjs' },
  { file: 'tsc-cjs-define.cjs' },
  { file: 'tsc-cjs-es5.cjs' },
  { file: 'tsc-cjs-standard-decorators.cjs' },
  { file: 'tsc-esm-es2022.mjs' },
  { file: 'swc-cjs-es2022.cjs' },
  { file: 'swc-cjs-es2020.cjs' },
  { file: 'swc-cjs-es5.cjs' },
  { file: 'swc-esm-es2022.mjs' },
  { file: 'babel-cjs-node22.cjs' },
  { file: 'babel-cjs-es5.cjs' },
  { file: 'esbuild-cjs-as-tsx.cjs' },
  { file: 'esbuild-esm-es2021.mjs' },
  { file: 'esbuild-bundle.cjs' },
  { file: 'esbuild-bundle.mjs' },
  { file: 'esbuild-iife.cjs' },
  { file: 'esbuild-bundle-minified.cjs', without: minified },
  { file: 'rolldown-bundle.cjs' },
  { file: 'rolldown-bundle.mjs' },
  { file: 'rolldown-bundle-minified.mjs', without: minified },
];

const imports = new Map([['./ids.cjs', 'exports.nextId = () => 1;']]);

describe('capture: what compilers and bundlers make of a file', () => {
  for (const { file, without = [] } of files) {
    describe(file, () => {
      const kind: TextKind = file.endsWith('.mjs') ? 'esm' : 'cjs';
      const text = file === 'esbuild-iife.cjs' ? `${fixture(file)}\nmodule.exports = app;` : fixture(file);
      const ids = kind === 'esm' ? 'export const nextId = () => 1;' : 'exports.nextId = () => 1;';
      for (const [path, { drive, calls, names }] of Object.entries(targets)) {
        if (without.includes(path)) continue;
        it(path, async () => {
          const it = captured(text, path, kind, new Map([...imports, ['./ids', ids]]));
          assert.equal(it.problem, undefined);
          assert.equal(it.text.split('\n').length, text.split('\n').length, 'no line is added');
          const exports = await it.run();
          await Promise.all([await drive(exports)].flat());
          assert.equal(it.problem, undefined);
          assert.equal(it.calls.length, calls);
          // Minifiers rename parameters, and so does Babel where it makes generators of async functions.
          if (!/minified|babel-cjs-es5/.test(file)) assert.deepEqual(it.parameterNames, names);
        });
      }
    });
  }
});
