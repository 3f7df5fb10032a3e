import assert from 'node:assert/strict';
import * as api from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { endProducerSpan, producerSpanShape, startProducerSpan } from '../../src/context/context-store.ts';
import { suppressTracing } from '../../src/observe/otel-api.ts';

describe('spans', () => {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  const tracer = provider.getTracer('svc');
  const shape = producerSpanShape('orders.v1', 'kafka');
  const start = (parent: api.Context = api.ROOT_CONTEXT) => startProducerSpan(tracer, shape, parent, '4711');
  const finished = () => exporter.getFinishedSpans();

  before(() => {
    api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  });
  after(() => api.context.disable());
  afterEach(() => {
    exporter.reset();
    api.propagation.disable();
  });

  it('is one PRODUCER span with the messaging conventions', () => {
    endProducerSpan(start());
    assert.equal(finished().length, 1);
    const [span] = finished();
    assert.equal(span?.name, 'send orders.v1');
    assert.equal(span?.kind, api.SpanKind.PRODUCER);
    assert.deepEqual(span?.attributes, {
      'messaging.system': 'kafka',
      'messaging.destination.name': 'orders.v1',
      'messaging.operation.name': 'send',
      'messaging.operation.type': 'send',
      'messaging.message.id': '4711',
    });
    assert.deepEqual(span?.status, { code: api.SpanStatusCode.UNSET });
  });

  it('carries attributes of its target', () => {
    const own = producerSpanShape('t', 'kafka', { 'svc.event.type': 'ORDER_CREATED' });
    endProducerSpan(startProducerSpan(tracer, own, api.ROOT_CONTEXT, '1'));
    assert.equal(finished()[0]?.attributes['svc.event.type'], 'ORDER_CREATED');
  });

  it('is a child of what was active at the call', () => {
    const parent = tracer.startSpan('GET /orders');
    endProducerSpan(start(api.trace.setSpan(api.ROOT_CONTEXT, parent)));
    const [span] = finished();
    assert.equal(span?.parentSpanContext?.spanId, parent.spanContext().spanId);
    assert.equal(span?.spanContext().traceId, parent.spanContext().traceId);
  });

  it('ends as an error with its cause', () => {
    const message = 'the topic does not exist';
    endProducerSpan(start(), { cause: 'UNKNOWN_TOPIC_OR_PARTITION', message });
    const [span] = finished();
    assert.equal(span?.attributes['error.type'], 'UNKNOWN_TOPIC_OR_PARTITION');
    assert.deepEqual(span?.status, { code: api.SpanStatusCode.ERROR, message });
    assert.equal(span?.ended, true);
  });

  describe('suppressTracing', () => {
    it('is understood by the SDK: no second span inside', async () => {
      await api.context.with(suppressTracing(api.ROOT_CONTEXT), async () => {
        await Promise.resolve();
        tracer.startSpan('send orders.v1').end();
      });
      assert.deepEqual(finished(), []);
    });

    it('uses the key that the API gives for this name', () => {
      const key = api.createContextKey('OpenTelemetry SDK Context Key SUPPRESS_TRACING');
      assert.equal(suppressTracing(api.ROOT_CONTEXT).getValue(key), true);
    });
  });
});
