import { AsyncLocalStorage, createHook } from 'node:async_hooks';
import type { Logger } from '../../observe/logger.ts';
import { otelApi } from '../../observe/otel-api.ts';
import type { ProcessEnd } from '../process-end.ts';

/** What the SDK gets at the natural end where the collector has taken nothing at the signal before it. */
const oneMoreTryMs = 250;

/**
 * svc's events first, whose spans end with them, then the SDK, in what is left of the time. Never rejects: a collector that
 * is away or hangs costs the process no more than its deadline.
 *
 * Where the application handles the signal itself it may go on for a while: what there is so far is handed over then, and
 * the SDK is shut down at the natural end. `collector` is kept between the two.
 */
export function finishBeforeSdk(
  finish: ProcessEnd['finish'],
  shutDown: () => Promise<void>,
  collector: { hasFailed: boolean },
  logger: Logger,
): ProcessEnd['finish'] {
  return async (deadlineMs, end) => {
    const startedAt = performance.now();
    const isFinished = await finish(deadlineMs, end);
    const leftMs = Math.max(0, deadlineMs - (performance.now() - startedAt));
    const handOver = end === 'handled' ? flushProviders : shutDown;
    const exports = watchExports();
    const limitMs = collector.hasFailed ? Math.min(leftMs, oneMoreTryMs) : leftMs;
    const failure = await failureWithin(limitMs, () => exports.run(handOver));
    if (failure !== undefined && !collector.hasFailed)
      logger.warn(`not all spans and metrics were taken by the collector at the end: ${failure.reason}`);
    collector.hasFailed = failure !== undefined;
    // What still hangs now belongs to the exporters: it goes on while the application does, and keeps no process up.
    if (failure?.isLate) exports.letGo();
    if (failure?.isLate && end === 'natural' && process.listenerCount('beforeExit') <= 1) process.exit();
    return isFinished;
  };
}

interface Watched {
  unref?(): void;
}

/**
 * Knows the timers and connections that exporters make for what `run` starts. Their retries would keep the process up for
 * ten seconds.
 */
function watchExports(): {
  run(work: () => Promise<void>): Promise<void>;
  /** None of them keeps the process up any longer, nor those that come. */
  letGo(): void;
} {
  const here = new AsyncLocalStorage<true>();
  const watched = new Set<WeakRef<Watched>>();
  let isLetGo = false;
  const hook = createHook({
    // What is thrown here would end the process, and what waits would be seen here again.
    init(_id, type, _trigger, resource) {
      if (!kept.has(type)) return;
      try {
        if (here.getStore() !== true) return;
        const { handle = resource } = resource as { handle?: object };
        watched.add(new WeakRef(handle));
        if (isLetGo) queueMicrotask(() => release(handle));
      } catch {
        // One that is not known to be an exporter's stays as it is.
      }
    },
  });
  hook.enable();
  return {
    async run(work) {
      try {
        await here.run(true, work);
      } finally {
        hook.disable();
      }
    },
    letGo() {
      isLetGo = true;
      for (const each of watched) {
        const resource = each.deref();
        if (resource !== undefined) release(resource);
      }
    },
  };
}

/** As Node names what keeps a process up: timers, connections, and connections of a pool that are used again. */
const kept = new Set(['Timeout', 'TCPWRAP', 'PIPEWRAP', 'HTTPCLIENTREQUEST', 'HTTPINCOMINGMESSAGE']);

function release(resource: Watched): void {
  try {
    resource.unref?.();
    // A connection that is not made yet keeps the process up all the same.
    const owner = Object.getOwnPropertySymbols(resource).find(
      ({ description }) => description === 'owner_symbol',
    );
    const socket =
      owner && (resource as Record<symbol, { connecting?: boolean; destroy?(): void } | null>)[owner];
    if (socket?.connecting) socket.destroy?.();
  } catch {
    // It has ended meanwhile.
  }
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
