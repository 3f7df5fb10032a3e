import { BroadcastChannel, threadId, type Worker } from 'node:worker_threads';
import type { MetricSources } from './metrics.ts';
import { addCounts, readCounts, type ThreadCounts } from './thread-counts.ts';

const channelName = 'svc.counts';
const resetChannelName = 'svc.reset';
const everyMs = 1_000;

/** Node's, which the types of browsers do not know whole. */
export type Channel = BroadcastChannel & { unref(): void };

/** Worker threads: tells the main thread every second, and at the end, what was counted here. Returns what stops it. */
export function tellMainThread(sources: MetricSources): () => void {
  const channel = openChannel(channelName);
  const tell = (): void => channel.postMessage(readCounts(threadId, sources));
  const timer = setInterval(tell, everyMs);
  timer.unref();
  const end = (): void => {
    process.removeListener('exit', end);
    clearInterval(timer);
    tell();
    channel.close();
  };
  process.once('exit', end);
  return end;
}

/** What worker threads told, those that have ended among them, as counters must not fall. */
export interface WorkerCounts {
  counts(): ThreadCounts | undefined;
  close(): void;
}

/** The main thread: to be called before the application makes its first worker thread. */
export function listenToWorkers(): WorkerCounts {
  const told = new Map<number, ThreadCounts>();
  let ended: ThreadCounts | undefined;
  let channel: Channel | undefined;

  function onWorker(worker: Worker): void {
    if (channel === undefined) {
      channel = openChannel(channelName);
      channel.onmessage = (event) => {
        const { data } = event as { data: ThreadCounts };
        told.set(data.thread, data);
      };
    }
    const { threadId } = worker;
    // Later, as its last word may still be on its way.
    worker.once('exit', () => setTimeout(settle, everyMs, threadId).unref());
  }

  /** Threads come and go: those that are gone are kept as one. */
  function settle(thread: number): void {
    const last = told.get(thread);
    told.delete(thread);
    if (last === undefined) return;
    const counts = { ...last, buffer: { ...last.buffer, events: 0, bytes: 0 } };
    ended = ended === undefined ? counts : addCounts(ended, counts);
  }

  process.on('worker', onWorker);
  return {
    counts: () =>
      [...told.values()].reduce<ThreadCounts | undefined>(
        (sum, counts) => (sum === undefined ? counts : addCounts(sum, counts)),
        ended,
      ),
    close() {
      process.removeListener('worker', onWorker);
      channel?.close();
    },
  };
}

/** The main thread: its circuit breakers are reset, and so are to be those of its worker threads. */
export function tellReset(): void {
  const channel = openChannel(resetChannelName);
  channel.postMessage(null);
  channel.close();
}

/** Worker threads. Returns what stops it. */
export function hearReset(reset: () => void): () => void {
  const channel = openChannel(resetChannelName);
  channel.onmessage = reset;
  return () => channel.close();
}

/** It never keeps a thread alive. */
export function openChannel(name: string): Channel {
  const channel = new BroadcastChannel(name) as Channel;
  channel.unref();
  return channel;
}
