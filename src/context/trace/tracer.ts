import type { Tracer, TracerProvider } from '@opentelemetry/api';
import { version } from '../../ground/version.ts';
import { hasDelegate, tracerProvider } from '../../observe/otel-api.ts';

let provider: TracerProvider | undefined;
let tracer: Tracer | undefined;

/**
 * svc's tracer, when there is a tracer provider: handed over or registered; `undefined` until then. Ask again for each event: an
 * application may start its SDK late. A tracer taken before that can stay silent for ever, so none is kept.
 */
export function activeTracer(): Tracer | undefined {
  const current = tracerProvider();
  if (current === undefined) return undefined;
  if (current !== provider) {
    // Nothing registered: the API answers with a proxy that stands for nobody.
    if (!hasDelegate(current)) return undefined;
    provider = current;
    tracer = current.getTracer('svc', version);
  }
  return tracer;
}
