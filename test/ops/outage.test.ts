import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeDashboard } from '../../scripts/dashboard.ts';
import { plainApp } from '../e2e/support/apps.ts';
import { type RunningApp, startApp } from '../e2e/support/start-app.ts';
import { configOf } from '../e2e/support/topic-config.ts';
import { type OwnKafka, startOwnKafka } from '../support/kafka.ts';
import { startPrometheus, type TestPrometheus } from '../support/prometheus.ts';
import { requiring } from '../support/requires.ts';
import { until as untilSo } from '../support/until.ts';
import { alerts, seriesIn } from './support/rule-files.ts';
import { scaledRuleFiles } from './support/scaled-rules.ts';

const token = 'a-token-of-sixteen';
/** Sends an order directly and a payment through the outbox 25 times a second each; on SIGUSR2 so many payments as a backlog has. */
const main = `
  async function order(id) { return { id }; }
  async function pay(id) { return { id }; }
  let id = 0;
  const quietly = (call) => call.catch(() => {});
  setInterval(() => { quietly(order(++id)); quietly(pay(id)); }, 40);
  let more = 0;
  process.on('SIGUSR2', () => { more = 1500; });
  // A few at a time: a write to SQLite is synchronous, and a scrape waits for it.
  setInterval(() => { for (let at = 0; at < 20 && more > 0; at++, more--) quietly(pay(++id)); }, 50);`;
const config = configOf(
  [
    { module: './main.mjs', function: 'order', eventType: 'ORDERED', key: '#id' },
    {
      ...{ module: './main.mjs', function: 'pay', eventType: 'PAID' },
      outbox: { aggregateType: 'Payment', aggregateId: '#id' },
    },
  ],
  {
    // Each process has a table of its own, so that the rows of none wait for the lease of another.
    outbox: { enabled: true, datasource: { url: 'sqlite:./outbox.db' }, 'on-no-transaction': 'autocommit' },
  },
);
/** What an outage of Kafka raises, where one of the processes has no room for a backup. */
const ofOutage = [
  ...['SvcErrorBudgetBurnFast', 'SvcErrorBudgetBurnSlow', 'SvcEventsLost', 'SvcOutboxBacklog'],
  ...['SvcOutboxDelayed', 'SvcBackupStuck', 'SvcCircuitOpen'],
];

requiring(['prometheus', 'own-kafka'], 'alerts, in a Prometheus whose minute is a second', function () {
  this.timeout(240_000);
  const processes: RunningApp[] = [];
  const ports: string[] = [];
  let kafka: OwnKafka;
  let prometheus: TestPrometheus;

  async function start(at: number, env: Record<string, string> = {}): Promise<void> {
    const app = plainApp();
    const running = await startApp({
      ...{ app, timeoutMs: 230_000, files: { 'svc.config.json': config, 'main.mjs': main } },
      ...(processes[at] !== undefined && { folder: processes[at].folder }),
      env: {
        ...{ SVC_BROKER_BOOTSTRAP_SERVERS: kafka.brokers.join(), MANAGEMENT_SERVER_TOKEN: token },
        SVC_BROKER_DLQ_TOPIC: 'dead',
        ...{ MANAGEMENT_SERVER_PORT: ports[at]?.split(':')[1] ?? '0', ...env },
      },
    });
    processes[at] = running;
    ports[at] = (await running.waitFor(/management on http:\/\/(\S+)\/metrics/))[1] as string;
  }

  before(async () => {
    kafka = await startOwnKafka();
    await kafka.createTopic('events', { partitions: 3 });
    await kafka.createTopic('dead', { partitions: 1 });
    for (const at of [0, 1, 2]) await start(at);
    prometheus = await startPrometheus(ports, { ruleFiles: scaledRuleFiles(), lookback: '5s' });
  });
  after(async () => {
    await Promise.all(processes.map((app) => app.kill('SIGKILL')));
    await prometheus?.stop();
    await kafka?.stop();
  });

  /** Names of the alerts that fire, or did within a time. */
  async function firing(within?: string): Promise<string[]> {
    const series = 'ALERTS{alertstate="firing"}';
    const found = await prometheus.query(
      within === undefined ? series : `present_over_time(${series}[${within}])`,
    );
    return [...new Set(found.map(({ metric }) => metric.alertname as string))].sort();
  }

  const until = (isSo: () => Promise<boolean>, limitMs: number, say: () => Promise<unknown>): Promise<void> =>
    untilSo(isSo, { limitMs, everyMs: 200, say: async () => JSON.stringify(await say()) });

  const published = async (): Promise<number> => {
    const found = await prometheus.query('sum by (eventType) (rate(svc_events_published_total[2s])) > 0');
    return found.length;
  };

  it('has every series that a rule names', async () => {
    await until(async () => (await published()) === 2, 30_000, published);
    const named = new Set(alerts.flatMap(({ expr }) => seriesIn(expr)));
    // No target has failed, so that the state has no series, but its name has.
    for (const series of named)
      await until(
        async () => (await prometheus.query(series)).length > 0,
        10_000,
        async () => series,
      );
  });

  it('answers every question of the dashboard', async () => {
    const queries = makeDashboard().panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
    assert.ok(queries.length > 30);
    for (const expr of queries) {
      const asked = expr.replaceAll(/\$(job|instance)/g, '.*').replaceAll('$__rate_interval', '5s');
      assert.ok(!asked.includes('$'), asked);
      const found = await prometheus.query(asked);
      // Nothing may wait, and nothing is consumed here.
      if (/svc_consumer_|_oldest\w*_timestamp/.test(asked)) continue;
      await until(
        async () => found.length > 0 || (await prometheus.query(asked)).length > 0,
        10_000,
        async () => asked,
      );
    }
  });

  it('none fires while three processes are started anew, one after the other', async () => {
    for (const at of [0, 1, 2]) {
      await processes[at]?.kill('SIGTERM');
      // The last of them has no room for a backup.
      await start(at, at === 2 ? { SVC_BROKER_BACKUP_MAX_BYTES: '1' } : {});
      await sleep(3_000);
    }
    await until(async () => (await published()) === 2, 20_000, published);
    assert.deepEqual(await firing('2m'), []);
  });

  it('each that an outage of Kafka can raise fires', async () => {
    await kafka.kill();
    for (const app of processes) app.child.kill('SIGUSR2');
    const seen = new Set<string>();
    const look = async (): Promise<boolean> => {
      for (const name of await firing()) seen.add(name);
      return ofOutage.every((name) => seen.has(name));
    };
    await until(look, 60_000, async () => [...seen]);
    assert.deepEqual([...seen].sort(), [...ofOutage].sort());
  });

  it('each ends after the repair that the runbook names', async () => {
    await kafka.restart();
    for (const port of ports) {
      const answer = await fetch(`http://${port}/actuator/svc/circuit-breaker/reset`, {
        ...{ method: 'POST', headers: { authorization: `Bearer ${token}` } },
      });
      assert.equal(answer.status, 200);
    }
    await until(async () => (await firing()).length === 0, 90_000, firing);
    assert.ok((await published()) > 0);
  });
});
