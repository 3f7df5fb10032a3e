import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { inPlaceOf } from '../../../src/capture/report.ts';
import { version } from '../../../src/ground/version.ts';
import { plainApp } from '../support/apps.ts';
import { type AppEnd, type AppOptions, endOf } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
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

describe('what the source does not show', function () {
  this.timeout(60_000);

  it('two events for one call are told by the process: once, in its log, in health and in the report', async () => {
    const end = await endOf({
      app,
      files: {
        'svc.config.json': {
          ...configOf(
            [
              {
                module: './service.mjs',
                function: 'createOrder',
                eventType: 'ORDER_CREATED',
                key: '#result.id',
              },
              { module: './table.mjs', function: 'insert', eventType: 'ORDER_INSERTED', key: '#result.id' },
            ],
            { broker: { client: 'file', file: { path: './svc-topics' } } },
          ),
        },
        'table.mjs': 'export async function insert(order) { return { id: order }; }',
        'service.mjs': `
          import * as table from './table.mjs';
          export async function createOrder(order) {
            await null;
            return await table['in' + 'sert'](order);
          }`,
        'main.mjs': `
          import { createOrder } from './service.mjs';
          for (const order of ['a', 'b', 'c']) await createOrder(order);
          console.log('created');
          setTimeout(() => {}, 1_500);`,
      },
    });
    const pair =
      'service.mjs#createOrder called table.mjs#insert: one call made two events, ORDER_CREATED and ORDER_INSERTED, with the same key';
    const lines = end.stderr.split('\n');
    assert.deepEqual(
      lines.filter((line) => line.includes('two events, ')),
      [
        `svc: warn: capture: ${pair}. Keep one of them, usually the target in the service, unless you want both events`,
      ],
    );
    const noted = lines.filter((line) =>
      /^ +patched +service\.mjs#createOrder +one call made two events/.test(line),
    );
    assert.equal(noted.length, 1, end.stderr);
    assert.equal(end.topics.events?.length, 6);
  });
});

