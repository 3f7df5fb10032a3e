import assert from 'node:assert/strict';
import { SpanStatusCode, trace } from '@opentelemetry/api';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { createTraceStarter } from '../../../src/context/context-store.ts';
import { outcomes } from '../../../src/observe/outcomes.ts';

describe('the span of an event', () => {
  const exporter = new InMemorySpanExporter();

  before(() => {
    trace.disable();
    trace.setGlobalTracerProvider(
      new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }),
    );
  });
  after(() => trace.disable());

  it('is an error where the event did not get to its topic, and none where its transaction decided', () => {
    const start = createTraceStarter('kafka');
    for (const outcome of outcomes) start('orders', outcome, undefined).end(outcome);
    const failed = exporter
      .getFinishedSpans()
      .filter(({ status }) => status.code === SpanStatusCode.ERROR)
      .map(({ attributes }) => attributes['error.type']);
    assert.equal(exporter.getFinishedSpans().length, outcomes.length);
    assert.deepEqual(failed, ['dlq', 'backup', 'refused', 'lost']);
  });
});
