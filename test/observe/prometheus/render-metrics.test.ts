import assert from 'node:assert/strict';
import { renderMetrics as renderBefore } from '../../../src/observe/exposition.ts';
import { renderMetrics } from '../../../src/observe/prometheus/render-metrics.ts';
import { filledSources, metricSources } from '../metric-sources.ts';
import { parsePrometheus } from './prometheus-text.ts';
import { strangeSources } from './strange-sources.ts';

describe('metrics as OpenTelemetry writes them', () => {
  const service = { name: 'orders', version: '1.4.0' };

  const manyTypes = () => {
    const sources = filledSources();
    for (let i = 0; i < 1_100; i++) sources.ledger.open(`T${i}`).close('published');
    return sources;
  };
  for (const make of [metricSources, filledSources, strangeSources, manyTypes]) {
    it(`are those that svc wrote, and target_info: ${make.name}`, () => {
      const sources = make();
      const { target_info, ...now } = Object.fromEntries(parsePrometheus(renderMetrics(sources, service)));
      assert.deepEqual(now, Object.fromEntries(parsePrometheus(renderBefore(sources))));
      assert.deepEqual(target_info?.series, {
        'target_info{"service_name":"orders","service_version":"1.4.0"}': 1,
      });
    });
  }
});
