import assert from 'node:assert/strict';
import { plainApp } from '../support/apps.ts';
import { type AppEnd, endOf } from '../support/start-app.ts';
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

  for (const [title, file, env] of [
    ['by the environment', { 'svc.config.yaml': 'svc: { broker: { topic: events } }' }, { SVC_ENABLED: 'false' }],
    ['by its file', { 'svc.config.json': configOf([target], { enabled: false }) }, {}],
  ] as const) {
    it(`${title}: says nothing, patches nothing and loads nothing but what reads the configuration`, async () => {
      const run = await endOf({
        app,
        args: ['--require', 'svc/register', 'main.cjs'],
        env,
        files: { ...file, 'orders.cjs': orders, 'main.cjs': main },
      });
      const { loaded, source } = seenBy(run);
      assert.equal(run.stderr, '');
      assert.equal(source, '(id) => ({ id })');
      assert.deepEqual(run.topics, {});
      for (const name of ['svc/dist/start.cjs', 'oxc-parser', 'js-yaml', 'kafkajs', '@opentelemetry', 'in-the-middle']) {
        assert.deepEqual(
          loaded.filter((each) => each.includes(name)),
          [],
        );
      }
      assert.ok(loaded.every((each) => each.startsWith('svc/dist/')), loaded.join());
    });
  }

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

describe('svc preloaded more than once', function () {
  this.timeout(60_000);

  for (const [title, args, env] of [
    ['--import twice', ['--import', 'svc/register', '--import', 'svc/register', 'main.cjs'], {}],
    ['NODE_OPTIONS and the flag', ['--import', 'svc/register', 'main.cjs'], { NODE_OPTIONS: '--import svc/register' }],
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

describe('targets that svc itself calls', function () {
  this.timeout(60_000);

  it('are captured when the application calls them, and never for the work of svc', async () => {
    const run = await endOf({
      app,
      env: { KAFKA_BROKERS: '127.0.0.1:1', SVC_BROKER_CLIENT: 'file' },
      files: {
        'svc.config.json': configOf([
          { module: 'kafkajs', function: 'Kafka.prototype.producer', eventType: 'PRODUCER', payload: "{ made: true }" },
          { module: './clock.mjs', function: 'Clock.prototype.toJSON', eventType: 'TO_JSON' },
          { module: './main.mjs', function: 'order', eventType: 'ORDERED' },
        ]),
        'clock.mjs': `export class Clock { toJSON() { return 'noon'; } }`,
        'main.mjs': `
          import kafkajs from 'kafkajs';
          import { Clock } from './clock.mjs';
          async function order(id) { return { id, at: new Clock() }; }
          await order(1);
          JSON.stringify(new Clock());
          new kafkajs.Kafka({ brokers: ['127.0.0.1:1'], logLevel: 0 }).producer({ createPartitioner: kafkajs.Partitioners.DefaultPartitioner });
        `,
      },
    });
    assert.equal(run.code, 0, run.stderr);
    assert.deepEqual(
      run.topics.events?.map(({ value }) => [value.eventType, value.payload]),
      [
        ['ORDERED', { id: 1, at: 'noon' }],
        ['TO_JSON', { value: 'noon' }],
        ['PRODUCER', { made: true }],
      ],
    );
  });

  it('do not recurse when svc sends through them', async () => {
    const run = await endOf({
      app,
      env: { KAFKA_BROKERS: '127.0.0.1:1' },
      files: {
        'svc.config.json': configOf([
          { module: 'kafkajs', function: 'Kafka.prototype.producer', eventType: 'PRODUCER', payload: '{ made: true }' },
          { module: 'kafkajs', function: 'Kafka.prototype.admin', eventType: 'ADMIN', payload: '{ made: true }' },
          { module: './main.mjs', function: 'order', eventType: 'ORDERED' },
        ], { broker: { backup: { localEnabled: false } } }),
        'main.mjs': `
          import { onEventLost } from 'svc';
          const lost = [];
          onEventLost(({ eventType }) => lost.push(eventType));
          async function order(id) { return { id }; }
          await order(1);
          console.log(lost.join());`,
      },
    });
    assert.equal(run.code, 0, run.stderr);
    assert.equal(run.stdout, 'ORDERED\n');
  });
});
