import type { Logger } from '../../observe/logger.ts';
import { otelApi } from '../../observe/otel-api.ts';
import type { ProcessEnd } from '../process-end.ts';

/**
 * svc's events first, whose spans end with them, then the SDK, in what is left of the time. Never rejects: a collector that
 * is away or hangs costs the process no more than its deadline.
 *
 * Where the application handles the signal itself it may go on for a while: what there is so far is handed over then, and
 * the SDK is shut down at the natural end.
 */
export function finishBeforeSdk(
  finish: ProcessEnd['finish'],
  shutDown: () => Promise<void>,
  logger: Logger,
): ProcessEnd['finish'] {
  return async (deadlineMs, end) => {
    const startedAt = performance.now();
    const isFinished = await finish(deadlineMs, end);
    const leftMs = Math.max(0, deadlineMs - (performance.now() - startedAt));
    const handOver = end === 'handled' ? flushProviders : shutDown;
    const failure = await failureWithin(leftMs, handOver);
    if (failure !== undefined)
      logger.warn(`not all spans and metrics were taken by the collector at the end: ${failure.reason}`);
    // What still hangs now belongs to the exporters, unless the application does last work of its own.
    if (failure?.isLate && end === 'natural' && process.listenerCount('beforeExit') <= 1) process.exit();
    return isFinished;
  };
}

interface Failure {
  readonly reason: string;
  readonly isLate: boolean;
}

async function failureWithin(limitMs: number, work: () => Promise<void>): Promise<Failure | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Failure>((resolve) => {
    const reason = 'it did not answer in time';
    timer = setTimeout(() => resolve({ reason, isLate: true }), limitMs);
  });
  const done = async (): Promise<Failure | undefined> => {
    try {
      await work();
      return undefined;
    } catch (error) {
      return { reason: reasonOf(error), isLate: false };
    }
  };
  const failure = await Promise.race([done(), late]);
  clearTimeout(timer);
  return failure;
}

/** By its code where there is one: the message of an exporter can hold headers and the answer's body. */
function reasonOf(error: unknown): string {
  return String(partOf(error, 'code') ?? partOf(error, 'name') ?? 'unknown error');
}

/** Exporters reject with lists of errors, and wrap what Node has said. */
function partOf(error: unknown, part: 'code' | 'name', depth = 0): unknown {
  if (typeof error !== 'object' || error === null || depth > 4) return undefined;
  const { [part]: own, cause, errors } = error as Record<string, unknown>;
  if (typeof own === 'string' && own !== 'AggregateError') return own;
  const inside = [cause, ...(Array.isArray(error) ? error : []), ...(Array.isArray(errors) ? errors : [])];
  for (const each of inside) {
    const found = partOf(each, part, depth + 1);
    if (found !== undefined) return found;
  }
  return own;
}

interface Flushable {
  forceFlush?(): Promise<void>;
  /** Of the proxy that the API hands out for a tracer provider. */
  getDelegate?(): Flushable;
}

/** Hands over what the SDK holds, and leaves it running. Rejects where the collector does not take it. */
async function flushProviders(): Promise<void> {
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
