import assert from 'node:assert/strict';
import * as api from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import {
  endProducerSpan,
  injectHeaders,
  producerSpanShape,
  startProducerSpan,
  suppressTracing,
} from '../../src/observe/spans.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const spanId = 'b7ad6b7169203331';

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

  describe('injectHeaders', () => {
    const contextOf = (spanContext: Partial<api.SpanContext>): api.Context =>
      api.trace.setSpanContext(api.ROOT_CONTEXT, { traceId, spanId, traceFlags: 1, ...spanContext });
    const inject = (context: api.Context): Record<string, string> => {
      const carrier: Record<string, string> = {};
      injectHeaders(api, context, carrier);
      return carrier;
    };

    it('writes W3C headers although no propagator is registered', () => {
      assert.deepEqual(inject(contextOf({ traceState: api.createTraceState('vendor=1') })), {
        traceparent: `00-${traceId}-${spanId}-01`,
        tracestate: 'vendor=1',
      });
      assert.deepEqual(inject(contextOf({ traceFlags: 0 })), { traceparent: `00-${traceId}-${spanId}-00` });
    });

    it('names the span of svc, not its parent', () => {
      const span = start(contextOf({}));
      const { traceparent } = inject(api.trace.setSpan(api.ROOT_CONTEXT, span));
      assert.equal(traceparent, `00-${traceId}-${span.spanContext().spanId}-01`);
      span.end();
    });

    it('writes nothing without a valid span', () => {
      assert.deepEqual(inject(api.ROOT_CONTEXT), {});
      assert.deepEqual(inject(contextOf({ traceId: '0'.repeat(32) })), {});
    });

    const propagator = (headers: Record<string, string>): api.TextMapPropagator => ({
      inject: (_context, carrier) => void Object.assign(carrier as object, headers),
      extract: (context) => context,
      fields: () => Object.keys(headers),
    });

    it('leaves a traceparent of the propagator of the application as it is', () => {
      api.propagation.setGlobalPropagator(propagator({ traceparent: 'its own', baggage: 'a=1' }));
      assert.deepEqual(inject(contextOf({})), { traceparent: 'its own', baggage: 'a=1' });
    });

    it('adds traceparent to what another propagator writes', () => {
      api.propagation.setGlobalPropagator(propagator({ b3: `${traceId}-${spanId}-1` }));
      assert.deepEqual(inject(contextOf({})), {
        b3: `${traceId}-${spanId}-1`,
        traceparent: `00-${traceId}-${spanId}-01`,
      });
    });
  });
});
