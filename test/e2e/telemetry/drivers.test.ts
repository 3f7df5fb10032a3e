import assert from 'node:assert/strict';
import { ddl } from '../../../src/adapters/sql/schema.ts';
import { startMariadb } from '../../support/mariadb.ts';
import { installPacked } from '../../support/packed.ts';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';
import { otelEnvironment, type SdkSeen, sdkFiles, telemetryDependencies } from '../support/otel-app.ts';
import { endOf } from '../support/start-app.ts';
import { subject } from '../support/subject.ts';
import { configOf } from '../support/topic-config.ts';
import { driverDependencies, programOf, type TracedDriver, tracedDrivers } from './drivers.ts';

const { otel } = await subject();

const load = { mjs: '--import', cjs: '--require' } as const;
const forms = ['mjs', 'cjs'] as const;
const orders = ['the SDK before svc', 'the SDK after svc', 'SvcInstrumentation'] as const;

interface Counted {
  /** How often each instrumentation has made a span of each name. */
  readonly spans: Readonly<Record<string, number>>;
  readonly durations: Readonly<Record<string, number>>;
  readonly events: number;
}

for (const driver of tracedDrivers) {
  const { title, server } = driver;
  requiring(
    server,
    `spans of the application's own instrumentations with an outbox: ${title}`,
    function suite() {
      this.timeout(300_000);
      let app: string;
      const alone: Partial<Record<(typeof forms)[number], Counted>> = {};

      before('npm install', async () => {
        const dependencies = { ...telemetryDependencies[otel], ...driverDependencies[otel] };
        app = installPacked(`driver-telemetry-${otel}`, dependencies);
        for (const form of forms) alone[form] = await run(form, undefined);
      });

      for (const form of forms) {
        for (const order of orders) {
          it(`${form}, ${order}: one for each query, as without svc`, async () => {
            const { spans, durations, events } = await run(form, order);
            assert.deepEqual([spans, durations], [alone[form]?.spans, alone[form]?.durations]);
            assert.ok(events > 0, 'no event was stored');
          });
        }
      }

      async function run(
        form: (typeof forms)[number],
        order: (typeof orders)[number] | undefined,
      ): Promise<Counted> {
        const { database, count } = await placeFor(driver);
        const svc = [load[form], 'svc/register'];
        const sdk = [load[form], `./sdk.${form}`];
        const before = order === 'the SDK after svc' ? [...svc, ...sdk] : [...sdk, ...svc];
        const isOurs = order === 'SvcInstrumentation';
        const ours = isOurs ? { 'svc/instrumentation': 'SvcInstrumentation' } : {};
        const [[from, name], ...more] = Object.entries({ ...driver.instrumentations, ...ours }) as [
          [string, string],
        ];
        const targets = ['place', 'placeWithKnex', 'placeWithTypeorm']
          .filter((each) => driver.work.includes(`function ${each}(`))
          .map((each) => ({
            ...{ module: `./main.${form}`, function: each, eventType: 'PLACED' },
            outbox: { aggregateType: 'order', aggregateId: '#result.id' },
          }));
        const outbox = { enabled: true, 'initialize-schema': 'never', 'publisher-enabled': false };
        const { code, stdout, stderr } = await endOf({
          app,
          // An SDK, three ORMs and a loader thread on a busy machine.
          timeoutMs: 60_000,
          args: [...(order === undefined || isOurs ? sdk : before), `main.${form}`],
          env: {
            ...otelEnvironment,
            DATABASE: database,
            SVC_OUTBOX_DATASOURCE_URL: database,
          },
          files: {
            ...sdkFiles(name, from, `new ${name}()`, Object.fromEntries(more)),
            [`main.${form}`]: programOf(driver.work, form),
            'svc.config.json': configOf(targets, { outbox }),
          },
        });
        assert.equal(code, 0, stderr);
        assert.doesNotMatch(stderr, /error:/i);
        const { spans, durations } = JSON.parse(stdout) as SdkSeen;
        const counts: Record<string, number> = {};
        for (const { scope, name } of spans) {
          const key = `${scope} ${name.replace(/svc_test_\w+/, 'database')}`;
          if (scope !== 'svc') counts[key] = (counts[key] ?? 0) + 1;
        }
        return { spans: counts, durations, events: await count() };
      }
    },
  );
}

/** A database with the tables of the application and of the outbox, and how many events it has. */
async function placeFor({ dialect, server }: TracedDriver) {
  const tables = `CREATE TABLE orders (id varchar(64) PRIMARY KEY);\n\n${ddl(dialect, 'svc_outbox_events')}`;
  const { freshDatabase, query } = await (server === 'postgres' ? startPostgres() : startMariadb());
  const database = await freshDatabase();
  for (const statement of tables.split(';\n\n')) await query(database, statement.replace(/;\s*$/, ''));
  return {
    database,
    count: async () =>
      Number((await query(database, 'SELECT count(*) AS count FROM svc_outbox_events'))[0]?.count),
  };
}
