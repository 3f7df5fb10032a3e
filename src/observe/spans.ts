import type {
  Attributes,
  Context,
  Span,
  SpanKind,
  SpanOptions,
  SpanStatusCode,
  Tracer,
} from '@opentelemetry/api';

// The API's constants, as numbers: reading them from the module would load it.
const producerKind: SpanKind.PRODUCER = 3;
const errorStatus: SpanStatusCode.ERROR = 2;

/** Flags of a trace: sampled (1) and random (2); the others are not defined. */
export const definedFlags = 0x03;

/** `createContextKey` of the API is `Symbol.for`, so this is the very key of `suppressTracing` in `@opentelemetry/core`. */
const suppressTracingKey = Symbol.for('OpenTelemetry SDK Context Key SUPPRESS_TRACING');

/** What the producer spans of one topic share: made once per target, not per event. */
export interface ProducerSpanShape {
  readonly name: string;
  readonly options: SpanOptions;
}

/** `system` is the value of `messaging.system`: `kafka`, or the name of the broker client where it is not Kafka. */
export function producerSpanShape(
  topic: string,
  system: string,
  attributes: Attributes = {},
): ProducerSpanShape {
  return {
    name: `send ${topic}`,
    options: {
      kind: producerKind,
      attributes: {
        ...attributes,
        'messaging.system': system,
        'messaging.destination.name': topic,
        'messaging.operation.name': 'send',
        'messaging.operation.type': 'send',
      },
    },
  };
}

/** Starts the one PRODUCER span of an event, as a child of what was active in `parent` when the function was called. */
export function startProducerSpan(
  tracer: Tracer,
  shape: ProducerSpanShape,
  parent: Context,
  eventId: string,
): Span {
  const span = tracer.startSpan(shape.name, shape.options, parent);
  span.setAttribute('messaging.message.id', eventId);
  return span;
}

/** Why a span ends as an error; both texts are free of payload values. */
export interface SpanFailure {
  /** Low-cardinality: a class name or code, such as `UNKNOWN_TOPIC_OR_PARTITION`. Becomes `error.type`. */
  readonly cause: string;
  readonly message: string;
}

/** Ends the span of an event, as an error when its event did not get to its topic. */
export function endProducerSpan(span: Span, failure?: SpanFailure): void {
  if (failure !== undefined) {
    span.setAttribute('error.type', failure.cause);
    span.setStatus({ code: errorStatus, message: failure.message });
  }
  span.end();
}

/** In this context no instrumentation makes spans: svc's own sends and queries show as its own span only. */
export function suppressTracing(context: Context): Context {
  return context.setValue(suppressTracingKey, true);
}

/** The `traceparent` header of a record. */
export function formatTraceparent(traceId: string, spanId: string, traceFlags: number): string {
  return `00-${traceId}-${spanId}-0${(traceFlags & definedFlags).toString(16)}`;
}
