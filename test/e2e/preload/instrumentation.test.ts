import assert from 'node:assert/strict';
import { aloneApp, telemetryApp } from '../support/apps.ts';
import { otelEnvironment, type SdkSeen, sdkFiles } from '../support/otel-app.ts';
import { type AppEnd, type AppOptions, endOf } from '../support/start-app.ts';
import { isAtLeast, subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';

const target = { module: './orders.cjs', function: 'order', eventType: 'ORDERED' };
const orders = 'exports.order = async (id) => { await null; return { id }; };';
/** `code`: what the instrumentation is given. */
const sdk = (code: string): Readonly<Record<string, string>> =>
  sdkFiles('SvcInstrumentation', 'svc/instrumentation', `new SvcInstrumentation(${code})`);
const call = `
  const main = async () => {
    await order(1);
    console.log(JSON.stringify(await globalThis.sdkSeen()));
  };
  main();`;

const inCode = JSON.stringify(configOf([target]));
const register = ['--import', 'svc/register'];

/** The 3.x line has a function beside the class, which never hands its tracer provider over. */
const { otel, version } = await subject();
const startFunctions: [string, string[], AppOptions['files']][] =
  otel === 2
    ? []
    : [
        [
          'startNodeSdk',
          ['--import', './sdk.mjs', 'main.mjs'],
          {
            'sdk.mjs':
              sdk(inCode)
                ['sdk.mjs']?.replaceAll('NodeSDK', 'startNodeSdk')
                .replace(/new (startNodeSdk)/, '$1')
                .replace('sdk.start();', '') ?? '',
          },
        ],
      ];

const ways: readonly [title: string, args: readonly string[], files: AppOptions['files']][] = [
  [
    'an ES module preload, the target an ES module',
    ['--import', './sdk.mjs', 'modules.mjs'],
    {
      ...sdk(JSON.stringify(configOf([{ ...target, module: './orders.mjs' }]))),
      'orders.mjs': 'export const order = async (id) => ({ id });',
      'modules.mjs': `import { order } from './orders.mjs';${call}`,
    },
  ],
  ['an ES module preload', ['--import', './sdk.mjs', 'main.mjs'], sdk(inCode)],
  ['a CommonJS preload', ['--require', './sdk.cjs', 'main.cjs'], sdk(inCode)],
  ['the first line of a CommonJS application', ['late.cjs'], sdk(inCode)],
  [
    'svc/register before it',
    [...register, '--import', './sdk.mjs', 'main.mjs'],
    { ...sdk(''), 'svc.config.json': configOf([target]) },
  ],
  [
    'svc/register after it',
    ['--import', './sdk.mjs', ...register, 'main.mjs'],
    { ...sdk(''), 'svc.config.json': configOf([target]) },
  ],
  ...startFunctions,
];

describe('SvcInstrumentation', function () {
  this.timeout(180_000);
  let app: string;
  const run = (args: readonly string[], files: AppOptions['files'], env = {}): Promise<AppEnd> =>
    endOf({
      app,
      args,
      env: { ...otelEnvironment, ...env },
      files: {
        'orders.cjs': orders,
        'main.mjs': `import { order } from './orders.cjs';${call}`,
        'main.cjs': `const { order } = require('./orders.cjs');${call}`,
        'late.cjs': `require('./sdk.cjs'); const { order } = require('./orders.cjs');${call}`,
        ...files,
      },
    });

  before('npm install', async () => {
    app = await telemetryApp();
  });

  for (const [title, args, files] of ways) {
    it(`publishes once, with a span and instruments of the SDK: ${title}`, async () => {
      const end = await run(args, files);
      const { spans, metrics } = seenBy(end);
      const [event, ...more] = end.topics.events ?? [];
      assert.deepEqual([event?.value.payload, more], [{ id: 1 }, []], end.stderr);
      const own = spans.filter(({ scope }) => scope === 'svc');
      assert.deepEqual(
        own.map(({ name, kind, spanId }) => [name, kind, spanId]),
        [['send events', 3, event?.value.metadata.trace.spanId]],
      );
      assert.deepEqual(metrics['svc.events.published'], [{ attributes: { eventType: 'ORDERED' }, value: 1 }]);
      assert.doesNotMatch(end.stderr, /warn:|error:/);
    });
  }

  it('says what it joins in vain where svc/register came first, and publishes once', async () => {
    const end = await run([...register, '--import', './sdk.mjs', 'main.mjs'], {
      ...sdk(JSON.stringify(configOf([target], { broker: { topic: 'others' } }))),
      'svc.config.json': configOf([target]),
    });
    seenBy(end);
    assert.deepEqual(
      Object.entries(end.topics).map(([topic, { length }]) => [topic, length]),
      [['events', 1]],
    );
    assert.match(
      end.stderr,
      /warn: SvcInstrumentation joins the svc that svc\/register started, and ignores its own svc\.broker\.topic, svc\.targets\. Put these settings into svc\.config\.\*/,
    );
  });

  it('takes file and environment in, under what it is given', async () => {
    const end = await run(
      ['--import', './sdk.mjs', 'main.mjs'],
      {
        ...sdk(JSON.stringify({ svc: { broker: { topic: 'from-code' } } })),
        'svc.config.json': configOf([target]),
      },
      { SVC_BROKER_TOPIC: 'from-env', SVC_SERVICE_NAME: 'from-env' },
    );
    seenBy(end);
    assert.deepEqual(Object.keys(end.topics), ['from-code']);
    assert.equal(end.topics['from-code']?.[0]?.value.metadata.source.serviceName, 'from-env');
  });

  it('names what was loaded before it, and the way out', async () => {
    const end = await run(['late.mjs'], {
      ...sdk(JSON.stringify(configOf([{ ...target, module: './orders.mjs' }]))),
      'orders.mjs': 'export const order = async (id) => ({ id });',
      'late.mjs': `import './sdk.mjs'; import { order } from './orders.mjs';${call}`,
    });
    seenBy(end);
    assert.deepEqual(end.topics, {});
    assert.match(
      end.stderr,
      /orders\.mjs#order .*was loaded before svc, or never\. .*start with node --import svc\/register/,
    );
  });

  it('has an instance in each worker thread, whose disable() is its own', async () => {
    const end = await run(['--import', './sdk.mjs', 'threads.mjs'], {
      ...sdk(inCode),
      'threads.mjs': `
        import { isMainThread, Worker } from 'node:worker_threads';
        import { order } from './orders.cjs';
        await order(isMainThread ? 'main' : 'thread');
        if (isMainThread) {
          globalThis.sdkInstrumentation.disable();
          await new Promise((done) => new Worker(new URL(import.meta.url)).once('exit', done));
          await order('switched off');
        } else console.log(JSON.stringify(await globalThis.sdkSeen()));`,
    });
    const { spans, metrics } = seenBy(end);
    assert.deepEqual(
      end.topics.events?.map(({ value }) => value.payload.id),
      ['main', 'thread'],
    );
    assert.equal(spans.filter(({ scope }) => scope === 'svc').length, 1);
    assert.deepEqual(metrics['svc.events.published'], [{ attributes: { eventType: 'ORDERED' }, value: 1 }]);
  });

  it('speaks to the log of OpenTelemetry too, at its level', async () => {
    const files = {
      ...sdk(inCode),
      'twice.mjs': `import './sdk.mjs'; globalThis.sdkInstrumentation.enable(); globalThis.sdkInstrumentation.disable();`,
    };
    const [loud, quiet] = await Promise.all([
      run(['twice.mjs'], files, { OTEL_LOG_LEVEL: 'debug' }),
      run(['twice.mjs'], files),
    ]);
    assert.match(loud.stdout + loud.stderr, /svc enable\(\) was called, but svc already runs/);
    assert.match(loud.stdout + loud.stderr, /svc disabled/);
    assert.doesNotMatch(quiet.stdout + quiet.stderr, /svc disabled/);
  });

  it('is switched off by OTEL_NODE_DISABLED_INSTRUMENTATIONS, whoever starts it', async () => {
    for (const args of [
      ['--import', './sdk.mjs', 'main.mjs'],
      [...register, '--import', './sdk.mjs', 'main.mjs'],
    ]) {
      const end = await run(
        args,
        { ...sdk(''), 'svc.config.json': configOf([target]) },
        { OTEL_NODE_DISABLED_INSTRUMENTATIONS: 'http, svc' },
      );
      assert.deepEqual([seenBy(end).spans, end.topics], [[], {}]);
      assert.match(end.stderr, /not started, because OTEL_NODE_DISABLED_INSTRUMENTATIONS names svc/);
    }
  });

  it('publishes without spans where OTEL_SDK_DISABLED leaves the SDK out', async () => {
    const end = await run(
      ['--import', './sdk.mjs', 'plain.mjs'],
      { ...sdk(inCode), 'plain.mjs': `import { order } from './orders.cjs'; await order(1);` },
      { OTEL_SDK_DISABLED: 'true' },
    );
    assert.equal(end.code, 0, end.stderr);
    assert.deepEqual(
      end.topics.events?.map(({ value }) => value.payload),
      [{ id: 1 }],
    );
  });

  it('waits at the end of the process for events under way, also after disable()', async () => {
    const end = await run(['busy.cjs'], {
      ...sdk(JSON.stringify(configOf([target], { broker: { asyncMode: true } }))),
      'busy.cjs': `
        require('./sdk.cjs');
        const { order } = require('./orders.cjs');
        for (let id = 0; id < 500; id++) order(id);
        setImmediate(() => globalThis.sdkInstrumentation.disable());`,
    });
    assert.equal(end.code, 0, end.stderr);
    assert.equal(new Set(end.topics.events?.map(({ value }) => value.payload.id)).size, 500);
    assert.equal(end.topics.events?.length, 500);
  });
});

describe('SvcInstrumentation and the outbox', function () {
  this.timeout(180_000);

  // Of an older Node svc cannot follow the transactions of node:sqlite.
  if (isAtLeast(version, '22.16.0'))
    it('goes on in transactions after disable() and enable(), although a driver is patched once', async () => {
      const outbox = { aggregateType: 'Order', aggregateId: '#id' };
      const config = configOf([{ ...target, outbox }], {
        outbox: { enabled: true, datasource: { url: 'sqlite:shop.db' }, publisherEnabled: false },
      });
      const end = await endOf({
        app: await telemetryApp(),
        args: ['main.cjs'],
        files: {
          'orders.cjs': orders,
          'main.cjs': `
            const { SvcInstrumentation } = require('svc/instrumentation');
            const instrumentation = new SvcInstrumentation(${JSON.stringify(config)});
            const { DatabaseSync } = require('node:sqlite');
            const { setTimeout: sleep } = require('node:timers/promises');
            const { outbox } = require('svc');
            const { order } = require('./orders.cjs');
            const shop = new DatabaseSync('shop.db');
            const buy = async (id, end) => {
              shop.exec('BEGIN');
              await order(id);
              shop.exec(end);
            };
            async function main() {
              await buy(1, 'COMMIT');
              instrumentation.disable();
              await sleep(1000);
              await buy(2, 'COMMIT');
              instrumentation.enable();
              await buy(3, 'COMMIT');
              await buy(4, 'ROLLBACK');
              shop.exec('BEGIN');
              await outbox.save(shop, { aggregateType: 'Order', aggregateId: '5', eventType: 'ORDERED', payload: {} });
              shop.exec('COMMIT');
              console.log(JSON.stringify(shop.prepare('SELECT aggregate_id FROM svc_outbox_events ORDER BY aggregate_id').all()));
            }
            main();`,
        },
      });
      assert.equal(end.code, 0, end.stderr);
      assert.match(end.stderr, /ended after disable\(\)/);
      assert.deepEqual(
        JSON.parse(end.stdout).map(({ aggregate_id: id }: { aggregate_id: string }) => id),
        ['1', '3', '5'],
      );
    });
});

describe('SvcInstrumentation without @opentelemetry/instrumentation', function () {
  this.timeout(180_000);
  const files = {
    'main.mjs': `
      import { SvcInstrumentation } from 'svc/instrumentation';
      const instrumentation = new SvcInstrumentation(${inCode});
      instrumentation.setTracerProvider({});
      instrumentation.setMeterProvider({});
      instrumentation.disable();
      console.log(instrumentation.getConfig().enabled, instrumentation.instrumentationName);`,
  };
  const told =
    /error: SvcInstrumentation does nothing, because @opentelemetry\/instrumentation cannot be loaded: npm install @opentelemetry\/instrumentation, .*SVC_PRELOAD_INSTRUMENTATION/;

  it('says what is missing, and the application runs', async () => {
    const end = await endOf({ app: aloneApp(), args: ['main.mjs'], files });
    assert.equal(end.code, 0, end.stderr);
    assert.equal(end.stdout, 'true svc\n');
    assert.match(end.stderr, told);
    assert.equal(end.stderr.trim().split('\n').length, 1, end.stderr);
  });

  it('ends the process where svc is required', async () => {
    const end = await endOf({ app: aloneApp(), args: ['main.mjs'], files, env: { SVC_REQUIRED: 'true' } });
    assert.equal(end.code, 78, end.stderr);
    assert.match(end.stderr, /[Tt]he process does not start, because svc\.required is true/);
  });
});

function seenBy(end: AppEnd): SdkSeen {
  assert.equal(end.code, 0, end.stderr);
  assert.doesNotMatch(end.stderr, /duplicate|already registered|Error/i);
  return JSON.parse(end.stdout) as SdkSeen;
}
