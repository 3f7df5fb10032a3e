import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../../support/otlp-receiver.ts';
import { type AppOptions, type RunningApp, startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

const routes = `
  async function order(id) { await null; return { id }; }
  const answer = async (request, response) => response.end(JSON.stringify(request.url === '/orders' ? await order(1) : {}));
  const server = createServer(answer);
  server.listen(0, '127.0.0.1', () => console.log('port ' + server.address().port));`;

/** A web application without a word of OpenTelemetry: \`/orders\` makes an event. */
export const webApp = {
  'main.mjs': `import { createServer } from 'node:http';\n${routes}`,
  'main.cjs': `const { createServer } = require('http');\n${routes}`,
};

export interface SdkRun {
  readonly app: RunningApp;
  readonly receiver: OtlpReceiver;
  get(path: string, headers?: Record<string, string>): Promise<void>;
}

/** \`main\`: its file. Further files and variables may stand in \`options\`, further configuration in \`config\`. */
export async function startWebApp(
  main: keyof typeof webApp,
  options: Pick<AppOptions, 'app'> & Partial<AppOptions>,
  config: Record<string, unknown> = {},
): Promise<SdkRun> {
  const receiver = await startOtlpReceiver();
  const target = { module: `./${main}`, function: 'order', eventType: 'ORDERED' };
  const app = await startApp({
    args: ['--import', 'svc/register', main],
    ...options,
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint, ...options.env },
    files: {
      'svc.config.json': configOf([target], { telemetry: { sdk: 'node' }, ...config }),
      [main]: webApp[main],
      ...options.files,
    },
  });
  const [, port] = await app.waitFor(/port (\d+)/);
  return {
    app,
    receiver,
    async get(path, headers = {}) {
      await (await fetch(`http://127.0.0.1:${port}${path}`, { headers })).text();
    },
  };
}

/** Name and kind of each span with those below it: `SERVER GET (PRODUCER send events)`. */
export function treeOf(spans: readonly ReceivedSpan[], parentSpanId = ''): string {
  return spans
    .filter((span) => span.parentSpanId === parentSpanId)
    .map(({ kind, name, spanId }) => {
      const below = treeOf(spans, spanId);
      return `${kind} ${name}${below && ` (${below})`}`;
    })
    .join(', ');
}
