import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type * as OpenTelemetry from '@opentelemetry/api';
import type { Context, MeterProvider, Tracer, TracerProvider } from '@opentelemetry/api';
import { nearestManifest } from '../ground/files.ts';
import { shared, startOwnWork } from '../ground/lifecycle.ts';
import { version } from '../ground/version.ts';

type OtelApi = typeof OpenTelemetry;

/** The global registry of all copies of the API 1.x; missing until something is registered. */
const globalsKey = Symbol.for('opentelemetry.js.api.1');
const globals = globalThis as Record<symbol, unknown>;

/** `null`: not tried yet. */
let api: OtelApi | undefined | null = null;

/**
 * The OpenTelemetry API, once something is registered; until then `undefined`, so that applications without OpenTelemetry do
 * not load it (15 ms).
 */
export function otelApi(): OtelApi | undefined {
  if (api !== null) return api;
  return globals[globalsKey] === undefined ? undefined : loadOtelApi();
}

/** The registered context manager, of any copy of the API; `undefined` until one is registered. */
export function registeredContextManager(): object | undefined {
  return (globals[globalsKey] as { readonly context?: object } | undefined)?.context;
}

/** The OpenTelemetry API, loaded now; `undefined` if it is not installed. Registrations are global to the process. */
function loadOtelApi(): OtelApi | undefined {
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

/** The copy of the API that a package in this place resolves to; `undefined`: none. */
function apiFoundFrom(
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

/** Why svc cannot use an SDK that is loaded from this place, in one line; `undefined`: it can. */
export function foreignApiFrom(place: string | URL): string | undefined {
  return foreignApi(apiFoundFrom(place)?.version);
}

/**
 * Why svc cannot use the registered SDK, in one line; `undefined`: it can. The API hides registrations from copies with a
 * higher minor version. `other`: the version of the registering copy.
 */
function foreignApi(other: string | undefined): string | undefined {
  const own = other === undefined ? undefined : apiFoundFrom(import.meta.url);
  if (own === undefined) return undefined;
  const [major, minor] = numbersOf(own.version);
  const [otherMajor, otherMinor] = numbersOf(other as string);
  if (major === otherMajor && (minor ?? 0) <= (otherMinor ?? 0)) return undefined;
  return `the OpenTelemetry SDK uses ${apiName} ${other}, but svc uses ${own.version} (${own.folder}). svc cannot join it: events have their own trace ids, and no spans. Install one version for both: npm ls ${apiName}`;
}

const numbersOf = (version: string): number[] => version.split('.').slice(0, 2).map(Number);

/** The providers that an application has passed to `SvcInstrumentation`. They precede the registered ones. */
interface GivenProviders {
  tracers: TracerProvider | undefined;
  meters: MeterProvider | undefined;
  /** Called when the meter provider changes, which the API does not report. */
  onMeters: (() => void) | undefined;
}

const givenProviders = shared<GivenProviders>('providers', () => ({
  tracers: undefined,
  meters: undefined,
  onMeters: undefined,
}));

/** Sets the providers; `undefined`: the registered ones. */
export function setProviders({ tracers, meters }: Partial<Pick<GivenProviders, 'tracers' | 'meters'>>): void {
  loadOtelApi();
  Object.assign(givenProviders, { tracers, meters });
  givenProviders.onMeters?.();
}

/** Replaces the listener. Returns a function that removes it. */
export function listenToMeters(listener: () => void): () => void {
  givenProviders.onMeters = listener;
  return () => {
    if (givenProviders.onMeters === listener) givenProviders.onMeters = undefined;
  };
}

/** The passed provider, once it is known to have a delegate: checked once, not for each event. */
let settled: TracerProvider | undefined;

/** The provider that was passed, else the registered one; `undefined` if both are missing. */
function tracerProvider(): TracerProvider | undefined {
  const { tracers } = givenProviders;
  if (tracers !== undefined && tracers !== settled && hasDelegate(tracers)) settled = tracers;
  return tracers !== undefined && tracers === settled ? tracers : otelApi()?.trace.getTracerProvider();
}

/** Like `tracerProvider`. Without a registered one: the API's no-op. */
export function meterProvider(): MeterProvider | undefined {
  return givenProviders.meters ?? otelApi()?.metrics.getMeterProvider();
}

/**
 * False for the API's proxy without a delegate. A starting SDK passes that first, and the provider that is registered later may
 * belong to another copy of the API.
 */
function hasDelegate(provider: TracerProvider): boolean {
  const { getDelegateTracer } = provider as { getDelegateTracer?: (name: string) => unknown };
  return typeof getDelegateTracer !== 'function' || getDelegateTracer.call(provider, 'svc') !== undefined;
}

let lookedAt: unknown;

/** Reports once that svc cannot use the registered SDK. */
function tellOfForeignApi(tell: (text: string) => void): void {
  const registered = (globals[globalsKey] as { readonly version?: unknown } | undefined)?.version;
  if (registered === lookedAt) return;
  lookedAt = registered;
  const text = typeof registered === 'string' ? foreignApi(registered) : undefined;
  if (text !== undefined) tell(text);
}

let provider: TracerProvider | undefined;
let tracer: Tracer | undefined;
let tellForeign = (_text: string): void => {};

/** Reports, at once or at the first event without a tracer, an SDK of the application that svc cannot use. */
export function sayWhereSdkIsForeign(tell: (text: string) => void): void {
  tellForeign = tell;
  tellOfForeignApi(tell);
}

/**
 * svc's tracer from the configured or registered tracer provider; `undefined` without one. Call it for each event: an
 * application may start its SDK late, and an earlier tracer can stay a no-op.
 */
export function activeTracer(): Tracer | undefined {
  const current = tracerProvider();
  if (current === undefined) return undefined;
  if (current !== provider) {
    // Without a registration the API returns a proxy without a delegate.
    if (!hasDelegate(current)) return void tellOfForeignApi(tellForeign);
    provider = current;
    tracer = current.getTracer('svc', version);
  }
  return tracer;
}

/** Starts svc's own work (a send, a query): its calls are not captured and make no spans, now or later. */
export function isolate<T>(work: () => T): T {
  return startOwnWork(() => {
    const api = otelApi();
    return api === undefined ? work() : api.context.with(suppressTracing(api.context.active()), work);
  });
}

/** `createContextKey` of the API is `Symbol.for`, so this is the key of `suppressTracing` in `@opentelemetry/core`. */
const suppressTracingKey = Symbol.for('OpenTelemetry SDK Context Key SUPPRESS_TRACING');

/** A context in which no instrumentation makes spans: svc's own sends and queries show as its own span only. */
function suppressTracing(context: Context): Context {
  return context.setValue(suppressTracingKey, true);
}
