import assert from 'node:assert/strict';
import * as api from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { isOwnWork } from '../../src/ground/lifecycle.ts';
import { isolate } from '../../src/observe/otel-api.ts';

describe('isolate', () => {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  const tracer = provider.getTracer('svc');

  before(() => {
    api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  });
  after(() => api.context.disable());
  afterEach(() => exporter.reset());

  it('makes no spans in the work nor in what it starts, and gives its result', async () => {
    const result = await isolate(async () => {
      tracer.startSpan('at once').end();
      await new Promise(setImmediate);
      tracer.startSpan('later').end();
      return 'sent';
    });
    assert.equal(result, 'sent');
    assert.deepEqual(exporter.getFinishedSpans(), []);
    tracer.startSpan('after').end();
    assert.equal(exporter.getFinishedSpans().length, 1);
  });

  it('forbids spans by the key that the API gives for the name of the SDK', () => {
    const key = api.createContextKey('OpenTelemetry SDK Context Key SUPPRESS_TRACING');
    assert.equal(
      isolate(() => api.context.active().getValue(key)),
      true,
    );
  });

  it('is own work from beginning to end, and nothing beside it is', async () => {
    const seen: boolean[] = [];
    const work = isolate(async () => {
      seen.push(isOwnWork());
      await new Promise(setImmediate);
      seen.push(isOwnWork());
    });
    assert.equal(isOwnWork(), false);
    await work;
    assert.deepEqual(seen, [true, true]);
  });

  it('keeps the rest of the context', async () => {
    const key = api.createContextKey('test');
    await api.context.with(api.ROOT_CONTEXT.setValue(key, 1), () =>
      isolate(async () => assert.equal(api.context.active().getValue(key), 1)),
    );
  });
});
