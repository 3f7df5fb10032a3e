import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { startPrometheus, type TestPrometheus } from '../../support/prometheus.ts';
import { requiring } from '../../support/requires.ts';
import { plainApp } from '../support/apps.ts';
import { type RunningApp, startApp } from '../support/start-app.ts';
import { configOf } from '../support/topic-config.ts';

/** Waits until it is scraped, then publishes an event every 20 ms, and says at the end how many there were. */
const main = `
  function order(id) { return { id }; }
  let sent = 0;
  process.once('SIGUSR2', () => {
    const timer = setInterval(() => order(++sent), 20);
    setTimeout(() => { clearInterval(timer); console.log('sent ' + sent); }, 3_000);
  });
  setTimeout(() => {}, 60_000);`;

requiring('prometheus', 'a Prometheus that scrapes svc', function () {
  this.timeout(180_000);
  let app: RunningApp;
  let prometheus: TestPrometheus;

  before(async () => {
    app = await startApp({
      app: plainApp(),
      timeoutMs: 90_000,
      env: { SVC_BROKER_CLIENT: 'memory' },
      files: {
        'svc.config.json': configOf([{ module: './main.mjs', function: 'order', eventType: 'ORDERED' }], {
          service: { name: 'orders', version: '1.4.0' },
        }),
        'main.mjs': main,
      },
    });
    const [, target] = await app.waitFor(/management on http:\/\/(\S+)\/metrics/);
    prometheus = await startPrometheus(target as string);
  });
  after(async () => {
    await prometheus?.stop();
    await app?.kill('SIGKILL');
  });

  /** The value of an expression that is one series, once there is one. */
  async function numberOf(
    expression: string,
    isThere = (value: number) => !Number.isNaN(value),
  ): Promise<number> {
    for (let tries = 0; ; tries++) {
      const samples = await prometheus.query(expression);
      const [{ value } = { value: Number.NaN }] = samples;
      if (samples.length === 1 && isThere(value)) return value;
      assert.ok(tries < 100, `${expression} is ${JSON.stringify(samples)}`);
      await sleep(100);
    }
  }

  it('sees every event type that is configured at 0, before its first event', async () => {
    assert.equal(await numberOf('svc_events_published_total{eventType="ORDERED"}'), 0);
    assert.equal(await numberOf('up', (value) => value === 1), 1);
  });

  it('has the rate that was sent', async () => {
    app.child.kill('SIGUSR2');
    const sent = Number((await app.waitFor(/sent (\d+)/))[1]);
    assert.ok(sent > 20, `only ${sent}`);
    const all = (value: number): boolean => value === sent;
    assert.equal(await numberOf('sum(svc_events_published_total)', all), sent);
    // Prometheus adds what may have come after its last look: one interval in a few seconds at most.
    const perSecond = await numberOf('sum(rate(svc_events_published_total[1m]))');
    assert.ok(Math.abs(perSecond * 60 - sent) < 0.2 * sent, `${perSecond * 60} in a minute, sent ${sent}`);
  });

  it('has a quantile of the durations, and whose metrics these are', async () => {
    const quantile =
      'histogram_quantile(0.95, sum by (le) (rate(svc_events_publish_duration_seconds_bucket[1m])))';
    const seconds = await numberOf(quantile);
    assert.ok(seconds > 0 && seconds <= 10, String(seconds));
    const named =
      'svc_events_published_total * on (instance, job) group_left (service_name, service_version) target_info';
    const [series] = await prometheus.query(named);
    assert.equal(series?.metric.service_name, 'orders');
    assert.equal(series?.metric.service_version, '1.4.0');
  });
});
