import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { ensurePrometheus, type PrometheusPrograms } from '../../../scripts/services/prometheus-programs.ts';
import { shared } from '../../../src/ground/lifecycle.ts';
import type { MetricSources } from '../../../src/observe/metrics.ts';
import { renderMetrics } from '../../../src/observe/prometheus.ts';
import { requiring } from '../../support/requires.ts';
import { filledSources, metricSources } from '../metric-sources.ts';
import { strangeSources } from './strange-sources.ts';

requiring('prometheus', 'metrics under promtool check metrics', () => {
  /** The label's name is the specification's; Prometheus' style would be `event_type`. Nothing else may be said. */
  const knownComplaint = /^svc_\w+ label names should be written in 'snake_case' not 'camelCase'$/;
  let promtool: string;

  before(async () => {
    ({ promtool } = (await ensurePrometheus()) as PrometheusPrograms);
  });

  // Consumers that other suites of this process have run are counted in it.
  beforeEach(() => shared('consumed-events', () => new Map()).clear());

  function check(text: string): { code: number | null; complaints: string[] } {
    const { status, stderr } = spawnSync(promtool, ['check', 'metrics'], { input: text, encoding: 'utf8' });
    const complaints = stderr.split('\n').filter((line) => line !== '' && !knownComplaint.test(line));
    return { code: status, complaints };
  }
  const textOf = (sources: MetricSources) => renderMetrics(sources, { name: 'orders', version: '1.4.0' });

  it('is valid, and nothing but the label eventType is not in Prometheus style', async () => {
    // 3: understood, with remarks on style.
    assert.deepEqual(check(await textOf(filledSources())), { code: 3, complaints: [] });
  });

  it('is valid with any event type', async () => {
    assert.deepEqual(check(await textOf(strangeSources())), { code: 3, complaints: [] });
  });

  it('has no complaint at all before the first event type', async () => {
    assert.deepEqual(check(await textOf(metricSources())), { code: 0, complaints: [] });
  });

  it('would complain: an unescaped quote, a family twice, a counter without total', async () => {
    const text = await textOf(filledSources());
    assert.equal(check(text.replace('eventType="ORDER', 'eventType="OR"DER')).code, 1);
    assert.equal(check(text + text).code, 1);
    const named = check(text.replaceAll('svc_broker_errors_total', 'svc_broker_errors'));
    assert.deepEqual(named, {
      code: 3,
      complaints: ['svc_broker_errors counter metrics should have "_total" suffix'],
    });
  });
});
