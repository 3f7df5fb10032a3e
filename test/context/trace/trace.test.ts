import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import type { IncomingHttpHeaders } from 'node:http';
import { fileURLToPath } from 'node:url';
import { type Context, context, createTraceState, ROOT_CONTEXT, TraceFlags, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { AlwaysOffSampler, TracerProvider } from '@opentelemetry/sdk-trace';
import {
  contextStorage,
  createScope,
  currentTrace,
  formatTraceparent,
  parseTraceparent,
  spanParent,
  spanTrace,
} from '../../../src/context/context-store.ts';
import { runWithContext } from '../../../src/context/request.ts';
import { activeTracer } from '../../../src/observe/otel-api.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const spanId = 'b7ad6b7169203331';
const header = `00-${traceId}-${spanId}-01`;

function inRequest<T>(headers: IncomingHttpHeaders, fn: () => T): T {
  return contextStorage().run({ scope: createScope({}, headers, undefined), added: null }, fn);
}

describe('currentTrace without OpenTelemetry', () => {
  it('makes ids of its own, and no parent', () => {
    const ids = currentTrace();
    assert.match(ids.traceId, /^[0-9a-f]{32}$/);
    assert.match(ids.spanId, /^[0-9a-f]{16}$/);
    assert.deepEqual([ids.parentSpanId, ids.traceFlags, ids.traceState], [null, 1, undefined]);
    const many = Array.from({ length: 2000 }, () => currentTrace());
    assert.equal(new Set(many.map((one) => one.traceId)).size, 2000);
    assert.equal(new Set(many.map((one) => one.spanId)).size, 2000);
  });

  it('shares the trace between the events of a request, nested contexts included', () => {
    const inTwo = () => [currentTrace(), runWithContext({ userId: 'u' }, () => currentTrace())] as const;
    for (const [first, second] of [inRequest({}, inTwo), runWithContext({}, inTwo)]) {
      assert.equal(first.traceId, second.traceId);
      assert.notEqual(first.spanId, second.spanId);
      assert.deepEqual([first.parentSpanId, second.parentSpanId], [null, null]);
    }
    assert.notEqual(inRequest({}, inTwo)[0].traceId, inRequest({}, inTwo)[0].traceId);
  });

  it('continues the traceparent of the request', () => {
    const ids = inRequest({ traceparent: header, tracestate: ' a=1,b=2' }, () => currentTrace());
    assert.deepEqual(
      { ...ids, spanId: '' },
      { traceId, spanId: '', parentSpanId: spanId, traceFlags: 1, traceState: 'a=1,b=2' },
    );
    const off = inRequest({ traceparent: `00-${traceId}-${spanId}-00` }, () => currentTrace());
    assert.deepEqual([off.traceId, off.traceFlags], [traceId, 0]);
  });

  it('drops a tracestate that is too long, or without a traceparent', () => {
    const state = (length: number, traceparent = header) =>
      inRequest({ traceparent, tracestate: 'x'.repeat(length) }, () => currentTrace().traceState?.length);
    assert.equal(state(512), 512);
    assert.equal(state(513), undefined);
    assert.equal(state(3, 'broken'), undefined);
  });
});

describe('traceparent', () => {
  it('is read as the W3C says', () => {
    assert.deepEqual(parseTraceparent(header), { traceId, spanId, traceFlags: 1 });
    assert.deepEqual(parseTraceparent(`cc-${traceId}-${spanId}-ff-what-comes`), {
      traceId,
      spanId,
      traceFlags: 3,
    });
    assert.deepEqual(parseTraceparent(`cc-${traceId}-${spanId}-01`), { traceId, spanId, traceFlags: 1 });
    const bad = [
      `ff-${traceId}-${spanId}-01`,
      `00-${traceId}-${spanId}-01-more`,
      `cc-${traceId}-${spanId}-01more`,
      `00-${'0'.repeat(32)}-${spanId}-01`,
      `00-${traceId}-${'0'.repeat(16)}-01`,
      `00-${traceId.toUpperCase()}-${spanId}-01`,
      `00-${traceId}-${spanId}-1`,
      `00-${traceId}-${spanId}`,
      `${header}, ${header}`,
      '',
      null,
    ];
    for (const text of bad) assert.equal(parseTraceparent(text), null, String(text));
  });

  it('is written with two digits of flags', () => {
    assert.equal(formatTraceparent(traceId, spanId, 1), header);
    assert.equal(formatTraceparent(traceId, spanId, 0xff), `00-${traceId}-${spanId}-03`);
    assert.deepEqual(parseTraceparent(formatTraceparent(traceId, spanId, 0)), {
      traceId,
      spanId,
      traceFlags: 0,
    });
  });
});

describe('with OpenTelemetry', () => {
  beforeEach(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  });
  afterEach(() => {
    trace.disable();
    context.disable();
  });

  const register = (options = {}) =>
    assert.ok(trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [], ...options })));

  it('has a tracer from the registration on, and none after it ended', () => {
    assert.equal(activeTracer(), undefined);
    trace.getTracer('early');
    assert.equal(activeTracer(), undefined);
    register();
    const first = activeTracer();
    assert.ok(first?.startSpan('x').isRecording());
    assert.equal(activeTracer(), first);
    trace.disable();
    assert.equal(activeTracer(), undefined);
    register();
    assert.ok(activeTracer()?.startSpan('x').isRecording());
    assert.notEqual(activeTracer(), first);
  });

  it('puts an event without a span of svc under the active span', () => {
    register();
    const tracer = trace.getTracer('app');
    tracer.startActiveSpan('app', (span) => {
      const ids = inRequest({ traceparent: header }, () => currentTrace());
      assert.deepEqual(
        [ids.traceId, ids.parentSpanId],
        [span.spanContext().traceId, span.spanContext().spanId],
      );
      assert.notEqual(ids.spanId, ids.parentSpanId);
    });
  });

  it('takes the context of the call rather than the active one', () => {
    register();
    const kept = trace.setSpan(ROOT_CONTEXT, trace.getTracer('app').startSpan('kept'));
    assert.equal(currentTrace(kept).parentSpanId, trace.getSpanContext(kept)?.spanId);
    assert.equal(currentTrace(ROOT_CONTEXT).parentSpanId, null);
  });

  it('gives the ids of the span of svc, and its parent, sampled or not', () => {
    for (const options of [{}, { sampler: new AlwaysOffSampler() }]) {
      register(options);
      const tracer = activeTracer();
      const root = tracer?.startSpan('root') ?? assert.fail();
      const parent = trace.setSpan(ROOT_CONTEXT, root);
      const own = tracer?.startSpan('send', {}, parent) ?? assert.fail();
      assert.deepEqual(spanTrace(own, parent), {
        traceId: root.spanContext().traceId,
        spanId: own.spanContext().spanId,
        parentSpanId: root.spanContext().spanId,
        traceFlags: own.isRecording() ? TraceFlags.SAMPLED : TraceFlags.NONE,
        traceState: undefined,
      });
      assert.equal(spanTrace(root, ROOT_CONTEXT).parentSpanId, null);
      const elsewhere = tracer?.startSpan('send', { root: true }, parent) ?? assert.fail();
      assert.equal(spanTrace(elsewhere, parent).parentSpanId, null);
      trace.disable();
    }
  });

  it('makes ids rather than zeros for a span that is none', () => {
    const none = trace.wrapSpanContext({ traceId: '0'.repeat(32), spanId: '0'.repeat(16), traceFlags: 0 });
    const ids = inRequest({ traceparent: header }, () => spanTrace(none, ROOT_CONTEXT));
    assert.deepEqual([ids.traceId, ids.parentSpanId], [traceId, spanId]);
    assert.match(ids.spanId, /[1-9a-f]/);
  });

  it('starts spans under the traceparent of a request that nobody instrumented', () => {
    register();
    const headers = { traceparent: header, tracestate: 'a=1' };
    const ids = inRequest(headers, () => {
      const parent = spanParent(ROOT_CONTEXT);
      assert.equal(trace.getSpanContext(parent)?.isRemote, true);
      return spanTrace(activeTracer()?.startSpan('send', {}, parent) ?? assert.fail(), parent);
    });
    assert.deepEqual([ids.traceId, ids.parentSpanId, ids.traceState], [traceId, spanId, 'a=1']);
  });

  it('leaves the parent alone where there is a span, no request, or no traceparent', () => {
    const remote = { traceId, spanId, traceFlags: 1, traceState: createTraceState('a=1') };
    const active: Context = trace.setSpanContext(ROOT_CONTEXT, remote);
    inRequest({ traceparent: header.replace('b7', 'c8') }, () => assert.equal(spanParent(active), active));
    assert.equal(spanParent(ROOT_CONTEXT), ROOT_CONTEXT);
    inRequest({}, () => assert.equal(spanParent(ROOT_CONTEXT), ROOT_CONTEXT));
    assert.equal(currentTrace(active).traceState, 'a=1');
  });
});

describe('otelApi', () => {
  it('is not loaded before somebody registers something', () => {
    const file = fileURLToPath(new URL('../fixtures/lazy-api.ts', import.meta.url));
    const output = execFileSync(process.execPath, [...process.execArgv, file], { encoding: 'utf8' });
    assert.deepEqual(output.split('\n').filter(Boolean), ['ids', 'not loaded', 'loaded', 'tracer']);
  });
});
