import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import sinon from 'sinon';
import { version } from '../../../src/ground/version.ts';
import {
  type MetricSources,
  type OutboxState,
  observedInstruments,
  publishDuration,
} from '../../../src/observe/metrics.ts';
import { durationBoundsSeconds } from '../../../src/observe/outcomes.ts';
import { type MeasuredService, renderMetrics } from '../../../src/observe/prometheus.ts';
import { useClock } from '../../support/fake-time.ts';
import { filledSources, metricSources } from '../metric-sources.ts';
import { type Family, parsePrometheus } from './prometheus-text.ts';
import { strangeSources } from './strange-sources.ts';

const orders = { name: 'orders', version: '1.4.0' };
const unknown = { name: null, version: null };

describe('the text of /metrics', () => {
  const textOf = (sources: MetricSources, service: MeasuredService = orders) =>
    renderMetrics(sources, service);
  afterEach(() => sinon.restore());

  let lines: string[];
  before(async () => {
    lines = (await textOf(filledSources())).split('\n');
  });
  const value = (series: string): string | undefined =>
    lines.find((line) => line.startsWith(`${series} `))?.slice(series.length + 1);

  const expected: Record<string, string> = {
    'svc_events_calls_total{eventType="ORDER_CREATED"}': '9',
    'svc_events_published_total{eventType="ORDER_CREATED"}': '42',
    'svc_events_published_total{eventType="ORDER_CANCELLED"}': '1',
    'svc_events_failed_total{eventType="ORDER_CREATED"}': '6',
    'svc_events_failed_total{eventType="ORDER_CANCELLED"}': '0',
    'svc_events_dlq_total{eventType="ORDER_CREATED"}': '1',
    'svc_dlq_events_total{eventType="ORDER_CREATED"}': '1',
    'svc_events_backup_total{eventType="ORDER_CREATED"}': '1',
    'svc_events_outbox_total{eventType="ORDER_CREATED"}': '1',
    'svc_events_rolled_back_total{eventType="ORDER_CREATED"}': '1',
    'svc_events_refused_total{eventType="ORDER_CREATED"}': '1',
    'svc_events_lost_total{eventType="ORDER_CREATED"}': '1',
    'svc_events_dlq_failed_total{eventType="ORDER_CREATED"}': '1',
    'svc_events_retry_count_total{eventType="ORDER_CREATED"}': '1',
    'svc_events_in_flight{eventType="ORDER_CREATED"}': '1',
    'svc_events_in_flight{eventType="ORDER_CANCELLED"}': '0',
    'svc_broker_errors_total{kind="retriable"}': '1',
    'svc_broker_errors_total{kind="fatal"}': '0',
    'svc_circuit_state{breaker="broker"}': '0',
    'svc_circuit_state{breaker="outbox"}': '2',
    [`svc_build_info{version="${version}",node_version="${process.versions.node}"}`]: '1',
    svc_events_last_success_timestamp_seconds: '1700000000.5',
    svc_dlq_waiting: '3',
    svc_outbox_pending: '12',
    svc_outbox_oldest_pending_age_seconds: '1.5',
    svc_outbox_failed: '3',
    'svc_outbox_processed_total{eventType="ORDER_CREATED",outcome="published"}': '40',
    'svc_outbox_processed_total{eventType="ORDER_CREATED",outcome="failed"}': '2',
    'svc_outbox_processed_total{eventType="ORDER_CANCELLED",outcome="failed"}': '0',
    svc_outbox_unconfirmed_total: '1',
    'svc_capture_targets{state="patched"}': '2',
    'svc_capture_targets{state="failed"}': '1',
    'svc_capture_targets{state="pending"}': '0',
    'svc_capture_calls_total{target="./src/orders.ts#createOrder",result="event"}': '4',
    'svc_capture_calls_total{target="./src/orders.ts#createOrder",result="failed"}': '2',
    'svc_capture_calls_total{target="./src/orders.ts#createOrder",result="skipped"}': '1',
  };
  for (const [series, count] of Object.entries(expected)) {
    it(`${series} is ${count}`, () => assert.equal(value(series), count));
  }

  it('has every instrument once, with its help and type before its values', () => {
    const names = observedInstruments.flatMap((one) =>
      [one.prometheusName, one.prometheusAlias ?? []].flat(),
    );
    const types = lines.filter((line) => line.startsWith('# TYPE ')).map((line) => line.split(' ')[2]);
    assert.deepEqual(types, ['target_info', ...names, publishDuration.prometheusName]);
    for (const name of types.slice(1)) {
      const at = lines.findIndex((line) => line.startsWith(`# HELP ${name} `));
      assert.match(lines[at] as string, /\.$/);
      assert.match(lines[at + 1] as string, new RegExp(`^# TYPE ${name} (counter|gauge|histogram)$`));
    }
  });

  it('has cumulative buckets that end in the count', () => {
    const bucket = (bound: string) =>
      value(`svc_events_publish_duration_seconds_bucket{eventType="ORDER_CREATED",le="${bound}"}`);
    assert.equal(bucket('0.005'), '1');
    assert.equal(bucket('0.1'), '1');
    assert.equal(bucket('0.25'), '2');
    assert.equal(bucket('10'), '2');
    assert.equal(bucket('+Inf'), '3');
    assert.equal(value('svc_events_publish_duration_seconds_count{eventType="ORDER_CREATED"}'), '3');
    assert.equal(value('svc_events_publish_duration_seconds_sum{eventType="ORDER_CREATED"}'), '60.203');
    assert.equal(lines.filter((line) => line.includes('_bucket{')).length, durationBoundsSeconds.length + 1);
  });

  it('has no series of an outbox where there is none', async () => {
    const values = (await textOf(metricSources()))
      .split('\n')
      .filter((line) => /^svc_(outbox|circuit)/.test(line));
    assert.deepEqual(values, ['svc_circuit_state{breaker="broker"} 0']);
  });

  const outboxLines = async (outbox: Partial<OutboxState>): Promise<string[]> => {
    const { outbox: whole, ...sources } = filledSources();
    const text = await textOf({ ...sources, outbox: { ...(whole as OutboxState), ...outbox } });
    return text
      .split('\n')
      .filter((line) => /^svc_(outbox_(pending|oldest_pending_age|failed)|circuit)/.test(line));
  };

  it('an outbox that waits for nothing has an age of 0, and one that nobody can ask has none', async () => {
    const broker = 'svc_circuit_state{breaker="broker"} 0';
    const of = (pending: number | null, oldest: number | null) =>
      outboxLines({
        pending: () => pending,
        oldestPendingMs: () => oldest,
        failed: () => pending,
        circuit: () => null,
      });
    assert.deepEqual(await of(0, null), [
      broker,
      'svc_outbox_pending 0',
      'svc_outbox_oldest_pending_age_seconds 0',
      'svc_outbox_failed 0',
    ]);
    assert.deepEqual(await of(1, 1), [
      broker,
      'svc_outbox_pending 1',
      'svc_outbox_oldest_pending_age_seconds 0.001',
      'svc_outbox_failed 1',
    ]);
    assert.deepEqual(await of(null, null), [broker]);
    assert.deepEqual(await of(3, null), [broker, 'svc_outbox_pending 3', 'svc_outbox_failed 3']);
  });

  it('has Unix times beside ages, and none of what does not wait or has not been', async () => {
    const times = async (sources: MetricSources): Promise<Record<string, number>> => {
      const found = (await textOf(sources)).matchAll(/^(svc_\S+_timestamp_seconds) (\S+)$/gm);
      return Object.fromEntries([...found].map(([, name, time]) => [name as string, Number(time)]));
    };
    useClock({ now: () => 1_700_000_100_000 });
    assert.deepEqual(await times(filledSources()), {
      svc_events_last_success_timestamp_seconds: 1_700_000_000.5,
      svc_backup_oldest_timestamp_seconds: 1_700_000_098,
      svc_outbox_oldest_pending_timestamp_seconds: 1_700_000_098.5,
    });
    assert.deepEqual(await times(metricSources()), {});
    const { outbox: _, ...direct } = filledSources();
    assert.equal((await times(direct)).svc_events_last_success_timestamp_seconds, 1_700_000_000.25);
  });

  it('says what it said when svc wrote it itself, with every event type that a text could stumble over', async () => {
    const recorded = readFileSync(new URL('recorded-metrics.txt', import.meta.url), 'utf8');
    const families = parsePrometheus(await textOf(strangeSources(), unknown));
    for (const [name, family] of parsePrometheus(recorded))
      assert.deepEqual(families.get(name), family, name);
    assert.equal(families.size, observedInstruments.length + 2);
  });

  describe('target_info', () => {
    const labels = async (service: MeasuredService): Promise<readonly string[]> =>
      Object.keys(parsePrometheus(await textOf(metricSources(), service)).get('target_info')?.series ?? {});

    it('has the name and version of the service, as far as they are known', async () => {
      assert.deepEqual(await labels(orders), [
        'target_info{"service_name":"orders","service_version":"1.4.0"}',
      ]);
      assert.deepEqual(await labels({ ...orders, version: null }), ['target_info{"service_name":"orders"}']);
      assert.equal((await labels({ ...orders, name: 'a"\\b\n' })).length, 1);
    });

    it('is not there where nothing is known', async () => {
      assert.deepEqual(await labels(unknown), []);
      assert.ok(!(await textOf(metricSources(), unknown)).includes('target_info'));
    });
  });

  it('has no labels of a scope and no units, which the specification does not have', async () => {
    assert.deepEqual(
      lines.filter((line) => /otel_scope|# UNIT/.test(line)),
      [],
    );
  });

  it('writes numbers that are none as Prometheus does', async () => {
    const of = async (circuit: number) => {
      const { series } = parsePrometheus(await textOf({ ...metricSources(), circuit: () => circuit })).get(
        'svc_circuit_state',
      ) as Family;
      return series['svc_circuit_state{"breaker":"broker"}'];
    };
    for (const value of [Infinity, -Infinity, Number.NaN, 1e21, 0.1]) assert.equal(await of(value), value);
  });

  it('lets the application go on while it writes, and tells of one moment', async () => {
    const sources = metricSources();
    for (let type = 0; type < 1_000; type++) sources.ledger.open(`T${type}`).close('published');
    let now = 0;
    sinon.stub(performance, 'now').callsFake(() => {
      now += 10;
      return now;
    });
    let isWritten = false;
    let turns = 0;
    const goOn = (): void => {
      turns++;
      sources.ledger.open('T1').close('published');
      if (!isWritten) setImmediate(goOn);
    };
    setImmediate(goOn);
    const families = parsePrometheus(await textOf(sources));
    isWritten = true;
    // Each of 12 counters of 1,000 event types is written in ten turns.
    assert.ok(turns > 100, `${turns} turns`);
    for (const name of ['svc_events_calls_total', 'svc_events_published_total'])
      assert.equal(families.get(name)?.series[`${name}{"eventType":"T1"}`], 1);
    assert.equal(families.get('svc_events_in_flight')?.series['svc_events_in_flight{"eventType":"T1"}'], 0);
  });

  it('counts the event types that are too many to tell apart as one', async () => {
    const sources = metricSources();
    for (let type = 0; type < 1_003; type++) {
      sources.ledger.open(`T${type}`).close('published');
      sources.durations.record(`T${type}`, 0.01);
    }
    const families = parsePrometheus(await textOf(sources));
    const published = families.get('svc_events_published_total')?.series ?? {};
    const durations = families.get(publishDuration.prometheusName)?.series ?? {};
    assert.equal(Object.keys(durations).length, 1_001 * (durationBoundsSeconds.length + 3));
    assert.equal(Object.keys(published).length, 1_001);
    assert.equal(published['svc_events_published_total{"eventType":"T999"}'], 1);
    assert.equal(published['svc_events_published_total{"eventType":"other"}'], 3);
  });

  it('ends in a line feed and is valid without any event', async () => {
    const text = await textOf(metricSources());
    assert.ok(text.endsWith('\n'));
    assert.ok(!text.includes('\n\n'));
    assert.ok(text.includes('svc_broker_errors_total{kind="unknown_outcome"} 0\n'));
  });

  it('escapes backslash, quote and line feed in label values, and nothing else', async () => {
    const sources = metricSources();
    sources.ledger.open('a\\b"c\nd{}é=,').close('published');
    const text = await textOf(sources);
    assert.ok(text.includes('svc_events_published_total{eventType="a\\\\b\\"c\\nd{}é=,"} 1\n'));
  });

  it('a value that a name cannot break out of stays on its line', async () => {
    const sources = metricSources();
    sources.ledger.open('"} 1\nsvc_events_lost_total{eventType="fake').close('published');
    const fake = (await textOf(sources))
      .split('\n')
      .filter((line) => line.startsWith('svc_events_lost_total{eventType="fake'));
    assert.deepEqual(fake, []);
  });
});