describe('svc check', function () {
  this.timeout(60_000);

  it('0: every target can be patched', async () => {
    const end = await svc(['check'], { 'svc.config.json': configOf(good), 'orders.mjs': orders });
    assert.equal(end.code, 0, end.stdout + end.stderr);
    assert.equal(end.stderr, '');
    assert.match(end.stdout, /^capture: 3 of 3 targets found$/m);
  });

  it('1: says what is wrong with each that cannot', async () => {
    const files = {
      'svc.config.json': configOf([...good, ...bad.map(([module, path]) => ({ module, function: path }))]),
      'orders.mjs': orders,
      'broken.mjs': 'export function createOrder( {',
    };
    const end = await svc(['check'], files);
    assert.equal(end.code, 1);
    assert.match(end.stdout, /^capture: 3 of 10 targets found, 7 failed$/m);
    const json = await svc(['check', '--json'], files);
    assert.equal(json.code, 1);
    const { ok, targets } = JSON.parse(json.stdout) as {
      ok: boolean;
      targets: { id: string; state: string; reason?: string }[];
    };
    assert.equal(ok, false);
    assert.deepEqual(
      targets.map(({ state }) => state),
      ['found', 'found', 'found', ...bad.map(() => 'failed')],
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
    assert.deepEqual([none.code, none.stdout], [1, 'next: npx --no svc init\n']);
    assert.match(
      none.stderr,
      /^svc: no configuration: .*SvcInstrumentation .*Export them from svc\.config\.ts with defineConfig.*--config\n$/,
    );
    const inCode = await svc(['check', '--config', 'settings.mjs'], {
      'settings.mjs': `import { defineConfig } from 'svc';\nexport default defineConfig(${JSON.stringify(configOf(good))});`,
      'orders.mjs': orders,
    });
    assert.equal(inCode.code, 0, inCode.stdout + inCode.stderr);
    const named = await svc(['check', '--config', 'other.json'], {
      'other.json': configOf(good),
      'orders.mjs': orders,
    });
    assert.equal(named.code, 0, named.stdout + named.stderr);
  });
});

describe('svc check, with rules for personal data in code', function () {
  this.timeout(60_000);
  const marks = (options: string) => `
    import { PiiField } from 'svc';
    export class Customer { @PiiField(${options}) email = ''; }`;
  const checked = (options: string, key = '') =>
    endOf({
      app,
      args: [join(app, 'node_modules/.bin/svc'), 'check'],
      files: { 'svc.config.json': configOf(good), 'orders.mjs': orders, 'customer.ts': marks(options) },
      env: { PII_ENCRYPTION_KEY: key },
    });

  it('1: a class mark that encrypts, and no key', async () => {
    const end = await checked(`{ strategy: 'ENCRYPT' }`);
    assert.equal(end.code, 1, end.stdout);
    assert.match(
      end.stdout,
      /^error: svc\.pii\.crypto\.default-key: PII encryption key is not configured.*customer\.ts:3/m,
    );
    const other = await checked(`{ strategy: 'ENCRYPT', keyId: 'eu' }`, randomBytes(32).toString('base64'));
    assert.equal(other.code, 1, other.stdout);
    assert.match(other.stdout, /^error: svc\.pii\.crypto\.keys: has no key with the id "eu"/m);
  });

  it('0: with a key, and where it masks', async () => {
    const ends = [
      await checked(`{ strategy: 'ENCRYPT' }`, randomBytes(32).toString('base64')),
      await checked(`{ strategy: 'MASK' }`),
    ];
    for (const { code, stdout } of ends) assert.equal(code, 0, stdout);
  });
});

/** TypeScript is named, what tsc made of it runs. */
const compiled = {
  'svc.config.json': configOf([
    { module: './src/orders.ts', function: 'createOrder' },
    { module: './src/plugin.ts', function: 'load' },
  ]),
  'src/orders.ts': 'export function createOrder(id: number) { return { id }; }',
  'src/plugin.ts': 'export function load() {}',
  'src/main.mts': "import './orders.ts';\nimport './plugin.ts';",
  'dist/orders.js': 'exports.createOrder = function createOrder(id) { return { id }; };',
  'dist/main.js':
    "const name = './plugin.js';\nrequire('./orders.js').createOrder(1);\nimport(name).catch(() => {});",
};

describe('svc check, with the start of the application', function () {
  this.timeout(60_000);
  const manifest = (start: string) => ({ 'package.json': JSON.stringify({ scripts: { start } }) });

  it('1: says which targets it does not load, and what to write', async () => {
    const end = await svc(['check', '--', 'node', '--import', 'svc/register', 'dist/main.js'], compiled);
    assert.deepEqual([end.code, end.stderr], [1, '']);
    assert.match(end.stdout, /^capture: 2 of 2 targets found$/m);
    assert.ok(
      end.stdout.endsWith(
        [
          'start: node --import svc/register dist/main.js loads 0 of 2 targets in files, by its imports',
          `  UNLOADED  src/orders.ts#createOrder  ${inPlaceOf('./dist/orders.js')}`,
          '  pending   src/plugin.ts#load',
          '  not followed: the name at dist/main.js:3 is known only at runtime',
          'next: do what the UNLOADED lines say, build, then run npx --no svc check again\n',
        ].join('\n'),
      ),
      end.stdout,
    );
  });

  it('0: all of them are loaded', async () => {
    const end = await svc(['check', '--', 'node', 'src/main.mts'], compiled);
    assert.deepEqual([end.code, end.stderr], [0, ''], end.stdout);
    assert.match(end.stdout, /^start: node src\/main\.mts loads 2 of 2 targets in files, by its imports$/m);
  });

  it('without one it reads scripts.start', async () => {
    const start = 'NODE_ENV=production node --enable-source-maps -r ./dist/main.js ./dist/orders';
    const { code, stdout } = await svc(['check', '--json'], { ...compiled, ...manifest(start) });
    const found = JSON.parse(stdout) as { ok: boolean; start: { command: string; targets: object[] } };
    assert.deepEqual([code, found.ok, found.start.command], [1, false, start]);
    assert.deepEqual(found.start.targets, [
      {
        id: 'src/orders.ts#createOrder',
        state: 'unloaded',
        reason: inPlaceOf('./dist/orders.js'),
      },
      { id: 'src/plugin.ts#load', state: 'pending' },
    ]);
  });

  it('0: Next.js before its build, of which nothing can be told', async () => {
    const end = await svc(['check'], { ...compiled, ...manifest('next start -p 80') });
    assert.equal(end.code, 0, end.stdout);
    assert.match(
      end.stdout,
      /pending +src\/orders\.ts#createOrder +Next\.js bundles it: run this again after next build/,
    );
  });

  it('0: a script that is something else is not looked at; 2: nor is one on the command line', async () => {
    const end = await svc(['check'], { ...compiled, ...manifest('npm run build && node dist/main.js') });
    assert.equal(end.code, 0, end.stdout);
    assert.match(
      end.stdout,
      /^start: npm run build && node dist\/main\.js: not a start of Node .*svc check -- node/m,
    );
    for (const command of [['npm', 'start'], ['node', 'gone.js'], ['node']]) {
      const wrong = await svc(['check', '--', ...command], compiled);
      assert.deepEqual([wrong.code, wrong.stdout], [2, '']);
      assert.match(wrong.stderr, /^svc: after --, give a start of Node with an existing file/);
    }
  });

  it('never loaded is a warning at the end of a process, with what to write', async () => {
    const end = await endOf({ app, args: ['--import', 'svc/register', 'dist/main.js'], files: compiled });
    assert.equal(end.code, 0, end.stderr);
    assert.match(
      end.stderr,
      /^svc: warn: capture: 2 of 2 targets made no event: no module of theirs was loaded\n {2}UNLOADED {2}src\/orders\.ts#createOrder {2}\.\/dist\/orders\.js is loaded in its place: write source maps in the build .*, or write module: \.\/dist\/orders\.js\n {2}UNLOADED {2}src\/plugin\.ts#load +its file was never loaded: /m,
    );
  });

  it('a worker thread loads what it needs, and warns of nothing', async () => {
    const files = {
      'svc.config.json': configOf([{ module: './orders.cjs', function: 'createOrder' }]),
      'orders.cjs': 'exports.createOrder = function createOrder() {};',
      'worker.cjs': '',
      'main.cjs':
        "require('./orders.cjs');\nnew (require('node:worker_threads').Worker)(require.resolve('./worker.cjs'));",
    };
    const end = await endOf({ app, args: ['--import', 'svc/register', 'main.cjs'], files });
    assert.equal(end.code, 0, end.stderr);
    assert.doesNotMatch(end.stderr, /UNLOADED/);
  });

  it('where events stay in memory, as in tests, it is no warning', async () => {
    const env = { SVC_BROKER_CLIENT: 'memory' };
    const end = await endOf({
      app,
      args: ['--import', 'svc/register', 'dist/main.js'],
      files: compiled,
      env,
    });
    assert.match(end.stderr, /^svc: capture: 2 of 2 targets made no event: no module of theirs was loaded$/m);
  });

  it('the module that was loaded in its place may be an ES module', async () => {
    const files = {
      ...compiled,
      'dist/orders.js': 'export function createOrder() {}',
      'dist/main.js': "import './orders.js';",
      'dist/package.json': { type: 'module' },
    };
    const end = await endOf({ app, args: ['--import', 'svc/register', 'dist/main.js'], files });
    assert.equal(end.code, 0, end.stderr);
    // Elsewhere another thread loads them, and does not tell.
    const named = (await subject()).hasSoundSyncHooks
      ? / {2}\.\/dist\/orders\.js is loaded in its place/
      : / +its file was never loaded/;
    assert.match(end.stderr, new RegExp(`UNLOADED {2}src/orders\\.ts#createOrder${named.source}`, 'm'));
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
    assert.match(help.stdout, /^Usage: npx --no svc <command> \[--help\], or help, or version$/m);
    assert.match(short.stdout, /^Usage: npx --no svc check \[options\] \[-- node <file>\]\n/);
    assert.equal(none.stdout, help.stdout);
    assert.equal(versions.stdout, `${version}\n`);
  });

  it('2: an unknown command, an unknown option', async () => {
    const [command, option] = await Promise.all([svc(['chekc']), svc(['check', '--jsn'])]);
    assert.deepEqual([command.code, option.code], [2, 2]);
    assert.match(
      command.stderr,
      /^svc: unknown command 'chekc' \(Did you mean check\?\); see npx --no svc help\n$/,
    );
    assert.match(
      option.stderr,
      /^svc: unknown option '--jsn' \(Did you mean --json\?\); see npx --no svc check --help\n$/,
    );
    assert.equal(command.stdout + option.stdout, '');
  });
});
