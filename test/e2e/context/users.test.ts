import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { startMariadb } from '../../support/mariadb.ts';
import { installPacked } from '../../support/packed.ts';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { otelEnvironment, sdkFiles, telemetryDependencies } from '../support/otel-app.ts';
import { startApp } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';
import { frameworkDependencies, frameworkFiles } from './frameworks-app.ts';

const { node, otel } = await subject();
const run = promisify(execFile);
const requestCount = 200;

/** What an event of a request has to say, by its number. */
const expectedOf = (tag: number) => ({
  user: `user-${tag}`,
  correlation: `correlation-${tag}`,
  address: `203.0.${tag >> 8}.${tag & 255}`,
  trace: tag.toString(16).padStart(32, 'a'),
});
type Values = Record<keyof ReturnType<typeof expectedOf>, string | null>;

// One line of OpenTelemetry is enough: its context manager is the same in both.
const suite = otel === 3 ? requiring : () => {};

suite('postgres', 'users of 200 requests at once, in frameworks', () => {
  requiring('mariadb', 'and with mysql2', function () {
    this.timeout(600_000);
    let app: string;
    let databases: { POSTGRES: string; MYSQL: string };

    before('npm install', async () => {
      app = installPacked('frameworks', { ...telemetryDependencies[3], ...frameworkDependencies });
      const [postgres, mariadb] = await Promise.all([startPostgres(), startMariadb()]);
      databases = {
        POSTGRES: await postgres.freshDatabase(),
        MYSQL: (await mariadb.freshDatabase()).replace(/^mariadb:/, 'mysql:'),
      };
    });

    it('each event has the values of its own request, with instrumentations of OpenTelemetry', async () => {
      const sdk = sdkFiles(
        'HttpInstrumentation',
        '@opentelemetry/instrumentation-http',
        'new HttpInstrumentation()',
        {
          '@opentelemetry/instrumentation-pg': 'PgInstrumentation',
          '@opentelemetry/instrumentation-mysql2': 'MySQL2Instrumentation',
        },
      );
      const byServer = await eventsOf(['--import', './sdk.mjs', '--import', 'svc/register', 'main.mjs'], sdk);
      // That of mysql2 binds no callback, and that of pg none without a span of the request, which nobody makes for HTTP/2: svc does.
      assertAllRight(byServer);
    });

    it('each event has the values of its own request, without OpenTelemetry and without an outbox', async () => {
      assertAllRight(await eventsOf(['--import', 'svc/register', 'main.mjs'], {}));
    });

    for (const [name, own] of [
      ['POSTGRES', 'pg'],
      ['MYSQL', 'mysql2'],
    ] as const)
      it(`each event has the values of its own request, with an outbox in the database of ${own} and no OpenTelemetry`, async () => {
        const outbox = {
          ...{ enabled: true, 'initialize-schema': 'always' },
          datasource: { url: databases[name] },
        };
        const byServer = await eventsOf(['--import', 'svc/register', 'main.mjs'], {}, { outbox });
        assertAllRight(byServer);
      });

    interface Seen {
      readonly via: string;
      readonly tag: number;
      readonly values: Values;
    }

    async function eventsOf(
      args: readonly string[],
      files: Readonly<Record<string, string>>,
      rest: object = {},
    ): Promise<Map<string, Seen[]>> {
      const target = {
        module: './record.mjs',
        function: 'record',
        eventType: 'RECORDED',
        payload: '{ tag: #tag, via: #via }',
      };
      const config = configOf([target], {
        context: { actor: { 'user-id': 'header:x-user' } },
        security: { 'use-forwarded-headers': true, 'trusted-proxies': ['127.0.0.1'] },
        ...rest,
      });
      const running = await startApp({
        ...{ app, args, env: { ...otelEnvironment, ...databases, MANAGEMENT_SERVER_PORT: '-1' } },
        files: { ...frameworkFiles, ...files, 'svc.config.json': config },
        timeoutMs: 240_000,
      });
      const [, servers = ''] = await running.waitFor(/^servers (.*)$/m);
      await run(node, ['client.mjs', servers, String(requestCount)], {
        cwd: running.folder,
        timeout: 200_000,
      });
      const { topics, stderr } = await running.kill('SIGTERM');
      assert.doesNotMatch(stderr, /svc: error/);
      const names = Object.keys(JSON.parse(servers));
      return Map.groupBy(
        (topics.events ?? []).map(({ value: { payload, metadata } }) => ({
          via: payload.via as string,
          tag: payload.tag as number,
          values: {
            user: metadata.actor.userId,
            correlation: metadata.correlationId,
            address: metadata.clientIp,
            trace: metadata.trace.traceId,
          } as Values,
        })),
        ({ tag }) => names[Math.floor(tag / requestCount)] as string,
      );
    }

    function assertAllRight(byServer: Map<string, Seen[]>): void {
      assert.equal(byServer.size, 12);
      for (const [server, events] of byServer) {
        const ways = new Set(events.map(({ via }) => via));
        assert.equal(ways.size, server === 'yoga' ? 6 : 5, server);
        const ofWork = events.filter(({ via }) => via !== 'DataLoader');
        assert.equal(ofWork.length, requestCount * (server === 'yoga' ? 10 : 5), server);
        const wrong = events.flatMap(({ tag, via, values }) =>
          Object.entries(expectedOf(tag))
            .filter(([name, value]) => values[name as keyof Values] !== value)
            .map(([name]) => `${server}, ${via}: ${name} is ${values[name as keyof Values]} of ${tag}`),
        );
        assert.deepEqual(wrong.slice(0, 5), [], `${wrong.length} wrong values`);
      }
    }
  });
});
