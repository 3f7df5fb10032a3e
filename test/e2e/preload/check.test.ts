import assert from 'node:assert/strict';
import { join } from 'node:path';
import { version } from '../../../src/ground/version.ts';
import { plainApp } from '../support/apps.ts';
import { type AppEnd, type AppOptions, endOf } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

let app: string;
before('npm install', function () {
  this.timeout(180_000);
  app = plainApp();
});

/** The command of the installed package. */
const svc = (args: readonly string[], files: AppOptions['files'] = {}): Promise<AppEnd> =>
  endOf({ app, args: [join(app, 'node_modules/.bin/svc'), ...args], files });

const orders = `
  export async function createOrder(id) { return { id }; }
  export const limit = 5;
  export class OrderService { cancel() {} }
  function twice() { { function inner() {} } }
  function again() { { function inner() {} } }
`;
const good = [
  { module: './orders.mjs', function: 'createOrder' },
  { module: './orders.mjs', function: 'OrderService.prototype.cancel' },
  { module: 'signal-exit', function: 'onExit' },
];
const bad: readonly [module: string, path: string, reason: RegExp][] = [
  ['./gone.mjs', 'createOrder', /no such file: \.\/gone\.mjs/],
  ['./orders.mjs', 'creatOrder', /did you mean createOrder\?/],
  ['./orders.mjs', 'OrderService.prototype.cancle', /did you mean .*cancel\?/],
  ['./orders.mjs', 'inner', /(lines|:)\s*5\b.*\b6\b/],
  ['./orders.mjs', 'limit', /not a function/],
  ['./broken.mjs', 'createOrder', /cannot be parsed/],
  ['no-such-package', 'pay', /no-such-package/],
];

describe('svc check', function () {
  this.timeout(60_000);

  it('0: every target can be patched', async () => {
    const end = await svc(['check'], { 'svc.config.json': configOf(good), 'orders.mjs': orders });
    assert.equal(end.code, 0, end.stdout + end.stderr);
    assert.equal(end.stderr, '');
    assert.match(end.stdout, /^capture: 2 of 3 targets patched, 1 not yet loaded$/m);
  });

  it('1: says what is wrong with each that cannot', async () => {
    const files = {
      'svc.config.json': configOf([...good, ...bad.map(([module, path]) => ({ module, function: path }))]),
      'orders.mjs': orders,
      'broken.mjs': 'export function createOrder( {',
    };
    const end = await svc(['check'], files);
    assert.equal(end.code, 1);
    assert.match(end.stdout, /^capture: 2 of 10 targets patched, 1 not yet loaded, 7 failed$/m);
    const json = await svc(['check', '--json'], files);
    assert.equal(json.code, 1);
    const { ok, targets } = JSON.parse(json.stdout) as {
      ok: boolean;
      targets: { id: string; state: string; reason?: string }[];
    };
    assert.equal(ok, false);
    assert.deepEqual(
      targets.map(({ state }) => state),
      ['patched', 'patched', 'pending', ...bad.map(() => 'failed')],
    );
    for (const [index, [module, path, reason]] of bad.entries()) {
      assert.match(targets[good.length + index]?.reason ?? '', reason, `${module}#${path}`);
    }
    // The text names each as well.
    for (const { reason = '' } of targets)
      assert.ok(end.stdout.includes(reason.split(' for /')[0] ?? ''), reason);
  });

  it('1: a wrong configuration, or none; --config names one', async () => {
    const wrong = await svc(['check'], {
      'svc.config.json': { svc: { targets: good } },
      'orders.mjs': orders,
    });
    assert.deepEqual([wrong.code, wrong.stderr], [1, '']);
    assert.match(wrong.stdout, /^error: svc\.broker\.topic: Kafka topic is required/m);
    const none = await svc(['check']);
    assert.deepEqual([none.code, none.stdout], [1, '']);
    assert.match(none.stderr, /^svc: no configuration: /);
    const named = await svc(['check', '--config', 'other.json'], {
      'other.json': configOf(good),
      'orders.mjs': orders,
    });
    assert.equal(named.code, 0, named.stdout + named.stderr);
  });
});

describe('the command svc', function () {
  this.timeout(60_000);

  it('--help and --version, and help without a command', async () => {
    const [help, short, none, versions] = await Promise.all([
      svc(['--help']),
      svc(['check', '-h']),
      svc([]),
      svc(['-v']),
    ]);
    assert.deepEqual([help.code, short.code, none.code, versions.code], [0, 0, 0, 0]);
    assert.match(help.stdout, /^Usage: npx --no svc <command>/m);
    assert.match(short.stdout, /^svc check: .*\n\nUsage: npx --no svc check \[options\]/);
    assert.equal(none.stdout, help.stdout);
    assert.equal(versions.stdout, `${version}\n`);
  });

  it('2: an unknown command, an unknown option', async () => {
    const [command, option] = await Promise.all([svc(['chekc']), svc(['check', '--jsn'])]);
    assert.deepEqual([command.code, option.code], [2, 2]);
    assert.match(command.stderr, /^svc: unknown command "chekc"; see npx --no svc --help\n$/);
    assert.match(option.stderr, /^svc: .*'--jsn'.*; see npx --no svc check --help\n$/s);
    assert.equal(command.stdout + option.stdout, '');
  });
});
