import assert from 'node:assert/strict';
import * as api from '@opentelemetry/api';
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';
import sinon from 'sinon';
import { shared } from '../../src/ground/lifecycle.ts';
import type { Logger } from '../../src/observe/logger.ts';
import { bindMeter, observedInstruments, publishDuration } from '../../src/observe/metrics.ts';
import { consumedBy, durationBoundsSeconds } from '../../src/observe/outcomes.ts';
import { silentLog as silent, useLogger } from '../support/log.ts';
import { filledSources, metricSources } from './metric-sources.ts';

class TestReader extends MetricReader {
  protected async onShutdown(): Promise<void> {}
  protected async onForceFlush(): Promise<void> {}

  /** Values by name and attributes; for the histogram the count. */
  async values(): Promise<Map<string, number>> {
    const { resourceMetrics, errors } = await this.collect();
    assert.deepEqual(errors, []);
    const found = new Map<string, number>();
    for (const { scope, metrics } of resourceMetrics.scopeMetrics) {
      assert.equal(scope.name, 'svc');
      assert.equal(scope.version, '1.2.3');
      for (const { descriptor, dataPoints } of metrics) {
        for (const { attributes, value } of dataPoints) {
          const number = typeof value === 'number' ? value : value.count;
          found.set(`${descriptor.name} ${Object.values(attributes).join()}`, number);
        }
      }
    }
    return found;
  }
}

describe('meter', () => {
  let binding: ReturnType<typeof bindMeter> | undefined;

  function register(): TestReader {
    const reader = new TestReader();
    api.metrics.disable();
    assert.ok(api.metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] })));
    return reader;
  }
  const bind = (sources = filledSources(), logger: Logger = silent) => {
    useLogger(logger);
    binding = bindMeter(() => api.metrics.getMeterProvider(), sources, { version: '1.2.3' });
    return sources;
  };

  afterEach(() => {
    binding?.close();
    api.metrics.disable();
    sinon.restore();
  });

  it('offers every instrument to the provider of the application', async () => {
    const reader = register();
    const sources = bind();
    sources.durations.record('ORDER_CREATED', 0.2);
    consumedBy('billing').of('ORDER_CREATED');
    const { resourceMetrics } = await reader.collect();
    shared('consumed-events', () => new Map()).clear();
    const descriptors = resourceMetrics.scopeMetrics[0]?.metrics.map(({ descriptor }) => descriptor) ?? [];
    const expected = [publishDuration, ...observedInstruments].flatMap(
      // Prometheus would show an alias twice that it cannot tell apart.
      ({ name, alias, prometheusAlias }) => (prometheusAlias === undefined ? name : [name, alias]),
    );
    assert.deepEqual(descriptors.map(({ name }) => name).sort(), expected.sort());
    for (const { unit, description } of descriptors) assert.ok(unit !== '' && description !== '');
  });

  it('reads the ledger at collection', async () => {
    const reader = register();
    const { ledger } = bind();
    assert.equal((await reader.values()).get('svc.events.published ORDER_CREATED'), 42);
    assert.equal((await reader.values()).get('svc.events.in_flight ORDER_CREATED'), 1);
    ledger.open('ORDER_CREATED').close('published');
    const values = await reader.values();
    assert.equal(values.get('svc.events.published ORDER_CREATED'), 43);
    assert.equal(values.get('svc.events.failed ORDER_CREATED'), 6);
    assert.equal(values.get('svc.dlq.events.total ORDER_CREATED'), 1);
    assert.equal(values.get('svc.broker.errors.total retriable'), 1);
    assert.equal(values.get('svc.circuit.state broker'), 0);
    assert.equal(values.get('svc.circuit.state outbox'), 2);
    assert.equal(values.get('svc.outbox.pending '), 12);
    assert.equal(values.get('svc.outbox.oldest_pending.age.seconds '), 1.5);
    assert.equal(values.get('svc.outbox.processed ORDER_CREATED,failed'), 2);
    assert.equal(values.get('svc.outbox.unconfirmed '), 1);
    assert.equal(values.get('svc.outbox.unjoined '), 4);
    assert.equal(values.get('svc.capture.targets patched'), 2);
    assert.equal(values.get('svc.capture.calls ./src/orders.ts#createOrder,event'), 4);
  });

  it('records the duration in buckets of seconds', async () => {
    const reader = register();
    const sources = bind();
    sources.durations.record('ORDER_CREATED', 0.2);
    const { resourceMetrics } = await reader.collect();
    const metric = resourceMetrics.scopeMetrics[0]?.metrics.find(
      (one) => one.descriptor.name === publishDuration.name,
    );
    const value = metric?.dataPoints[0]?.value;
    assert.ok(typeof value === 'object' && 'buckets' in value);
    assert.deepEqual(value.buckets.boundaries, durationBoundsSeconds);
    assert.equal(value.count, 1);
    assert.equal(value.sum, 0.2);
  });

  it('finds a provider that is registered later, at the next event', async () => {
    const sources = bind();
    sources.durations.record('ORDER_CREATED', 0.1);
    const reader = register();
    sources.durations.record('ORDER_CREATED', 0.1);
    const values = await reader.values();
    assert.equal(values.get('svc.events.published ORDER_CREATED'), 42);
    assert.equal(values.get('svc.events.publish.duration ORDER_CREATED'), 1, 'only what came after it');
  });

  it('finds it without any event too, within ten seconds', async () => {
    const clock = sinon.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    bind();
    const reader = register();
    clock.tick(9_999);
    assert.equal((await reader.values()).size, 0);
    clock.tick(1);
    assert.ok((await reader.values()).size > 0);
  });

  it('does not need the API until something is registered', async () => {
    const reader = register();
    let loaded: typeof api | undefined;
    const sources = filledSources();
    binding = bindMeter(() => loaded?.metrics.getMeterProvider(), sources, {
      version: '1.2.3',
    });
    sources.durations.record('ORDER_CREATED', 0.1);
    assert.equal((await reader.values()).size, 0);
    loaded = api;
    sources.durations.record('ORDER_CREATED', 0.1);
    assert.equal((await reader.values()).get('svc.events.publish.duration ORDER_CREATED'), 1);
  });

  it('leaves the provider that was replaced, and serves the new one', async () => {
    const first = register();
    const sources = bind();
    const second = register();
    sources.durations.record('ORDER_CREATED', 0.1);
    assert.equal((await second.values()).get('svc.events.published ORDER_CREATED'), 42);
    assert.equal((await first.values()).get('svc.events.published ORDER_CREATED'), undefined);
  });

  it('takes its callbacks off when it is closed', async () => {
    const reader = register();
    const sources = bind();
    sources.durations.record('ORDER_CREATED', 0.1);
    await reader.collect();
    binding?.close();
    sources.ledger.open('ORDER_CREATED').close('published');
    sources.durations.record('ORDER_CREATED', 0.1);
    const values = await reader.values();
    assert.equal(values.get('svc.events.published ORDER_CREATED'), 42, 'the SDK repeats what it read last');
    assert.equal(values.get('svc.events.publish.duration ORDER_CREATED'), 1);
  });

  it('keeps an error of the provider away from the event, and says it once', () => {
    const warn = sinon.spy();
    sinon.stub(api.metrics, 'getMeterProvider').throws(new TypeError('value 4711 is wrong'));
    const sources = bind(metricSources(), { ...silent, warn });
    sources.durations.record('A', 1);
    sources.durations.record('A', 1);
    sinon.assert.calledOnce(warn);
    assert.deepEqual(warn.firstCall.args, [
      "the application's meter provider failed",
      { error: 'TypeError' },
    ]);
  });
});
