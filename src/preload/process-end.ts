import { isMainThread } from 'node:worker_threads';

/** `handled`: the application has listeners for the signal, and decides when to end. */
export type EndKind = 'handled' | 'signal' | 'natural';

export interface ProcessEnd {
  /** Events without an outcome yet. */
  readonly pending: () => number;
  /** Whether something else has work to finish: the relay of the outbox, an SDK that svc has started. */
  readonly isBusy: () => boolean;
  /** Waits until every event has its outcome, up to the deadline, and says whether each has; draft stays open. */
  readonly finish: (deadlineMs: number, end: EndKind) => Promise<boolean>;
  /** Last, synchronous words: what was left, what was never called. */
  readonly report: () => void;
  /** Milliseconds that events in flight may take once the process was told to end, over a signal and the natural end after it. */
  readonly deadlineMs: number;
}

/** What new events get at the natural end where all of the time went by at the signal before it. */
const leastMs = 500;

const signals = ['SIGTERM', 'SIGINT'] as const;

/** Where the package signal-exit keeps its state, version 3 and version 4. */
const signalExitStates = [
  () => (process as unknown as Record<string, unknown>).__signal_exit_emitter__,
  () => (globalThis as unknown as Record<symbol, unknown>)[Symbol.for('signal-exit emitter')],
];

/**
 * Lets events in flight reach their outcome before the process ends.
 *
 * `beforeExit`: the process waits for them. A signal: where the application handles it, svc only waits beside it and the
 * application decides when to end; otherwise svc waits, then lets the signal do what it does by default. That is nothing for
 * the first process of a container: it lives on, and so does svc.
 * `process.exit()` cannot be held up: what is in flight then is saved to the local backup, or said to be lost, by `report`.
 */
export function watchProcessEnd(end: ProcessEnd): () => void {
  let ending = false;

  /** What the last signal that the application handles has taken of the deadline, and when that was over. */
  let spent = { ms: 0, at: Number.NEGATIVE_INFINITY };

  async function onSignal(signal: NodeJS.Signals): Promise<void> {
    if (process.pid === 1 || process.listenerCount(signal) - 1 > signalExitListenerCount()) {
      const from = performance.now();
      await end.finish(end.deadlineMs, 'handled');
      const at = performance.now();
      spent = { ms: at - from, at };
      return;
    }
    if (ending) return leave(signal);
    ending = true;
    await end.finish(end.deadlineMs, 'signal');
    leave(signal);
  }

  /** One deadline for both; an application that works on for longer than that after the signal has an end of its own. */
  function leftMs(): number {
    const { deadlineMs } = end;
    if (performance.now() - spent.at > deadlineMs) return deadlineMs;
    return Math.max(deadlineMs - spent.ms, Math.min(deadlineMs, leastMs));
  }

  function leave(signal: NodeJS.Signals): void {
    end.report();
    reported = true;
    process.removeListener(signal, onSignal);
    process.kill(process.pid, signal);
  }

  let reported = false;
  let waited = false;
  function onBeforeExit(): void {
    if (waited || (end.pending() === 0 && !end.isBusy())) return;
    waited = true;
    void end.finish(leftMs(), 'natural').then((isFinished) => {
      // Node asks again when the wait is over: what is left after the deadline is not waited for a second time. Events that
      // whoever waited for these has made since are new.
      waited = !isFinished;
    });
  }
  function onExit(): void {
    if (!reported) end.report();
  }

  process.on('beforeExit', onBeforeExit);
  process.on('exit', onExit);
  // First in line: a `once` listener of the application that ran before would be gone, and look as if there were none.
  if (isMainThread) for (const signal of signals) process.prependListener(signal, onSignal);
  return () => {
    process.removeListener('beforeExit', onBeforeExit);
    process.removeListener('exit', onExit);
    for (const signal of signals) process.removeListener(signal, onSignal);
  };
}

/**
 * Listeners of signal-exit, which many tools bring along: they end the process themselves, but only when all other
 * listeners are gone. Each would wait for the other.
 */
function signalExitListenerCount(): number {
  let sum = 0;
  for (const state of signalExitStates) {
    const { count } = (state() ?? {}) as { count?: unknown };
    if (typeof count === 'number') sum += count;
  }
  return sum;
}
