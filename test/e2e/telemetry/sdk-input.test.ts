import assert from 'node:assert/strict';
import { startOtlpReceiver } from '../../support/otlp-receiver.ts';
import { aloneApp, telemetryApp } from '../support/apps.ts';
import { otelFiles } from '../support/otel-app.ts';
import { type AppEnd, type AppOptions, endOf } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';
import { treeOf } from './sdk-app.ts';

/** One request and one event, then whatever the application's own SDK saw. */
const main = `
  import { createServer, get } from 'node:http';
  async function order(id) { return { id }; }
  const server = createServer(async (request, response) => response.end(JSON.stringify(await order(1))));
  server.listen(0, '127.0.0.1', () => get({ port: server.address().port }, (response) => response.resume().on('end', async () => {
    server.close();
    const seen = await globalThis.sdkSeen?.();
    console.log(JSON.stringify(seen?.spans.map(({ name }) => name) ?? 'no SDK'));
  })));`;

async function run(
  options: Partial<AppOptions> & Pick<AppOptions, 'app'>,
  config: Record<string, unknown> = {},
): Promise<{ end: AppEnd; tree: string; ownSpans: unknown }> {
  const receiver = await startOtlpReceiver();
  const target = { module: './main.mjs', function: 'order', eventType: 'ORDERED' };
  const end = await endOf({
    ...options,
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint, ...options.env },
    files: {
      'svc.config.json': configOf([target], { telemetry: { sdk: 'node' }, ...config }),
      'main.mjs': main,
      ...options.files,
    },
  });
  await receiver.close();
  const printed = end.stdout === '' ? undefined : JSON.parse(end.stdout);
  return { end, tree: treeOf(receiver.spans), ownSpans: printed };
}

const diagFile = {
  'diag.mjs': `
    import { diag, DiagConsoleLogger, DiagLogLevel } from '@opentelemetry/api';
    diag.setLogger(new DiagConsoleLogger(), DiagLogLevel.ERROR);
    diag.setLogger(new DiagConsoleLogger(), { logLevel: DiagLogLevel.NONE, suppressOverrideMessage: true });`,
};
/** The span of the client, above them, depends on a loader that misses named imports at times where Node runs it in a thread. */
const requestAndEvent = /SERVER GET \(PRODUCER send events\)/;

