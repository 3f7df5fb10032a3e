import { isMainThread } from 'node:worker_threads';

/** `handled`: the application has listeners for the signal, and decides when to end. */
export type EndKind = 'handled' | 'signal' | 'natural';

export interface ProcessEnd {
  /** Events without an outcome yet. */
  readonly pending: () => number;
  /** Whether other work is in progress: the relay of the outbox, an SDK that svc started. */
  readonly isBusy: () => boolean;
  /**
   * Waits until every event has its outcome, at most for the deadline; resolves to whether each has. Events are still
   * accepted.
   */
  readonly finish: (deadlineMs: number, end: EndKind) => Promise<boolean>;
  /** Writes the final report, synchronously: lost events, targets never called. */
  readonly report: () => void;
  /** Milliseconds for events in flight after the process was told to end: a signal and the natural end after it share them. */
  readonly deadlineMs: number;
}

/** The minimum for new events at the natural end if the signal before it used up the deadline. */
const leastMs = 500;

const signals = ['SIGTERM', 'SIGINT'] as const;

/** Where the package signal-exit keeps its state, versions 3 and 4. */
const signalExitStates = [
  () => (process as unknown as Record<string, unknown>).__signal_exit_emitter__,
  () => (globalThis as unknown as Record<symbol, unknown>)[Symbol.for('signal-exit emitter')],
];

/**
 * Lets events in flight reach their outcome before the process ends.
 *
 * On `beforeExit` the process waits for them. On a signal that the application handles, svc waits beside it, and the
 * application decides when to end. On other signals svc waits and then triggers the default action. The first process
 * of a container ignores that action: it lives on, with svc. `process.exit()` cannot be delayed: `report` then saves
 * events in flight to the local backup, or reports them as lost.
 */
export function watchProcessEnd(end: ProcessEnd): () => void {
  let ending = false;

  /** How much of the deadline the last handled signal used, and when its wait ended. */
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

  /** One deadline for both ends. An application that works on for longer after the signal gets a new one. */
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
      // Node emits `beforeExit` again after the wait. After a missed deadline there is no second wait; events made since are
      // new.
      waited = !isFinished;
    });
  }
  function onExit(): void {
    if (!reported) end.report();
  }

  process.on('beforeExit', onBeforeExit);
  process.on('exit', onExit);
  // Before other listeners: a `once` listener of the application would be removed by then.
  if (isMainThread) for (const signal of signals) process.prependListener(signal, onSignal);
  return () => {
    process.removeListener('beforeExit', onBeforeExit);
    process.removeListener('exit', onExit);
    for (const signal of signals) process.removeListener(signal, onSignal);
  };
}

/**
 * How many listeners belong to signal-exit, which many tools include. They end the process only when all other
 * listeners are gone: each would wait for the other.
 */
function signalExitListenerCount(): number {
  let sum = 0;
  for (const state of signalExitStates) {
    const { count } = (state() ?? {}) as { count?: unknown };
    if (typeof count === 'number') sum += count;
  }
  return sum;
}
