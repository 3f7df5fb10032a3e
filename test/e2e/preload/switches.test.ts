import assert from 'node:assert/strict';
import { delimiter, dirname } from 'node:path';
import { plainApp } from '../support/apps.ts';
import { type AppEnd, type AppOptions, endOf } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

const target = { module: './orders.cjs', function: 'order', eventType: 'ORDERED' };
const orders = `exports.order = (id) => ({ id });`;

/** Says which files of node_modules were loaded when the application runs, and how its function looks. */
const main = `
  const { order } = require('./orders.cjs');
  order(1);
  const loaded = Object.keys(require.cache).map((file) => file.replaceAll('\\\\', '/').split('/node_modules/').at(-1));
  console.log(JSON.stringify({ loaded: loaded.filter((file) => !file.includes('/runs/')), source: String(order) }));`;

let app: string;
before('npm install', function () {
  this.timeout(180_000);
  app = plainApp();
});

const seenBy = ({ code, stdout, stderr }: AppEnd): { loaded: string[]; source: string } => {
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
};

describe('svc switched off', function () {
  this.timeout(60_000);

  const off = async (files: AppOptions['files'], env: Record<string, string>): Promise<string[]> => {
    const run = await endOf({
      app,
      args: ['--require', 'svc/register', 'main.cjs'],
      env,
      files: { 'orders.cjs': orders, 'main.cjs': main, ...files },
    });
    const { loaded, source } = seenBy(run);
    assert.equal(run.stderr, '');
    assert.equal(source, '(id) => ({ id })');
    assert.deepEqual(run.topics, {});
    return loaded;
  };

  it('by the environment: patches nothing and loads nothing', async () => {
    const file = { 'svc.config.yaml': 'svc: { broker: { topic: events } }' };
    assert.deepEqual(await off(file, { SVC_ENABLED: 'false' }), [
      'svc/dist/register.cjs',
      'svc/dist/rolldown-runtime.cjs',
      'svc/dist/version.cjs',
    ]);
  });

  it('by its file, or by another spelling: patches nothing and loads only what reads the configuration', async () => {
    const file = { 'svc.config.json': configOf([target], { enabled: false }) };
    const both = [...(await off(file, {})), ...(await off({}, { SVC_ENABLED: 'FALSE' }))];
    assert.ok(
      both.every((each) => each.startsWith('svc/dist/')),
      both.join(),
    );
    for (const part of ['start', 'prepare']) assert.equal(both.includes(`svc/dist/${part}.cjs`), false, part);
  });

  for (const [port, count] of [
    ['-1', 0],
    ['0', 1],
  ] as const)
    it(`the management server alone: MANAGEMENT_SERVER_PORT=${port} starts ${count}, whatever the file says`, async () => {
      const config = { ...configOf([target]), management: { server: { port: 0, address: '127.0.0.1' } } };
      const main = "require('./orders.cjs').order(1); setTimeout(() => {}, 500);";
      const { code, topics, stderr } = await endOf({
        app,
        env: { MANAGEMENT_SERVER_PORT: port },
        files: { 'svc.config.json': config, 'orders.cjs': orders, 'main.cjs': main },
        args: ['--import', 'svc/register', 'main.cjs'],
      });
      assert.equal(code, 0, stderr);
      assert.equal(stderr.match(/management on http/g)?.length ?? 0, count, stderr);
      assert.doesNotMatch(stderr, /warn|error/);
      assert.equal(topics.events?.length, 1);
    });

  it('for capture only: publish() of the application still works', async () => {
    const run = await endOf({
      app,
      files: {
        'svc.config.json': configOf([target], { aop: { enabled: false } }),
        'orders.cjs': orders,
        'main.mjs': `
          import { publish } from 'svc';
          import { order } from './orders.cjs';
          order(1);
          console.log(JSON.stringify({ loaded: [], source: String(order), published: await publish({ id: 2 }) }));`,
      },
    });
    assert.equal(seenBy(run).source, '(id) => ({ id })');
    assert.deepEqual(
      run.topics.events?.map(({ value }) => value.payload),
      [{ id: 2 }],
    );
    assert.doesNotMatch(run.stderr, /capture/);
  });
});

describe('svc in NODE_OPTIONS', function () {
  this.timeout(60_000);

  it('is not in npm, which would take the port of the application', async () => {
    const { node } = await subject();
    const run = await endOf({
      app,
      node: 'npm',
      args: ['start', '--silent'],
      env: { NODE_OPTIONS: '--import svc/register', PATH: dirname(node) + delimiter + process.env.PATH },
      files: {
        'package.json': { name: 'orders', version: '1.2.3', scripts: { start: 'node main.cjs' } },
        'svc.config.json': configOf([target]),
        'orders.cjs': orders,
        'main.cjs': `require('./orders.cjs').order(1);`,
      },
    });
    assert.equal(run.code, 0, run.stderr);
    assert.equal(run.stderr.match(/publishing to files/g)?.length, 1, run.stderr);
    assert.doesNotMatch(run.stderr, /made no event/);
    assert.deepEqual(
      run.topics.events?.map(({ value }) => value.metadata.source.serviceVersion),
      ['1.2.3'],
    );
  });
});

describe('svc preloaded more than once', function () {
  this.timeout(60_000);

  for (const [title, args, env] of [
    ['--import twice', ['--import', 'svc/register', '--import', 'svc/register', 'main.cjs'], {}],
    [
      'NODE_OPTIONS and the flag',
      ['--import', 'svc/register', 'main.cjs'],
      { NODE_OPTIONS: '--import svc/register' },
    ],
    ['--require and --import', ['--require', 'svc/register', '--import', 'svc/register', 'main.cjs'], {}],
  ] as const) {
    it(`${title}: is there once`, async () => {
      const run = await endOf({
        app,
        args,
        env,
        files: {
          'svc.config.json': configOf([target]),
          'orders.cjs': orders,
          'main.cjs': `require('./orders.cjs').order(1);`,
        },
      });
      assert.equal(run.code, 0);
      assert.equal(run.topics.events?.length, 1);
      assert.equal(run.stderr.match(/publishing to files/g)?.length, 1, run.stderr);
    });
  }
});
