import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { aloneApp, plainApp, telemetryApp } from '../support/apps.ts';
import { telemetryDependencies } from '../support/otel-app.ts';
import { endOf, startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const subpaths = [
  'svc',
  'svc/register',
  'svc/testing',
  'svc/consumer',
  'svc/instrumentation',
  'svc/aws-kms',
  'svc/vault',
];

const applications: readonly [
  title: string,
  install: () => string | Promise<string>,
  api: string | undefined,
][] = [
  ['OpenTelemetry 3.x', () => telemetryApp(3), telemetryDependencies[3]['@opentelemetry/api']],
  ['OpenTelemetry 2.x', () => telemetryApp(2), telemetryDependencies[2]['@opentelemetry/api']],
  ['no OpenTelemetry', plainApp, undefined],
];

for (const [title, install, api] of applications) {
  describe(`svc installed beside ${title}`, function () {
    this.timeout(180_000);
    let app: string;

    before('npm install', async () => {
      app = await install();
    });

    it('is a tree without conflicts, with one copy of the API', () => {
      const { problems, copies } = npmTree(app);
      assert.deepEqual(problems, []);
      assert.deepEqual([...copies], [api ?? [...copies][0]]);
    });

    it('every subpath can be imported and required, and gives the same names both ways', async () => {
      const end = await endOf({
        app,
        args: ['main.mjs'],
        files: {
          'svc.config.json': configOf([], { enabled: false }),
          'main.mjs': `
            import { createRequire } from 'node:module';
            const require = createRequire(import.meta.url);
            const found = {};
            for (const path of ${JSON.stringify(subpaths)}) {
              const [imported, required] = [await import(path), require(path)];
              found[path] = [Object.keys(imported).filter((name) => name !== 'module.exports').sort(), Object.keys(required).sort()];
            }
            console.log(JSON.stringify(found));`,
        },
      });
      assert.equal(end.stderr, '');
      assert.equal(end.code, 0);
      const found = JSON.parse(end.stdout) as Record<string, [string[], string[]]>;
      assert.deepEqual(Object.keys(found), subpaths);
      for (const [path, [imported, required]] of Object.entries(found)) {
        assert.deepEqual(imported, required, path);
        assert.equal(imported.length > 0, path !== 'svc/register', path);
      }
    });

    it('captures and publishes', () => publishesOneEvent(app));
  });
}

describe('svc where @opentelemetry/api is missing', function () {
  this.timeout(180_000);

  it('is a tree without the API, in which none is found', () => {
    assert.throws(() => createRequire(join(aloneApp(), 'main.js')).resolve('@opentelemetry/api'));
  });

  it('captures and publishes, with ids of its own', () => publishesOneEvent(aloneApp()));

  it('answers /metrics, though what writes it comes from OpenTelemetry', async () => {
    const running = await startApp({
      app: aloneApp(),
      files: {
        'svc.config.json': configOf([{ module: './main.mjs', function: 'order', eventType: 'ORDERED' }]),
        'main.mjs': 'function order() {} order(); setTimeout(() => {}, 15_000);',
      },
    });
    const [, url] = await running.waitFor(/management on (http:\S+)/);
    const answer = await fetch(url as string);
    assert.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
    assert.match(await answer.text(), /^svc_events_calls_total\{eventType="ORDERED"\} 1$/m);
    await running.kill('SIGKILL');
  });
});

describe('svc loaded as ES module and as CommonJS in one process', function () {
  this.timeout(180_000);

  it('is one: the service, the context and the listeners', async () => {
    const end = await endOf({
      app: plainApp(),
      files: {
        'svc.config.json': configOf([], { broker: { backup: { localEnabled: false } } }),
        'main.mjs': `
          import { createRequire } from 'node:module';
          import * as esm from 'svc';
          const cjs = createRequire(import.meta.url)('svc');
          const lost = [];
          // A name that Kafka takes, and no file system: 256 characters with its ending.
          const unwritable = 'x'.repeat(249);
          esm.onEventLost(({ topic }) => lost.push('esm ' + topic.length));
          const stop = cjs.onEventLost(({ topic }) => lost.push('cjs ' + topic.length));
          const copies = { same: esm.publish === cjs.publish, lost };
          await esm.publish({ from: 'esm' }, { eventType: 'E' });
          await cjs.publish({ from: 'cjs' }, { eventType: 'C' });
          await esm.runWithContext({ userId: 'ann' }, async () => {
            cjs.setContext({ sessionId: 's1', tags: { tenant: 't' } });
            await esm.publish({}, { eventType: 'E2' });
            await cjs.publish({}, { eventType: 'C2' });
          });
          for (const copy of [esm, cjs]) {
            await copy.publish({}, { topic: unwritable }).catch((error) => {
              copies[error.code] = (copies[error.code] ?? 0) + 1;
            });
            stop();
          }
          console.log(JSON.stringify(copies));`,
      },
    });
    assert.equal(end.code, 0, end.stderr);
    assert.deepEqual(JSON.parse(end.stdout), {
      same: false,
      lost: ['esm 249', 'cjs 249', 'esm 249'],
      SVC_PUBLISH_LOST: 2,
    });
    const values = end.topics.events?.map(({ value }) => value) ?? [];
    assert.deepEqual(
      values.map(({ eventType }) => eventType),
      ['E', 'C', 'E2', 'C2'],
    );
    for (const { metadata } of values.slice(2)) {
      assert.deepEqual(metadata.actor, { userId: 'ann', sessionId: 's1' });
      assert.deepEqual(metadata.tags, { tenant: 't' });
    }
    assert.equal(new Set(values.map(({ eventId }) => eventId)).size, 4);
  });
});

describe('svc/testing in an application under test', function () {
  this.timeout(180_000);

  it('sees what the preload published, as ES module and as CommonJS', async () => {
    const end = await endOf({
      app: plainApp(),
      env: { SVC_BROKER_CLIENT: 'memory' },
      files: {
        'svc.config.json': configOf([{ module: './main.mjs', function: 'order', eventType: 'ORDERED' }]),
        'main.mjs': `
          import { createRequire } from 'node:module';
          import * as esm from 'svc/testing';
          const cjs = createRequire(import.meta.url)('svc/testing');
          function order(id) { return { id }; }
          order(1);
          const [event] = await esm.waitFor({ eventType: 'ORDERED' });
          cjs.assertPublished({ payload: { id: 1 } });
          console.log(event.payload.id, cjs.events().length, esm.topics().join());
          cjs.clear();
          esm.assertNothingPublished();`,
      },
    });
    assert.deepEqual([end.code, end.stdout], [0, '1 1 events\n'], end.stderr);
  });

  it('sees what was stored in the outbox, as ES module and as CommonJS, and what the relay sent', async () => {
    const target = {
      ...{ module: './main.mjs', function: 'order', eventType: 'ORDERED' },
      outbox: { aggregateType: 'Order', aggregateId: '#result.id' },
    };
    const outbox = { enabled: true, datasource: { url: 'sqlite:./o.db' }, 'on-no-transaction': 'autocommit' };
    const end = await endOf({
      app: plainApp(),
      env: { SVC_BROKER_CLIENT: 'memory' },
      files: {
        'svc.config.json': configOf([target], { outbox }),
        'main.mjs': `
          import { createRequire } from 'node:module';
          import * as esm from 'svc/testing';
          const cjs = createRequire(import.meta.url)('svc/testing');
          async function order(id) { return { id }; }
          await order('7');
          const { state } = esm.assertStored({ eventType: 'ORDERED', aggregateType: 'Order', aggregateId: '7' });
          const [event] = await cjs.waitFor({ eventType: 'ORDERED' });
          console.log(state, event.payload.id, cjs.outboxEvents().length);
          cjs.clear();
          esm.assertNothingStored();`,
      },
    });
    assert.deepEqual([end.code, end.stdout], [0, 'committed 7 1\n'], end.stderr);
  });
});

async function publishesOneEvent(app: string): Promise<void> {
  const end = await endOf({
    app,
    files: {
      'svc.config.json': configOf([{ module: './main.mjs', function: 'order', eventType: 'ORDERED' }]),
      'main.mjs': `
        async function order(id) { return { id, open: true }; }
        console.log(JSON.stringify(await order(7)));`,
    },
  });
  assert.equal(end.code, 0, end.stderr);
  assert.equal(end.stdout, '{"id":7,"open":true}\n');
  const [record, ...more] = end.topics.events ?? [];
  assert.deepEqual(more, []);
  assert.equal(record?.value.eventType, 'ORDERED');
  assert.deepEqual(record?.value.payload, { id: 7, open: true });
  assert.match(record?.value.metadata.trace.traceId, /^(?!0+$)[0-9a-f]{32}$/);
}

/** What `npm ls` finds wrong, and the versions of the API in the whole tree. */
function npmTree(app: string): { problems: string[]; copies: Set<string> } {
  const { stdout } = spawnSync('npm', ['ls', '--all', '--json'], {
    cwd: app,
    encoding: 'utf8',
    timeout: 60_000,
  });
  const tree = JSON.parse(stdout) as Tree & { problems?: string[] };
  const copies = new Set<string>();
  const walk = ({ dependencies = {} }: Tree): void => {
    for (const [name, child] of Object.entries(dependencies)) {
      if (name === '@opentelemetry/api' && child.version !== undefined) copies.add(child.version);
      walk(child);
    }
  };
  walk(tree);
  return { problems: tree.problems ?? [], copies };
}

interface Tree {
  readonly version?: string;
  readonly dependencies?: Record<string, Tree>;
}
