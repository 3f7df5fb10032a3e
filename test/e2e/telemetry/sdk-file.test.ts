import assert from 'node:assert/strict';
import { telemetryApp } from '../support/apps.ts';
import { startWebApp, treeOf } from './sdk-app.ts';

const otlp = (signal: string): string =>
  `exporter: { otlp_http: { endpoint: "\${OTEL_EXPORTER_OTLP_ENDPOINT}/v1/${signal}" } }`;
const declared = `
file_format: "1.0"
resource: { attributes: [{ name: service.name, value: from-file }] }
propagator: { composite: [{ tracecontext: {} }] }
tracer_provider: { processors: [{ batch: { ${otlp('traces')} } }] }
meter_provider: { readers: [{ periodic: { ${otlp('metrics')} } }] }`;

describe('svc.telemetry.sdk: node with OTEL_CONFIG_FILE', function () {
  this.timeout(180_000);
  let app: string;

  before('npm install', async () => {
    app = await telemetryApp();
  });

  async function run(text: string) {
    const files = { 'otel.yaml': text };
    const started = await startWebApp('main.mjs', { app, files, env: { OTEL_CONFIG_FILE: 'otel.yaml' } });
    await started.get('/orders');
    const end = await started.app.kill('SIGTERM');
    await started.receiver.close();
    return { end, receiver: started.receiver };
  }

  it('is set up as the file says, with the metrics of instrumentations too', async () => {
    const { end, receiver } = await run(declared);
    assert.equal(treeOf(receiver.spans), 'SERVER GET (PRODUCER send events)', end.stderr);
    assert.deepEqual(new Set(receiver.spans.map(({ service }) => service)), new Set(['from-file']));
    assert.ok('svc.events.published' in receiver.metricsOf('svc'));
    assert.ok(
      'http.server.request.duration' in receiver.metricsOf('@opentelemetry/instrumentation-http'),
      'http metrics',
    );
    assert.doesNotMatch(end.stderr, /warn:|error:/);
  });

  for (const [what, text] of [
    ['is wrong', 'file_format: ['],
    ['switches the SDK off', `${declared}\ndisabled: true`],
  ] as const) {
    it(`a file that ${what}: a line says that no SDK runs, and the application runs`, async () => {
      const { end, receiver } = await run(text);
      assert.match(end.stderr, /warn: svc\.telemetry\.sdk: node runs no SDK: the file of OTEL_CONFIG_FILE/);
      assert.deepEqual([end.topics.events?.length, receiver.spans], [1, []]);
    });
  }
});
