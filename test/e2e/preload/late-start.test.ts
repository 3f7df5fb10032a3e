import assert from 'node:assert/strict';
import { plainApp } from '../support/apps.ts';
import { endOf } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { type CaseTarget, configOf } from '../support/topic-config.ts';

const orders = { module: './orders.mjs', function: 'order' };
const late = { module: './late.mjs', function: 'order' };
const common = { module: './orders.cjs', function: 'order' };

const files = (entry: string, text: string, targets: CaseTarget[]) => ({
  'svc.config.json': configOf(targets),
  'orders.mjs': 'export function order(id) { return { id }; }\n',
  'late.mjs': 'export function order(id) { return { id }; }\n',
  'orders.cjs': 'exports.order = function order(id) { return { id }; };\n',
  'preload.mjs': "import 'svc/register';\n",
  'other.mjs': '',
  [entry]: text,
});

describe('svc started by the code of the application', function () {
  this.timeout(180_000);

  for (const args of [['main.mjs'], ['--import', './other.mjs', 'main.mjs']]) {
    it(`says what was loaded before it, and the flag that helps: node ${args.join(' ')}`, async () => {
      const text = "import 'svc/register';\nimport { order } from './orders.mjs';\norder(1);\n";
      const { code, stderr } = await endOf({
        app: plainApp(),
        args,
        files: files('main.mjs', text, [orders]),
      });
      assert.equal(code, 0, stderr);
      // Elsewhere svc sees no module itself, and another preload might have been the one that started it.
      const isTold = args.length === 1 || (await subject()).hasSoundSyncHooks;
      if (!isTold) return assert.match(stderr, /UNLOADED +orders\.mjs#order/);
      assert.match(
        stderr,
        /UNLOADED +orders\.mjs#order +was loaded before svc, or never\. .*node --import svc\/register/,
      );
    });
  }

  it('captures what is imported later all the same', async () => {
    const text = "import 'svc/register';\nconst { order } = await import('./late.mjs');\norder(1);\n";
    const { topics, stderr } = await endOf({
      app: plainApp(),
      args: ['main.mjs'],
      files: files('main.mjs', text, [late]),
    });
    assert.equal(Object.values(topics).flat().length, 1, stderr);
    assert.doesNotMatch(stderr, /was loaded before/);
  });

  it('names a CommonJS module that was loaded before, and captures one that comes after', async () => {
    const text =
      "const { order } = require('./orders.cjs');\nrequire('svc/register');\norder(1);\nrequire('./late.mjs').order(2);\n";
    const { topics, stderr } = await endOf({
      app: plainApp(),
      args: ['main.cjs'],
      files: files('main.cjs', text, [common, late]),
    });
    assert.match(
      stderr,
      /target orders\.cjs#order is not captured: was loaded before svc started: start with node --import svc\/register/,
    );
    assert.equal(Object.values(topics).flat().length, 1, stderr);
  });

  for (const args of [
    ['--import', 'svc/register', 'main.mjs'],
    ['--import', './preload.mjs', '.'],
  ]) {
    it(`is not said where it came first: node ${args.join(' ')}`, async () => {
      const { stderr } = await endOf({
        app: plainApp(),
        args,
        files: { ...files('main.mjs', '', [orders]), 'package.json': { main: 'main.mjs' } },
      });
      assert.match(stderr, /UNLOADED +orders\.mjs#order +its file was never loaded/);
    });
  }
});
