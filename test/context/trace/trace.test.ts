import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import type { IncomingHttpHeaders } from 'node:http';
import { fileURLToPath } from 'node:url';
import {
  type Context,
  context,
  createTraceState,
  ROOT_CONTEXT,
  type Span,
  type SpanOptions,
  trace,
} from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { AlwaysOffSampler, TracerProvider } from '@opentelemetry/sdk-trace';
import {
  contextStorage,
  createScope,
  createTraceStarter,
  parseTraceparent,
} from '../../../src/context/context-store.ts';
import { runWithContext } from '../../../src/context/request.ts';
import { activeTracer } from '../../../src/observe/otel-api.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const spanId = 'b7ad6b7169203331';
const header = `00-${traceId}-${spanId}-01`;

function inRequest<T>(headers: IncomingHttpHeaders, fn: () => T): T {
  return contextStorage().run({ scope: createScope({}, headers, undefined), added: null }, fn);
}

/** The trace of an event of a call in `active`, or of one that is published now. */
function traceOfEvent(active?: Context) {
  return createTraceStarter('kafka')('orders', '4711', active);
}

describe('the trace of an event without OpenTelemetry', () => {
  it('has ids of its own, and no parent', () => {
    const event = traceOfEvent();
    assert.match(event.traceId, /^[0-9a-f]{32}$/);
    assert.match(event.spanId, /^[0-9a-f]{16}$/);
    assert.deepEqual(
      [event.parentSpanId, event.traceparent, event.tracestate],
      [null, `00-${event.traceId}-${event.spanId}-01`, undefined],
    );
    const start = createTraceStarter('kafka');
    const many = Array.from({ length: 2000 }, () => start('orders', '4711', undefined));
    assert.equal(new Set(many.map((one) => one.traceId)).size, 2000);
    assert.equal(new Set(many.map((one) => one.spanId)).size, 2000);
  });

  it('is shared by the events of a request, nested contexts included', () => {
    const inTwo = () => [traceOfEvent(), runWithContext({ userId: 'u' }, () => traceOfEvent())] as const;
    for (const [first, second] of [inRequest({}, inTwo), runWithContext({}, inTwo)]) {
      assert.equal(first.traceId, second.traceId);
      assert.notEqual(first.spanId, second.spanId);
      assert.deepEqual([first.parentSpanId, second.parentSpanId], [null, null]);
    }
    assert.notEqual(inRequest({}, inTwo)[0].traceId, inRequest({}, inTwo)[0].traceId);
  });

  it('continues the traceparent of the request', () => {
    const { end: _, ...event } = inRequest({ traceparent: header, tracestate: ' a=1,b=2' }, () =>
      traceOfEvent(),
    );
    const { spanId: own } = event;
    const traceparent = `00-${traceId}-${own}-01`;
    assert.deepEqual(event, {
      ...{ traceId, spanId: own, parentSpanId: spanId },
      ...{ traceparent, tracestate: 'a=1,b=2' },
    });
    const off = inRequest({ traceparent: `00-${traceId}-${spanId}-00` }, () => traceOfEvent());
    assert.deepEqual([off.traceId, off.traceparent], [traceId, `00-${traceId}-${off.spanId}-00`]);
  });

  it('drops a tracestate that is too long, or without a traceparent', () => {
    const state = (length: number, traceparent = header) =>
      inRequest({ traceparent, tracestate: 'x'.repeat(length) }, () => traceOfEvent().tracestate?.length);
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

  /** Registers a provider whose tracer keeps its spans, and the context in which each was started. */
  function registerKept(options: object = {}, more: SpanOptions = {}) {
    const tracer = new TracerProvider({ spanProcessors: [], ...options }).getTracer('kept');
    const kept: { readonly span: Span; readonly parent: Context | undefined }[] = [];
    const startSpan = (name: string, given: SpanOptions, parent?: Context): Span => {
      const span = tracer.startSpan(name, { ...given, ...more }, parent);
      kept.push({ span, parent });
      return span;
    };
    assert.ok(trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan }) as never }));
    return { tracer, kept };
  }

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

  it('puts an event under the active span, where nobody registered a tracer', () => {
    const remote = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 };
    context.with(trace.setSpanContext(ROOT_CONTEXT, remote), () => {
      const event = inRequest({ traceparent: header }, () => traceOfEvent());
      assert.deepEqual([event.traceId, event.parentSpanId], [remote.traceId, remote.spanId]);
      assert.notEqual(event.spanId, event.parentSpanId);
    });
  });

  it('writes a traceparent with two digits of flags', () => {
    const flags = [
      [0, '00'],
      [1, '01'],
      [0xff, '03'],
    ] as const;
    for (const [traceFlags, written] of flags) {
      const event = traceOfEvent(trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags }));
      assert.equal(event.traceparent, `00-${traceId}-${event.spanId}-${written}`);
    }
  });

  it('takes the context of the call rather than the active one', () => {
    const parentOf = (active: Context) => traceOfEvent(active).parentSpanId;
    const call = trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: 1 });
    const active = trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId: 'c'.repeat(16), traceFlags: 1 });
    for (const prepare of [() => {}, register]) {
      prepare();
      context.with(active, () => assert.deepEqual([parentOf(call), parentOf(ROOT_CONTEXT)], [spanId, null]));
    }
  });

  it('gives the ids of the span of svc, and its parent, sampled or not', () => {
    for (const [options, flags] of [
      [{}, '01'],
      [{ sampler: new AlwaysOffSampler() }, '00'],
    ] as const) {
      const { tracer, kept } = registerKept(options);
      const root = tracer.startSpan('root').spanContext();
      const { end: _, ...event } = traceOfEvent(trace.setSpanContext(ROOT_CONTEXT, root));
      const own = kept[0]?.span.spanContext() ?? assert.fail();
      assert.notEqual(own.spanId, root.spanId);
      assert.deepEqual(event, {
        ...{ traceId: root.traceId, spanId: own.spanId, parentSpanId: root.spanId },
        ...{ traceparent: `00-${root.traceId}-${own.spanId}-${flags}`, tracestate: undefined },
      });
      const first = traceOfEvent(ROOT_CONTEXT);
      assert.deepEqual([first.spanId, first.parentSpanId], [kept[1]?.span.spanContext().spanId, null]);
      trace.disable();
    }
  });

  it('names no parent where the tracer began another trace', () => {
    const { tracer, kept } = registerKept({}, { root: true });
    const parent = trace.setSpan(ROOT_CONTEXT, tracer.startSpan('root'));
    const event = traceOfEvent(parent);
    assert.deepEqual([event.traceId, event.parentSpanId], [kept[0]?.span.spanContext().traceId, null]);
  });

  it('makes ids rather than zeros for a span that is none', () => {
    const [noTrace, noSpan] = ['0'.repeat(32), '0'.repeat(16)];
    const none = [
      { traceId: noTrace, spanId: noSpan },
      { traceId, spanId: noSpan },
      { traceId: noTrace, spanId },
    ];
    for (const ids of none) {
      const span = trace.wrapSpanContext({ ...ids, traceFlags: 0 });
      trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan: () => span }) as never });
      const event = inRequest({ traceparent: header }, () => traceOfEvent(ROOT_CONTEXT));
      assert.deepEqual([event.traceId, event.parentSpanId], [traceId, spanId]);
      assert.match(event.spanId, /[1-9a-f]/);
      assert.notEqual(event.spanId, spanId);
      trace.disable();
    }
  });

  it('starts spans under the traceparent of a request that nobody instrumented', () => {
    const { kept } = registerKept();
    const event = inRequest({ traceparent: header, tracestate: 'a=1' }, () => traceOfEvent());
    const [{ span, parent = ROOT_CONTEXT } = assert.fail()] = kept;
    assert.equal(trace.getSpanContext(parent)?.isRemote, true);
    assert.deepEqual(
      [event.traceId, event.spanId, event.parentSpanId, event.tracestate],
      [traceId, span.spanContext().spanId, spanId, 'a=1'],
    );
  });

  it('leaves the parent alone where there is a span, no request, or no traceparent', () => {
    const { kept } = registerKept();
    const remote = { traceId, spanId, traceFlags: 1, traceState: createTraceState('a=1') };
    const active: Context = trace.setSpanContext(ROOT_CONTEXT, remote);
    inRequest({ traceparent: header.replace('b7', 'c8') }, () => traceOfEvent(active));
    traceOfEvent(ROOT_CONTEXT);
    runWithContext({}, () => traceOfEvent(ROOT_CONTEXT));
    inRequest({}, () => traceOfEvent(ROOT_CONTEXT));
    const parents = kept.map(({ parent }) => [active, ROOT_CONTEXT].indexOf(parent as Context));
    assert.deepEqual(parents, [0, 1, 1, 1]);
    trace.disable();
    assert.equal(traceOfEvent(active).tracestate, 'a=1');
  });
});

describe('otelApi', () => {
  it('is not loaded before somebody registers something', () => {
    const file = fileURLToPath(new URL('../fixtures/lazy-api.ts', import.meta.url));
    const output = execFileSync(process.execPath, [...process.execArgv, file], { encoding: 'utf8' });
    assert.deepEqual(output.split('\n').filter(Boolean), ['ids', 'not loaded', 'loaded', 'tracer']);
  });
});
