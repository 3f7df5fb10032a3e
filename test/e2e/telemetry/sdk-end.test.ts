import assert from 'node:assert/strict';
import { type SilentServer, startSilentServer } from '../../support/silent-server.ts';
import { telemetryApp } from '../support/apps.ts';
import type { AppEnd } from '../support/start-app.ts';
import { type SdkRun, startWebApp, treeOf } from './sdk-app.ts';

const one = 'SERVER GET (PRODUCER send events)';

describe('the end of a process with svc.telemetry.sdk: node', function () {
  this.timeout(180_000);
  let app: string;
  let silent: SilentServer;

  before('npm install', async () => {
    app = await telemetryApp();
    silent = await startSilentServer();
  });
  after(() => silent.close());

  /** Answers one request, then runs `last`. */
  const ending = (last: string): Record<string, string> => ({
    'main.mjs': `
      import { createServer } from 'node:http';
      async function order(id) { return { id }; }
      const server = createServer(async (request, response) => {
        response.end(JSON.stringify(await order(1)), () => { ${last} });
      });
      process.on('exit', (code) => console.log('exit handlers run, ' + code));
      server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));`,
  });
  async function endOf(
    last: string,
    env: Record<string, string> = {},
  ): Promise<{ run: SdkRun; end: AppEnd; ms: number }> {
    const run = await startWebApp('main.mjs', { app, files: ending(last), env });
    await run.get('/');
    const started = performance.now();
    const end = await run.app.ended;
    await run.receiver.close();
    return { run, end, ms: performance.now() - started };
  }

  it('natural: everything is handed over, event, spans and metrics', async () => {
    const { run, end } = await endOf('server.closeAllConnections(); server.close();');
    assert.deepEqual([end.code, end.topics.events?.length], [0, 1], end.stderr);
    assert.equal(treeOf(run.receiver.spans), one);
    assert.ok('svc.events.published' in run.receiver.metricsOf('svc'));
  });

  it('a signal that the application handles: what there is so far at once, the rest at the natural end', async () => {
    const { run, end } = await endOf(`
      process.once('SIGTERM', () => setTimeout(async () => {
        await order(2);
        server.closeAllConnections();
        server.close();
      }, 300));
      process.kill(process.pid, 'SIGTERM');`);
    assert.equal(end.code, 0, end.stderr);
    assert.equal(run.receiver.spans.filter(({ kind }) => kind === 'PRODUCER').length, 2);
  });

  it('process.exit() waits for nothing', async () => {
    const { end } = await endOf('process.exit(3);', {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://${silent.address}`,
    });
    assert.equal(end.code, 3, end.stderr);
  });

  for (const [what, endpoint] of [
    ['hangs', () => `http://${silent.address}`],
    ['is away', () => 'http://127.0.0.1:9'],
  ] as const) {
    it(`a collector that ${what} costs no more than svc.shutdown.timeout-ms`, async () => {
      const env = { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint(), SVC_SHUTDOWN_TIMEOUT_MS: '700' };
      const natural = await endOf('server.closeAllConnections(); server.close();', env);
      const killed = await endOf(`process.kill(process.pid, 'SIGTERM');`, env);
      const closed = `process.once('SIGTERM', () => { server.closeAllConnections(); server.close(); });
        process.on('beforeExit', () => {});
        process.kill(process.pid, 'SIGTERM');`;
      const handled = await endOf(closed, env);
      assert.deepEqual([natural.end.code, killed.end.signal, handled.end.code], [0, 'SIGTERM', 0]);
      assert.match(natural.end.stdout, /exit handlers run, 0/);
      for (const { end, ms } of [natural, killed, handled]) {
        const said = /the collector did not take all spans and metrics/g;
        assert.equal(end.stderr.match(said)?.length, 1, end.stderr);
        assert.equal(end.topics.events?.length, 1);
        assert.ok(ms < 4_000, `${ms} ms`);
      }
    });
  }
});
