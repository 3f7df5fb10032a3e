import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type * as OpenTelemetry from '@opentelemetry/api';
import type {
  Attributes,
  Context,
  MeterProvider,
  Span,
  SpanKind,
  SpanOptions,
  SpanStatusCode,
  Tracer,
  TracerProvider,
} from '@opentelemetry/api';
import { nearestManifest } from '../ground/files.ts';
import { shared, startOwnWork } from '../ground/lifecycle.ts';

export type OtelApi = typeof OpenTelemetry;

/** Where every copy of the API, of any 1.x, keeps what was registered; absent until somebody registers something. */
const globalsKey = Symbol.for('opentelemetry.js.api.1');
const globals = globalThis as Record<symbol, unknown>;

/** `null`: not tried yet. */
let api: OtelApi | undefined | null = null;

/**
 * The OpenTelemetry API, once there is anything to ask it; until then `undefined`, so that an application without
 * OpenTelemetry never pays for loading it (15 ms).
 */
export function otelApi(): OtelApi | undefined {
  if (api !== null) return api;
  return globals[globalsKey] === undefined ? undefined : loadOtelApi();
}

/** What carries OpenTelemetry's context in this process, of whichever copy of the API; `undefined` until somebody registers one. */
export function registeredContextManager(): object | undefined {
  return (globals[globalsKey] as { readonly context?: object } | undefined)?.context;
}

/** The OpenTelemetry API, loaded now; `undefined` where it is not installed. What is registered is one per process. */
export function loadOtelApi(): OtelApi | undefined {
  if (api === null) {
    try {
      api = createRequire(import.meta.url)('@opentelemetry/api') as OtelApi;
    } catch {
      api = undefined;
    }
  }
  return api;
}

const apiName = '@opentelemetry/api';

/** The copy of the API that a package in this place finds; `undefined`: none. */
export function apiFoundFrom(
  place: string | URL,
): { readonly folder: string; readonly version: string } | undefined {
  try {
    const file = createRequire(place).resolve(apiName);
    const { folder, version } = nearestManifest(dirname(file), ({ name }) => name === apiName) ?? {};
    return folder === undefined || version === undefined ? undefined : { folder, version };
  } catch {
    return undefined;
  }
}

/**
 * What svc gets nothing of, in a line; `undefined`: all is well. The API gives nobody what a copy with a lower minor version has
 * registered. `other`: the version of that copy.
 */
export function foreignApi(other: string | undefined): string | undefined {
  const own = other === undefined ? undefined : apiFoundFrom(import.meta.url);
  if (own === undefined) return undefined;
  const [major, minor] = numbersOf(own.version);
  const [otherMajor, otherMinor] = numbersOf(other as string);
  if (major === otherMajor && (minor ?? 0) <= (otherMinor ?? 0)) return undefined;
  return `the OpenTelemetry SDK uses ${apiName} ${other}, but svc uses ${own.version} (${own.folder}). svc cannot join it: events have their own trace ids, and no spans. Install one version for both: npm ls ${apiName}`;
}

const numbersOf = (version: string): number[] => version.split('.').slice(0, 2).map(Number);

/** Looked at once for each version that is registered. */
let lookedAt: unknown;

/** Says that what is registered gives svc nothing, when that is noticed. */
export function tellOfForeignApi(tell: (text: string) => void): void {
  const registered = (globals[globalsKey] as { readonly version?: unknown } | undefined)?.version;
  if (registered === lookedAt) return;
  lookedAt = registered;
  const text = typeof registered === 'string' ? foreignApi(registered) : undefined;
  if (text !== undefined) tell(text);
}

/** What an application has handed to `SvcInstrumentation`: it goes before what is registered for the whole process. */
interface HandedOver {
  tracers: TracerProvider | undefined;
  meters: MeterProvider | undefined;
  /** Told when the meter provider changes, which the API tells nobody. */
  onMeters: (() => void) | undefined;
}

const handedOver = shared<HandedOver>('providers', () => ({
  tracers: undefined,
  meters: undefined,
  onMeters: undefined,
}));

/** Spans go to this provider from now on; `undefined`: to the registered one. */
export function handOverTracers(tracers: TracerProvider | undefined): void {
  loadOtelApi();
  handedOver.tracers = tracers;
}

/** Instruments go to this provider from now on; `undefined`: to the registered one. */
export function handOverMeters(meters: MeterProvider | undefined): void {
  handedOver.meters = meters;
  handedOver.onMeters?.();
}

/** One at a time: the last one hears. Returns what ends it. */
export function listenToMeters(listener: () => void): () => void {
  handedOver.onMeters = listener;
  return () => {
    if (handedOver.onMeters === listener) handedOver.onMeters = undefined;
  };
}

/** Handed over, and known to stand for somebody: asked once, not for each event. */
let settled: TracerProvider | undefined;

/** The one that was handed over, else the registered one; `undefined` as long as there is neither. */
export function tracerProvider(): TracerProvider | undefined {
  const { tracers } = handedOver;
  if (tracers !== undefined && tracers !== settled && hasDelegate(tracers)) settled = tracers;
  return tracers !== undefined && tracers === settled ? tracers : otelApi()?.trace.getTracerProvider();
}

/** As `tracerProvider`. Nothing registered: the API's own, which keeps nothing. */
export function meterProvider(): MeterProvider | undefined {
  return handedOver.meters ?? otelApi()?.metrics.getMeterProvider();
}

/**
 * False for the API's proxy while it stands for nobody. An SDK that starts hands that over first, and the one that is registered
 * later may belong to another copy of the API.
 */
export function hasDelegate(provider: TracerProvider): boolean {
  const { getDelegateTracer } = provider as { getDelegateTracer?: (name: string) => unknown };
  return typeof getDelegateTracer !== 'function' || getDelegateTracer.call(provider, 'svc') !== undefined;
}

/** The API's no-op hands out the same meter for every name. An SDK that starts hands that over first. */
export function keepsNothing(meters: MeterProvider): boolean {
  // Only what looks like it is asked: a provider keeps every name that it is asked for.
  const isBare =
    Object.keys(meters).length === 0 &&
    Object.getOwnPropertyNames(Object.getPrototypeOf(meters)).length === 2;
  return isBare && meters.getMeter('svc') === meters.getMeter('svc', 'none');
}

/** Starts svc's own work (a send, a query): nothing it calls is captured nor makes spans, now or later. */
export function isolate<T>(work: () => T): T {
  return startOwnWork(() => {
    const api = otelApi();
    return api === undefined ? work() : api.context.with(suppressTracing(api.context.active()), work);
  });
}

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
