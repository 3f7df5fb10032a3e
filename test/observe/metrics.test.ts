import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { MeterProvider } from '@opentelemetry/api';
import { bindMeter, observedInstruments, publishDuration } from '../../src/observe/metrics.ts';
import { outcomes, outcomeTable } from '../../src/observe/outcomes.ts';
import { metricSources } from './metric-sources.ts';

/** What the meter provider of an application is given. */
function offeredNames(): readonly string[] {
  const names: string[] = [];
  const make = (name: string) => {
    names.push(name);
    return { addCallback() {}, removeCallback() {}, record() {} };
  };
  const meter = {
    createHistogram: make,
    createObservableCounter: make,
    createObservableUpDownCounter: make,
    createObservableGauge: make,
  };
  const provider = { getMeter: () => meter } as unknown as MeterProvider;
  bindMeter(() => provider, metricSources(), { version: '1.2.3' }).close();
  return names;
}

const names = offeredNames();

describe('metrics', () => {
  it('has the names of the specification', () => {
    for (const name of [
      'svc.events.published',
      'svc.events.failed',
      'svc.events.dlq',
      'svc.dlq.events.total',
      'svc.events.publish.duration',
      'svc.events.retry.count',
      'svc.broker.errors.total',
      'svc.events.backup',
      'svc.events.lost',
      'svc.events.refused',
      'svc.events.in_flight',
      'svc.circuit.state',
      'svc.outbox.pending',
      'svc.outbox.processed',
      'svc.capture.targets',
      'svc.capture.calls',
    ]) {
      assert.ok(names.includes(name), name);
    }
  });

  it('keeps the second names that Prometheus cannot tell apart as aliases only', () => {
    const aliasOf = (name: string) => observedInstruments.find((one) => one.name === name)?.alias;
    assert.equal(aliasOf('svc.events.published'), 'svc.events.published.total');
    assert.equal(aliasOf('svc.events.failed'), 'svc.events.failed.total');
    assert.ok(!names.includes('svc.events.published.total'));
    assert.ok(!names.includes('svc.events.failed.total'));
  });

  it('has no name twice, in OpenTelemetry or in Prometheus', () => {
    const prometheus = observedInstruments.flatMap((one) =>
      [one.prometheusName, one.prometheusAlias ?? []].flat(),
    );
    assert.equal(new Set(names).size, names.length);
    assert.equal(new Set(prometheus).size, prometheus.length);
  });

  describe('docs/metrics.md', () => {
    const docs = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8');
    const rows = docs.split('\n').filter((line) => line.startsWith('| `svc.'));

    it('adds up all outcomes, and docs/architecture.md lists them', () => {
      const [, ...others] = outcomes;
      const failures = others.filter((each) => outcomeTable[each].failure !== null);
      assert.ok(docs.includes(`calls     = direct + ${others.join(' + ')} + in_flight`));
      assert.ok(docs.includes(`failed    = ${failures.join(' + ')} + processed{outcome="failed"}`));
      const house = readFileSync(new URL('../../docs/architecture.md', import.meta.url), 'utf8');
      assert.ok(house.includes(outcomes.map((each) => `\`${each}\``).join(', ')));
    });

    for (const one of [...observedInstruments, publishDuration]) {
      it(`shows ${one.name} with its type, unit and labels`, () => {
        const row = rows.find((line) => line.startsWith(`| \`${one.name}\``));
        assert.ok(row, `no row for ${one.name}`);
        const cells = row.split('|').map((cell) => cell.trim());
        assert.ok(cells[1] === `\`${one.name}\`` || cells[1]?.includes(`\`${one.alias}\``));
        if (one.alias !== undefined) assert.ok(cells[1]?.includes(`\`${one.alias}\``));
        assert.ok(cells[2]?.includes(`\`${one.prometheusName}\``));
        if (one.prometheusAlias !== undefined) assert.ok(cells[2]?.includes(`\`${one.prometheusAlias}\``));
        const words = {
          counter: 'counter',
          upDownCounter: 'up-down counter',
          gauge: 'gauge',
          histogram: 'histogram',
        };
        assert.equal(cells[3], words[one.kind]);
        assert.equal(cells[4], `\`${one.unit}\``);
        assert.equal(cells[5], one.attributeKeys.map((key) => `\`${key}\``).join(', '));
        assert.equal(cells[6], one.description);
      });
    }

    it('shows nothing that does not exist', () => {
      assert.equal(rows.length, observedInstruments.length + 1);
    });
  });
});
