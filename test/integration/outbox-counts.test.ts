import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MetricsReport } from '../../src/manage/controls.ts';
import { outcomes, outcomeTable } from '../../src/observe/outcomes.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { hostEnvironment, writeFiles } from '../e2e/support/run-app.ts';
import { parsePrometheus } from '../observe/prometheus/prometheus-text.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startKafka, type TestKafka } from '../support/kafka.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { until as untilSo } from '../support/until.ts';

const root = resolve(import.meta.dirname, '../..');
const table = 'svc_outbox_events';
/** Calls of each kind; those of `place` whose transaction is undone, and those of `attach` that their topic does not take. */
const load = { ORDERED: 400, NOTIFIED: 600, ATTACHED: 10, undone: 40 };

/** An application under load, until its stdin is closed. */
const application = {
  'orders.mjs': `export async function place(db, id) { await db.query('INSERT INTO orders (id) VALUES ($1)', [id]); return { id }; }
  export async function notify(id) { return { id }; }
  export async function attach(db, id) { await db.query('INSERT INTO orders (id) VALUES ($1)', [id]); return { id, file: 'x'.repeat(5000) }; }`,
  'main.mjs': `import pg from 'pg';
  import { attach, notify, place } from './orders.mjs';
  const pool = new pg.Pool({ connectionString: process.env.APP_URL, max: 8 });
  async function within(work, end) {
    const db = await pool.connect();
    try { await db.query('BEGIN'); await work(db); await db.query(end); } finally { db.release(); }
  }
  const load = JSON.parse(process.argv[2]);
  const calls = [
    ...Array.from({ length: load.ORDERED }, (_, id) => () => within((db) => place(db, 'o' + id), id < load.undone ? 'ROLLBACK' : 'COMMIT')),
    ...Array.from({ length: load.ATTACHED }, (_, id) => () => within((db) => attach(db, 'a' + id), 'COMMIT')),
    ...Array.from({ length: load.NOTIFIED }, (_, id) => () => notify('n' + id)),
  ].map((call) => [Math.random(), call]).sort(([a], [b]) => a - b).map(([, call]) => call);
  await Promise.all(Array.from({ length: 16 }, async () => { for (let call; (call = calls.pop()); ) await call(); }));
  await pool.end();
  console.error('all called');
  process.stdin.resume();`,
};

interface Running {
  readonly child: ChildProcess;
  readonly says: (pattern: RegExp) => Promise<RegExpExecArray>;
  readonly ended: Promise<unknown>;
}

/** The counters of one process at one moment, by name and event type, and its report. */
interface Told {
  of(name: string, eventType?: string, outcome?: string): number;
  readonly eventTypes: readonly string[];
}

