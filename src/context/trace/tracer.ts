import type { Tracer, TracerProvider } from '@opentelemetry/api';
import { version } from '../../ground/version.ts';
import { otelApi } from '../../observe/otel-api.ts';

let provider: TracerProvider | undefined;
let tracer: Tracer | undefined;

/**
 * svc's tracer, when somebody registered a tracer provider; `undefined` until then. Ask again for each event: an
 * application may start its SDK late. A tracer taken before that can stay silent for ever, so none is kept.
 */
export function activeTracer(): Tracer | undefined {
  const registered = otelApi()?.trace.getTracerProvider();
  if (registered === undefined) return undefined;
  if (registered !== provider) {
    if (!hasDelegate(registered)) return undefined;
    provider = registered;
    tracer = registered.getTracer('svc', version);
  }
  return tracer;
}

/** Nothing registered: the API answers with a proxy that stands for nobody. */
function hasDelegate(registered: TracerProvider): boolean {
  const { getDelegateTracer } = registered as { getDelegateTracer?: (name: string) => unknown };
  return typeof getDelegateTracer !== 'function' || getDelegateTracer.call(registered, 'svc') !== undefined;
}
