import assert from 'node:assert/strict';
import { join } from 'node:path';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { autoInstrumentedApp, telemetryApp } from '../support/apps.ts';
import { readEvents } from '../support/run-app.ts';
import { endOf } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { startWebApp, treeOf } from './sdk-app.ts';

const { otel, hasSoundSyncHooks } = await subject();

describe('svc.telemetry.sdk: node', function () {
  this.timeout(180_000);
  let app: string;

  before('npm install', async () => {
    app = await telemetryApp();
  });

  for (const [title, main, args, protocol] of [
    ['an ES module, protobuf', 'main.mjs', ['--import', 'svc/register'], 'http/protobuf'],
    ['CommonJS, JSON', 'main.cjs', ['--require', 'svc/register'], 'http/json'],
  ] as const) {
    it(`one flag gives one trace: request, event, record, and who reads the record (${title})`, async () => {
      const env = { OTEL_EXPORTER_OTLP_PROTOCOL: protocol, OTEL_SERVICE_NAME: 'orders' };
      const run = await startWebApp(main, { app, args: [...args, main], env });
      await run.get('/orders');
      const [record] = readEvents(join(run.app.folder, 'svc-topics'));
      const { traceId, spanId, parentSpanId } = record?.value.metadata.trace ?? {};
      assert.equal(record?.headers.traceparent, `00-${traceId}-${spanId}-01`);
      // Who reads the record, over HTTP.
      await run.get('/', { traceparent: record?.headers.traceparent ?? '' });
      const end = await run.app.kill('SIGTERM');
      assert.equal(end.signal, 'SIGTERM');
      const hasNoImports = args[0] === '--require' && !hasSoundSyncHooks;
      assert.equal(/do not see imports of ES modules/.test(end.stderr), hasNoImports, end.stderr);

      const { spans, metricsOf } = run.receiver;
      const [server, read] = spans.filter(({ kind }) => kind === 'SERVER');
      const [sent] = spans.filter(({ kind }) => kind === 'PRODUCER');
      assert.deepEqual(new Set(spans.map((span) => span.traceId)), new Set([traceId]));
      assert.deepEqual([sent?.spanId, sent?.parentSpanId], [spanId, parentSpanId]);
      assert.equal(treeOf(spans), 'SERVER GET (PRODUCER send events (SERVER GET))');
      assert.deepEqual(
        [server?.service, server?.spanId, read?.parentSpanId],
        ['orders', parentSpanId, spanId],
      );
      assert.equal(record?.value.metadata.source.serviceName, 'orders');
      assert.ok('svc.events.published' in metricsOf('svc'));
      assert.ok('http.server.request.duration' in metricsOf('@opentelemetry/instrumentation-http'));
      await run.receiver.close();
    });
  }

  it('scrapes and probes of the management server make no spans, as they are no requests of the application', async () => {
    const run = await startWebApp('main.mjs', { app });
    const [, url = ''] = await run.app.waitFor(/management on (\S+)/);
    assert.match(await (await fetch(url)).text(), /svc_events_calls_total/);
    assert.equal((await fetch(new URL('/actuator/health/liveness', url))).status, 200);
    await run.get('/orders');
    await run.app.kill('SIGTERM');
    assert.equal(treeOf(run.receiver.spans), 'SERVER GET (PRODUCER send events)');
    await run.receiver.close();
  });

  it('none: nothing of an SDK is loaded', async () => {
    const end = await endOf({
      app,
      files: {
        'svc.config.json': { svc: { broker: { topic: 'events' } } },
        'main.mjs': `
          import { createRequire } from 'node:module';
          const { cache } = createRequire(import.meta.url);
          setTimeout(() => console.log(Object.keys(cache).filter((file) => /node-sdk|@opentelemetry.(?!api)/.test(file)).join()), 50);`,
      },
    });
    assert.deepEqual([end.code, end.stdout], [0, '\n'], end.stderr);
  });

  it('a worker thread has an SDK of its own, as with --import of OpenTelemetry itself', async () => {
    const run = await startWebApp('main.mjs', {
      app,
      files: {
        'main.mjs': `
          import { createServer, get } from 'node:http';
          import { isMainThread, Worker } from 'node:worker_threads';
          async function order(id) { return { id }; }
          if (isMainThread) new Worker(new URL(import.meta.url));
          else {
            const server = createServer(async (request, response) => response.end(JSON.stringify(await order(1))));
            server.listen(0, () => get({ port: server.address().port }, (response) => {
              response.resume().on('end', () => { server.close(); console.log('port 1'); });
            }));
          }`.replace('server.address()?.port ?? 0', '1'),
      },
    });
    const end = await run.app.ended;
    assert.equal(end.code, 0, end.stderr);
    const tree = treeOf(run.receiver.spans);
    assert.match(tree, /SERVER GET \(PRODUCER send events\)/);
    // A loader in a thread of its own misses named imports of built-in modules at times.
    if (hasSoundSyncHooks) assert.match(tree, /^CLIENT GET/);
    await run.receiver.close();
  });
});

requiring('postgres', 'svc.telemetry.sdk: node with the auto-instrumentations', function () {
  this.timeout(180_000);

  it('sees the queries of a driver that an ES module imports', async () => {
    const [app, { url }] = [autoInstrumentedApp(otel), await startPostgres()];
    const run = await startWebApp('main.mjs', {
      app,
      env: { DATABASE_URL: url, OTEL_NODE_ENABLED_INSTRUMENTATIONS: 'http,pg' },
      files: {
        'main.mjs': `
          import { createServer } from 'node:http';
          import pg from 'pg';
          const client = new pg.Client(process.env.DATABASE_URL);
          await client.connect();
          async function order(id) { return (await client.query('SELECT 1 AS id')).rows[0]; }
          const server = createServer(async (request, response) => response.end(JSON.stringify(await order(1))));
          server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));`,
      },
    });
    await run.get('/');
    await run.app.kill('SIGTERM');
    const requested = run.receiver.spans.filter(
      ({ traceId }) => traceId === run.receiver.spans.find(({ kind }) => kind === 'SERVER')?.traceId,
    );
    assert.match(treeOf(requested), /^SERVER GET \(CLIENT pg\.query:SELECT \w+, PRODUCER send events\)$/);
    await run.receiver.close();
  });
});
