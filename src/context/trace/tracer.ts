import type { Tracer, TracerProvider } from '@opentelemetry/api';
import { version } from '../../ground/version.ts';
import { hasDelegate, tellOfForeignApi, tracerProvider } from '../../observe/otel-api.ts';

let provider: TracerProvider | undefined;
let tracer: Tracer | undefined;
let tellForeign = (_text: string): void => {};

/** Says at once, or at the first event without a tracer, where the application's SDK is of no use to svc. */
export function sayWhereSdkIsForeign(tell: (text: string) => void): void {
  tellForeign = tell;
  tellOfForeignApi(tell);
}

/**
 * svc's tracer, when there is a tracer provider: handed over or registered; `undefined` until then. Ask again for each event: an
 * application may start its SDK late. A tracer taken before that can stay silent for ever, so none is kept.
 */
export function activeTracer(): Tracer | undefined {
  const current = tracerProvider();
  if (current === undefined) return undefined;
  if (current !== provider) {
    // Nothing registered: the API answers with a proxy that stands for nobody.
    if (!hasDelegate(current)) return void tellOfForeignApi(tellForeign);
    provider = current;
    tracer = current.getTracer('svc', version);
  }
  return tracer;
}