requiring(['postgres', 'kafka'], 'the counters of an application and of svc relay', function () {
  this.timeout(120_000);
  const [topic, narrow] = [`counts.${randomUUID().slice(0, 8)}`, `narrow.${randomUUID().slice(0, 8)}`];
  const running: Running[] = [];
  let kafka: TestKafka;
  let url: string;
  let folder: string;

  before(async () => {
    kafka = await startKafka();
    await kafka.createTopic(topic, { partitions: 3 });
    await kafka.createTopic(narrow, { config: { 'max.message.bytes': '2000' } });
    const server = await startPostgres();
    url = await server.freshDatabase();
    await server.query(url, 'CREATE TABLE orders (id varchar(40) PRIMARY KEY)');
    const store = openOutboxStore({ url, table, initializeSchema: 'always' });
    await store.prepare();
    await store.close(1_000);
    folder = temporaryFolder('counts');
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
    const stored = { outbox: { aggregateType: 'Order', aggregateId: '#result.id' }, module: './orders.mjs' };
    const svc = {
      broker: { bootstrapServers: kafka.brokers, topic },
      outbox: { enabled: true, datasource: { url }, publisherEnabled: false, maxRetries: 1 },
      targets: [
        { ...stored, function: 'place', eventType: 'ORDERED' },
        { ...stored, function: 'attach', eventType: 'ATTACHED', topic: narrow },
        { module: './orders.mjs', function: 'notify', eventType: 'NOTIFIED' },
      ],
    };
    writeFiles(folder, {
      ...application,
      'package.json': '{}',
      'svc.config.json': JSON.stringify({ svc, management: { server: { port: 0 } } }),
    });
  });
  after(async () => {
    for (const { child } of running) child.kill('SIGKILL');
    await Promise.all(running.map(({ ended }) => ended));
  });

  function run(...args: string[]): Running {
    const child = spawn(process.execPath, args, {
      cwd: folder,
      env: { ...hostEnvironment(), APP_URL: url },
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    let text = '';
    child.stderr.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    });
    const says = async (pattern: RegExp): Promise<RegExpExecArray> => {
      await until(() => pattern.test(text), `${pattern}\n${text}`);
      return pattern.exec(text) as RegExpExecArray;
    };
    const one = { child, says, ended: once(child, 'close') };
    running.push(one);
    return one;
  }
  const addressOf = async ({ says }: Running): Promise<string> =>
    (await says(/management on (http:\S+)\/metrics/))[1] as string;

  async function scrape(address: string): Promise<Told> {
    const families = parsePrometheus(await (await fetch(`${address}/metrics`)).text());
    const of: Told['of'] = (name, eventType, outcome) =>
      Object.entries(families.get(`svc_${name}`)?.series ?? {})
        .filter(([series]) => eventType === undefined || series.includes(`"eventType":"${eventType}"`))
        .filter(([series]) => outcome === undefined || series.includes(`"outcome":"${outcome}"`))
        .filter(([series]) => !/_(bucket|sum)\{/.test(series))
        .reduce((sum, [, value]) => sum + value, 0);
    return { of, eventTypes: Object.keys(load).filter((type) => type !== 'undone') };
  }
  const report = async (address: string): Promise<MetricsReport> =>
    (await (await fetch(`${address}/actuator/svc-metrics`)).json()) as MetricsReport;

  const until = (isSo: () => Promise<boolean> | boolean, what: string): Promise<void> =>
    untilSo(isSo, { limitMs: 60_000, everyMs: 50, say: () => what });

  /** As docs/metrics.md has it, of one process at one moment. */
  function holds({ of, eventTypes }: Told): void {
    for (const type of eventTypes) {
      const [sent, gaveUp] = ['published', 'failed'].map((outcome) =>
        of('outbox_processed_total', type, outcome),
      ) as [number, number];
      const direct = of('events_published_total', type) - sent;
      const others = outcomes.filter((each) => each !== 'published');
      const ends = others.reduce((sum, name) => sum + of(`events_${name}_total`, type), direct);
      assert.equal(of('events_calls_total', type), ends + of('events_in_flight', type), type);
      const failures = others.filter((each) => outcomeTable[each].failure !== null);
      const failed = failures.reduce((sum, name) => sum + of(`events_${name}_total`, type), gaveUp);
      assert.equal(of('events_failed_total', type), failed, type);
    }
  }

  it('hold their equation under load, and count an event as published once, where it was sent', async () => {
    const relay = run(join(root, 'src/cli/main.ts'), 'relay');
    const relayAddress = await addressOf(relay);
    const app = run('--import', join(root, 'dist/register.mjs'), 'main.mjs', JSON.stringify(load));
    const appAddress = await addressOf(app);
    let looks = 0;
    let isCalled = false;
    const called = app.says(/all called/).then(() => {
      isCalled = true;
    });
    while (!isCalled) {
      for (const address of [appAddress, relayAddress]) holds(await scrape(address));
      looks++;
      await sleep(20);
    }
    await called;
    const stored = load.ORDERED - load.undone;
    await until(async () => {
      const [there, here] = [await scrape(relayAddress), await scrape(appAddress)];
      const ended = there.of('outbox_processed_total') === stored + load.ATTACHED;
      return ended && here.of('events_in_flight') === 0 && (there.of('outbox_pending') ?? 1) === 0;
    }, 'every event at its end');
    const [there, here] = [await scrape(relayAddress), await scrape(appAddress)];
    holds(there);
    holds(here);
    assert.ok(looks > 3, `looked ${looks} times under load`);

    const counts = ({ of }: Told, name: string) => here.eventTypes.map((type) => of(name, type));
    assert.deepEqual(counts(here, 'events_calls_total'), [load.ORDERED, load.NOTIFIED, load.ATTACHED]);
    assert.deepEqual(counts(here, 'events_outbox_total'), [stored, 0, load.ATTACHED]);
    assert.deepEqual(counts(here, 'events_rolled_back_total'), [load.undone, 0, 0]);
    assert.deepEqual(counts(here, 'events_published_total'), [0, load.NOTIFIED, 0]);
    assert.deepEqual(counts(there, 'events_calls_total'), [0, 0, 0]);
    assert.deepEqual(counts(there, 'events_published_total'), [stored, 0, 0]);
    assert.deepEqual(counts(there, 'events_failed_total'), [0, 0, load.ATTACHED]);
    assert.deepEqual(counts(there, 'events_publish_duration_seconds'), [stored, 0, 0]);
    assert.equal(await kafka.count(topic), stored + load.NOTIFIED);
    assert.equal(await kafka.count(narrow), 0);
    // Each of them alone, at first and once more.
    assert.ok(there.of('broker_errors_total') >= 2 * load.ATTACHED, `${there.of('broker_errors_total')}`);

    for (const [address, told] of [
      [relayAddress, there],
      [appAddress, here],
    ] as const) {
      const { summary, events } = await report(address);
      const sum = (of: MetricsReport['events']['published']): number =>
        of.reduce((total, { measurements: [count] }) => total + (count?.value ?? 0), 0);
      assert.equal(summary.successfulEvents, told.of('events_published_total'));
      assert.equal(summary.successfulEvents, sum(events.published));
      assert.equal(summary.failedEvents, told.of('events_failed_total'));
      assert.equal(summary.totalBrokerErrors, told.of('broker_errors_total'));
      assert.equal(sum(events.publishDuration), told.of('events_publish_duration_seconds'));
    }
  });
});
