import { otelApi } from '../../observe/otel-api.ts';

interface Flushable {
  forceFlush?(): Promise<void>;
  /** Of the proxy that the API hands out for a tracer provider. */
  getDelegate?(): Flushable;
}

/** Hands over what the SDK holds, and leaves it running. Rejects where the collector does not take it. */
export async function flushProviders(): Promise<void> {
  const api = otelApi();
  const providers = [api?.trace.getTracerProvider(), api?.metrics.getMeterProvider()] as (
    | Flushable
    | undefined
  )[];
  await Promise.all(
    providers.map((provider) => {
      const flushable = provider?.getDelegate?.() ?? provider;
      return flushable?.forceFlush?.();
    }),
  );
}
