import { startOwnWork } from '../ground/lifecycle.ts';
import { otelApi } from './otel-api.ts';
import { suppressTracing } from './spans.ts';

/** Starts svc's own work (a send, a query): nothing it calls is captured nor makes spans, now or later. */
export function isolate<T>(work: () => T): T {
  return startOwnWork(() => {
    const api = otelApi();
    return api === undefined ? work() : api.context.with(suppressTracing(api.context.active()), work);
  });
}
