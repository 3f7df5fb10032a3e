import { isMainThread } from 'node:worker_threads';
import { shared } from '../ground/lifecycle.ts';
import type * as Start from '../start/start.ts';
import { watchProcessEnd } from './process-end.ts';
import type { RunningSdk } from './sdk/node-sdk.ts';
import { answerMainThread, type WorkerEnds, watchWorkerEnds } from './worker-end.ts';

/** One svc whose events the end of the process waits for. */
export interface Ending {
  readonly service: Pick<Start.Service, 'pending' | 'isBusy' | 'finish'>;
  /** Milliseconds that its events may take once the process was told to end. */
  readonly deadlineMs: number;
  readonly report: () => void;
}

interface Endings {
  /** More than one while one ends and the next has begun. */
  readonly all: Set<Ending>;
  readonly reported: WeakSet<Ending>;
  /** That svc has started: it stays when svc ends. */
  sdk: RunningSdk | undefined;
  unwatch: (() => void) | undefined;
  /** Asked once: worker threads that run already know nobody else. */
  workers: { readonly ends: WorkerEnds | undefined } | undefined;
}

const endings = shared<Endings>('endings', () => ({
  all: new Set(),
  reported: new WeakSet(),
  sdk: undefined,
  unwatch: undefined,
  workers: undefined,
}));

/** Until the returned function is called. */
export function endWithProcess(ending: Ending): () => void {
  const { all } = endings;
  all.add(ending);
  watch();
  return () => {
    all.delete(ending);
    if (all.size > 0 || endings.sdk !== undefined) return;
    endings.unwatch?.();
    endings.unwatch = undefined;
  };
}

/** It is shut down behind the events of every svc of the process. */
export function endSdkWithProcess(sdk: RunningSdk): void {
  endings.sdk = sdk;
  watch();
}

/** One watch for all: several would each take the others for the application. */
function watch(): void {
  const { all, reported } = endings;
  const reportAll = (): void => {
    for (const one of all) {
      if (!reported.has(one)) one.report();
      reported.add(one);
    }
  };
  const finishAll = async (deadlineMs: number): Promise<boolean> => {
    const finished = await Promise.all([...all].map(({ service }) => service.finish(deadlineMs)));
    return finished.every(Boolean);
  };
  endings.workers ??= { ends: isMainThread ? watchWorkerEnds() : void answerMainThread(reportAll) };
  endings.unwatch ??= watchProcessEnd({
    pending: () => [...all].reduce((sum, { service }) => sum + service.pending(), 0),
    isBusy: () => endings.sdk?.isRunning() === true || [...all].some(({ service }) => service.isBusy()),
    finish: (deadlineMs, end) =>
      endings.sdk === undefined ? finishAll(deadlineMs) : endings.sdk.finishAfter(finishAll)(deadlineMs, end),
    get deadlineMs() {
      return Math.max(endings.sdk?.deadlineMs ?? 0, ...[...all].map((one) => one.deadlineMs));
    },
    report() {
      reportAll();
      endings.workers?.ends?.lastWords();
    },
  });
}