describe('svc.telemetry.sdk: node, and what stands in its way', function () {
  this.timeout(180_000);
  let app: string;

  before('npm install', async () => {
    app = await telemetryApp();
  });

  it('an SDK that the application has registered before: svc says so, and its spans go there', async () => {
    const args = ['--import', './sdk.mjs', '--import', 'svc/register', 'main.mjs'];
    const { end, tree, ownSpans } = await run({ app, args, files: otelFiles });
    assert.match(
      end.stderr,
      /warn: svc\.telemetry\.sdk: node has no effect, because the application has already reg/,
    );
    assert.deepEqual([end.code, tree, end.topics.events?.length], [0, '', 1]);
    assert.ok((ownSpans as string[]).includes('send events'));
  });

  it('an SDK that the application starts later: svc says that it receives nothing, once, and what to do', async () => {
    // It is heard even where the application has a logger that says nothing.
    const args = ['--import', 'svc/register', '--import', './diag.mjs', '--import', './sdk.mjs', 'main.mjs'];
    const { end, tree, ownSpans } = await run({ app, args, files: { ...otelFiles, ...diagFile } });
    const said =
      /error: the application starts its own OpenTelemetry SDK, which receives nothing.*Set svc\.telemetry\.sdk: none/g;
    assert.equal(end.stderr.match(said)?.length, 1, end.stderr);
    assert.deepEqual([end.code, ownSpans], [0, []]);
    assert.match(tree, requestAndEvent);
  });

  it('a logger for diagnostics that the application sets is no SDK', async () => {
    const args = ['--import', 'svc/register', '--import', './diag.mjs', 'main.mjs'];
    const { end, tree } = await run({ app, args, files: diagFile });
    assert.doesNotMatch(end.stderr, /of its own/);
    assert.match(tree, requestAndEvent);
  });

  it('no package: a line with its code and what to install, and the application runs', async () => {
    const { end } = await run({ app: aloneApp() });
    assert.match(
      end.stderr,
      /error: .* needs the package @opentelemetry\/sdk-node, .* npm install @opentelemetry\/sdk-node .* code="SVC_PRELOAD_SDK"/,
    );
    assert.deepEqual([end.code, end.topics.events?.length], [0, 1]);
  });

  it('no package, and svc.required: the process does not start', async () => {
    const { end } = await run({ app: aloneApp() }, { required: true });
    assert.match(end.stderr, /npm install @opentelemetry\/sdk-node/);
    assert.deepEqual([end.code, end.stdout], [78, '']);
  });

  for (const [what, files] of [
    ['too old', { version: '0.57.0', main: 'index.js', 'index.js': '' }],
    ['broken', { version: '0.301.0', main: 'index.js', 'index.js': `throw new Error('out of order');` }],
  ] as const) {
    it(`a package that is ${what}: a line with its code, and the application runs`, async () => {
      const { 'index.js': text, ...manifest } = files;
      const folder = 'node_modules/@opentelemetry/sdk-node';
      const { end } = await run({
        app,
        files: {
          [`${folder}/package.json`]: { name: '@opentelemetry/sdk-node', ...manifest },
          [`${folder}/index.js`]: text,
        },
      });
      const said =
        what === 'too old' ? /from 0\.200\.0 on and below 0\.400\.0, found 0\.57\.0/ : /out of order/;
      assert.match(end.stderr, said);
      assert.match(end.stderr, /code="SVC_PRELOAD_SDK"/);
      assert.deepEqual([end.code, end.topics.events?.length], [0, 1], end.stderr);
    });
  }

  it('OTEL_SDK_DISABLED=true: nothing is started, and events have ids all the same', async () => {
    const { end, tree } = await run({ app, env: { OTEL_SDK_DISABLED: 'true' } });
    assert.match(end.stderr, /has no effect, because OTEL_SDK_DISABLED is true/);
    assert.deepEqual([end.code, tree, end.topics.events?.length], [0, '', 1]);
    assert.match(end.topics.events?.[0]?.value.metadata.trace.traceId, /^(?!0+$)[0-9a-f]{32}$/);
  });

  it('svc.enabled: false starts no SDK; svc.aop.enabled: false does', async () => {
    const off = await run({ app }, { enabled: false });
    assert.deepEqual([off.end.stderr, off.tree], ['', '']);
    const { tree } = await run({ app }, { aop: { enabled: false } });
    assert.match(tree, /SERVER GET/);
  });

  it('OTEL_NODE_DISABLED_INSTRUMENTATIONS=svc: no event, and the SDK runs with the other instrumentations', async () => {
    const { end, tree } = await run({ app, env: { OTEL_NODE_DISABLED_INSTRUMENTATIONS: 'svc' } });
    assert.match(end.stderr, /not started, because OTEL_NODE_DISABLED_INSTRUMENTATIONS names svc/);
    assert.match(tree, /SERVER GET\)?$/);
    assert.deepEqual([end.code, end.topics], [0, {}]);
  });

  it('OTEL_NODE_DISABLED_INSTRUMENTATIONS is heard; without any instrumentation svc says what to install', async () => {
    const env = { OTEL_NODE_DISABLED_INSTRUMENTATIONS: 'http' };
    assert.equal((await run({ app, env })).tree, 'PRODUCER send events');
    const files = { 'package.json': { name: 'bare', version: '1.0.0' } };
    const { end, tree } = await run({ app, files });
    assert.match(end.stderr, /warn: .* finds no instrumentations.* npm install @opentelemetry\/auto-instr/);
    assert.equal(tree, 'PRODUCER send events');
  });
});
