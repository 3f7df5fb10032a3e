import assert from 'node:assert/strict';
import type { BrokerView, OutboxHealth } from '../../src/manage/controls.ts';
import type { MetricSources } from '../../src/observe/metrics.ts';
import { renderMetrics } from '../../src/observe/prometheus.ts';
import { filledSources, metricSources } from '../observe/metric-sources.ts';
import { useClock } from '../support/fake-time.ts';
import { downOutbox, fakeControls, reports, upOutbox } from './fake-controls.ts';
import { ask } from './http-client.ts';
import { serverHarness } from './server-harness.ts';

const path = '/actuator/svc-metrics';
const actuatorType = 'application/vnd.svc.actuator.v3+json';
const publishedAt = Date.parse('2026-03-04T10:00:00.131Z');

describe('/actuator/svc-metrics', () => {
  const { start } = serverHarness();
  const traffic = { connectionCount: 3, inFlightRequests: 1, requestLatencyAvg: 2.5 };
  const filled = (rest: Partial<MetricSources> = {}): MetricSources => ({
    ...filledSources(),
    lastPublishedMs: () => publishedAt,
    backup: () => ({ files: 4, events: 9, bytes: 900, tooLarge: 0, drained: 0, oldestMs: 0 }),
    recentDlqEvents: () => [
      {
        eventType: 'ORDER_CREATED',
        failureReason: 'TimeoutException: the cluster did not answer',
        timestampMs: Date.parse('2026-03-04T10:00:01Z'),
      },
    ],
    ...rest,
  });
  interface Parts {
    readonly sources?: MetricSources;
    readonly outbox?: OutboxHealth | undefined;
    readonly traffic?: BrokerView | undefined;
    readonly nowMs?: number;
  }
  const startWith = ({ sources = filled(), nowMs = publishedAt, ...parts }: Parts = {}): Promise<number> => {
    useClock({ now: () => nowMs });
    return start({}, fakeControls(reports(sources, { outbox: upOutbox, traffic, ...parts })));
  };
  // biome-ignore lint/suspicious/noExplicitAny: what came over the wire.
  const bodyOf = async (port: number, query = ''): Promise<any> => {
    const { status, body } = await ask(port, `${path}${query}`);
    assert.equal(status, 200, body);
    return JSON.parse(body);
  };

  it('sums up: what was sent and what failed, those of the relay among them', async () => {
    const { summary } = await bodyOf(await startWith());
    // Of calls: 3 published, and one each of dlq, backup, refused and lost. Of the relay: 40 and 2.
    assert.deepEqual(summary, {
      totalEventsPublished: 49,
      successfulEvents: 43,
      failedEvents: 6,
      successRate: '87.75%',
      totalDlqEvents: 1,
      totalBrokerErrors: 1,
      totalBackupFiles: 4,
      circuitBreakerState: 'HALF-OPEN',
      consecutiveFailures: 5,
      timeSinceLastSuccessMs: 61_000,
      totalPending: 12,
      totalFailed: 2,
    });
  });

  it('counts what /metrics counts', async () => {
    const sources = filled();
    const { summary, events } = await bodyOf(await startWith({ sources }));
    const text = await renderMetrics(sources, { name: null, version: null });
    const sum = (name: string): number =>
      [...text.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (.*)$`, 'gm'))].reduce(
        (total, [, value]) => total + Number(value),
        0,
      );
    const counts = events.published.map(
      (each: { measurements: { value: number }[] }) => each.measurements[0]?.value,
    );
    assert.equal(
      counts.reduce((a: number, b: number) => a + b),
      sum('svc_events_published_total'),
    );
    assert.equal(summary.successfulEvents, sum('svc_events_published_total'));
    assert.equal(summary.failedEvents, sum('svc_events_failed_total'));
    assert.equal(summary.totalBrokerErrors, sum('svc_broker_errors_total'));
  });

  it('describes the metrics of each event type', async () => {
    const { events } = await bodyOf(await startWith());
    const published = {
      name: 'svc.events.published',
      description: 'Events acknowledged on their topic.',
      baseUnit: 'events',
    };
    assert.deepEqual(events, {
      published: [
        {
          ...published,
          eventType: 'ORDER_CREATED',
          measurements: [{ statistic: 'COUNT', value: 42 }],
        },
        {
          ...published,
          eventType: 'ORDER_CANCELLED',
          measurements: [{ statistic: 'COUNT', value: 1 }],
        },
      ],
      publishDuration: [
        {
          name: 'svc.events.publish.duration',
          description: 'Time from the receipt of an event by the publisher to its outcome.',
          baseUnit: 'seconds',
          eventType: 'ORDER_CREATED',
          measurements: [
            { statistic: 'COUNT', value: 3 },
            { statistic: 'MEAN', value: 60.203 / 3 },
            { statistic: 'MAX', value: 60 },
          ],
        },
      ],
    });
  });

  it('names the last dead letters, and files of the backup', async () => {
    assert.deepEqual((await bodyOf(await startWith())).dlq, {
      totalDlqEvents: 1,
      totalBackupFiles: 4,
      recentDlqEvents: [
        {
          eventType: 'ORDER_CREATED',
          failureReason: 'TimeoutException: the cluster did not answer',
          timestamp: '2026-03-04T10:00:01.000Z',
        },
      ],
    });
  });

  it('tells of the connections to the broker, and null where there are none', async () => {
    assert.deepEqual((await bodyOf(await startWith())).broker, traffic);
    assert.deepEqual((await bodyOf(await startWith({ traffic: undefined }))).broker, {
      connectionCount: null,
      inFlightRequests: null,
      requestLatencyAvg: null,
    });
  });

  it('has nothing of an outbox where there is none, and null for what is not known of it', async () => {
    const { summary } = await bodyOf(await startWith({ sources: metricSources(), outbox: undefined }));
    assert.deepEqual(summary, {
      totalEventsPublished: 0,
      successfulEvents: 0,
      failedEvents: 0,
      successRate: '100.00%',
      totalDlqEvents: 0,
      totalBrokerErrors: 0,
      totalBackupFiles: 0,
    });
    const away = (await bodyOf(await startWith({ outbox: downOutbox }))).summary;
    assert.deepEqual(
      [away.circuitBreakerState, away.consecutiveFailures, away.timeSinceLastSuccessMs],
      [null, null, null],
    );
    assert.deepEqual([away.totalPending, away.totalFailed], [null, null]);
  });

  it('rounds the rate down: 100.00% says that nothing failed', async () => {
    for (const [published, dlq, rate] of [
      [199, 1, '99.50%'],
      [19_999, 1, '99.99%'],
      [0, 3, '0.00%'],
      [7, 0, '100.00%'],
    ] as const) {
      const sources = metricSources();
      for (let at = 0; at < published; at++) sources.ledger.open('A').close('published');
      for (let at = 0; at < dlq; at++) sources.ledger.open('A').close('dlq');
      sources.ledger.open('A').close('rolled_back');
      sources.ledger.open('A').close('outbox');
      const { summary } = await bodyOf(await startWith({ sources, outbox: undefined }));
      assert.equal(summary.successRate, rate);
      assert.equal(summary.totalEventsPublished, published + dlq, 'neither stored nor undone ones');
    }
  });

  describe('?shape=flat', () => {
    it('is five numbers', async () => {
      assert.deepEqual(await bodyOf(await startWith(), '?shape=flat'), {
        eventsPublished: 43,
        eventsFailed: 6,
        dlqEvents: 1,
        outboxPending: 12,
        lastPublishTime: '2026-03-04T10:00:00.131Z',
      });
    });

    it('has the last success of the relay where that is later, and null where nothing was sent', async () => {
      const times = async (lastPublishedMs: number | null, timeSinceLastSuccessMs: number | null) => {
        const sources = filled({ lastPublishedMs: () => lastPublishedMs });
        const outbox = { ...upOutbox, timeSinceLastSuccessMs };
        const port = await startWith({ sources, outbox, nowMs: publishedAt + 1_000 });
        return (await bodyOf(port, '?shape=flat')).lastPublishTime;
      };
      assert.equal(await times(publishedAt, 400), '2026-03-04T10:00:00.731Z');
      assert.equal(await times(publishedAt, 1_001), '2026-03-04T10:00:00.131Z');
      assert.equal(await times(null, 1_000), '2026-03-04T10:00:00.131Z');
      assert.equal(await times(null, null), null);
    });

    it('has no number for an outbox that is not there or does not answer', async () => {
      for (const outbox of [undefined, downOutbox])
        assert.equal((await bodyOf(await startWith({ outbox }), '?shape=flat')).outboxPending, null);
    });

    for (const query of ['?shape=', '?shape=wide', '?shape=FLAT', '?shape=flat&shape=flat', '?a=1&shape=0'])
      it(`${query}: 400 that names it`, async () => {
        const { status, headers, body } = await ask(await startWith(), `${path}${query}`);
        assert.deepEqual([status, headers['content-type']], [400, 'application/problem+json']);
        assert.deepEqual(JSON.parse(body), {
          type: 'about:blank',
          title: 'Bad Request',
          status: 400,
          detail: 'shape must be flat, once, or left out for the whole report.',
          field: 'shape',
        });
      });

    it('a query of something else changes nothing', async () => {
      assert.ok('summary' in (await bodyOf(await startWith(), '?other=flat')));
    });
  });

  it('answers the versioned media type where it is asked for by name', async () => {
    const port = await startWith();
    for (const [accept, type] of [
      [actuatorType, actuatorType],
      ['*/*', 'application/json'],
    ] as const)
      for (const query of ['', '?shape=flat'])
        assert.equal((await ask(port, path + query, { headers: { accept } })).headers['content-type'], type);
  });

  it('is read only, stands in the index, and is there where it is exposed', async () => {
    const port = await startWith();
    const post = await ask(port, path, { method: 'POST' });
    assert.deepEqual([post.status, post.headers.allow], [405, 'GET, HEAD']);
    assert.equal((await ask(port, path, { method: 'HEAD' })).status, 200);
    const { _links } = JSON.parse((await ask(port, '/actuator')).body);
    assert.deepEqual(_links['svc-metrics'], { href: path, templated: false });
    const other = await start({ exposure: ['health', 'metrics'] });
    assert.equal((await ask(other, path)).status, 404);
  });

  it('needs the token where there is one and the address is not loopback', async () => {
    const token = 'a-token-of-some-length';
    const port = await start({ address: '0.0.0.0', token });
    assert.equal((await ask(port, path)).status, 401);
    assert.equal((await ask(port, path, { headers: { authorization: `Bearer ${token}` } })).status, 200);
  });
});
