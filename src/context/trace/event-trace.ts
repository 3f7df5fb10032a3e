import type { Context } from '@opentelemetry/api';
import { otelApi } from '../../observe/otel-api.ts';
import type { Outcome } from '../../observe/outcomes.ts';
import {
  endProducerSpan,
  formatTraceparent,
  type ProducerSpanShape,
  producerSpanShape,
  type SpanFailure,
  startProducerSpan,
} from '../../observe/spans.ts';
import { currentTrace, spanParent, spanTrace, type TraceIds } from './trace.ts';
import { activeTracer } from './tracer.ts';

/** The trace of one event: the ids of its envelope, the W3C headers of its record, and the span that ends with its outcome. */
export interface EventTrace {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  readonly traceparent: string;
  readonly tracestate: string | undefined;
  /** Ends the span, where there is one. Call it once. */
  end(outcome: Outcome): void;
}

/** `context`: the one that was active when the function was called; default: the active one. */
export type StartTrace = (topic: string, eventId: string, context: Context | undefined) => EventTrace;

/** One PRODUCER span per event where somebody registered a tracer; ids made by svc where nobody did. */
export function createTraceStarter(system: string): StartTrace {
  const shapes = new Map<string, ProducerSpanShape>();
  const shapeOf = (topic: string): ProducerSpanShape => {
    const known = shapes.get(topic);
    if (known !== undefined) return known;
    const shape = producerSpanShape(topic, system);
    shapes.set(topic, shape);
    return shape;
  };

  return (topic, eventId, context) => {
    const tracer = activeTracer();
    const api = otelApi();
    if (tracer === undefined || api === undefined) return withHeaders(currentTrace(context), () => {});
    const parent = spanParent(context ?? api.context.active());
    const span = startProducerSpan(tracer, shapeOf(topic), parent, eventId);
    return withHeaders(spanTrace(span, parent), (outcome) => endProducerSpan(span, failureOf(outcome)));
  };
}

function withHeaders(ids: TraceIds, end: EventTrace['end']): EventTrace {
  return {
    traceId: ids.traceId,
    spanId: ids.spanId,
    parentSpanId: ids.parentSpanId,
    traceparent: formatTraceparent(ids.traceId, ids.spanId, ids.traceFlags),
    tracestate: ids.traceState,
    end,
  };
}

const asMeant: readonly Outcome[] = ['published', 'outbox', 'rolled_back'];

/** An event that did not reach its topic is an error of the send, wherever else it is kept. */
function failureOf(outcome: Outcome): SpanFailure | undefined {
  return asMeant.includes(outcome)
    ? undefined
    : { cause: outcome, message: `the event was not published: ${outcome}` };
}
