import assert from 'node:assert/strict';
import * as api from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { createTraceStarter } from '../../src/context/context-store.ts';

describe('spans', () => {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  const tracer = provider.getTracer('svc');
  const start = (parent: api.Context = api.ROOT_CONTEXT) =>
    createTraceStarter('kafka')('orders.v1', '4711', parent);
  const finished = () => exporter.getFinishedSpans();

  before(() => {
    assert.ok(api.trace.setGlobalTracerProvider(provider));
    api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  });
  after(() => {
    api.trace.disable();
    api.context.disable();
  });
  afterEach(() => {
    exporter.reset();
    api.propagation.disable();
  });

  it('is one PRODUCER span with the messaging conventions', () => {
    const event = start();
    assert.deepEqual(finished(), []);
    event.end('published');
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

  it('is a child of what was active at the call', () => {
    const parent = tracer.startSpan('GET /orders');
    start(api.trace.setSpan(api.ROOT_CONTEXT, parent)).end('published');
    const [span] = finished();
    assert.equal(span?.parentSpanContext?.spanId, parent.spanContext().spanId);
    assert.equal(span?.spanContext().traceId, parent.spanContext().traceId);
  });

  it('ends as an error with its cause', () => {
    start().end('refused');
    const [span] = finished();
    assert.equal(span?.attributes['error.type'], 'refused');
    const message = 'the event was not published: refused';
    assert.deepEqual(span?.status, { code: api.SpanStatusCode.ERROR, message });
    assert.equal(span?.ended, true);
  });
});
