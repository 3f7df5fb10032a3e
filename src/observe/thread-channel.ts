import {
  BroadcastChannel,
  type MessagePort,
  receiveMessageOnPort,
  threadId,
  type Worker,
} from 'node:worker_threads';
import type { MetricSources } from './metrics.ts';
import { endRow, type Outcome, rowOf, type SharedRow } from './outcomes.ts';
import {
  addCounts,
  countsOf,
  nothingTold,
  readTold,
  type ThreadCounts,
  type ToldCounts,
} from './thread-counts.ts';

const channelName = 'svc.counts';
const actionChannelName = 'svc.actions';
const everyMs = 1_000;

/** Node's, which the types of browsers do not know whole. */
export type Channel = BroadcastChannel & { unref(): void };

/** Worker threads: hands the main thread a row of the ledger, which it reads by itself from now on. */
export function shareRow(row: SharedRow): void {
  const channel = openChannel(channelName);
  channel.postMessage({ thread: threadId, row });
  channel.close();
}

/** Worker threads: tells the main thread every second, and at the end, what else was counted here. Returns what stops it. */
export function tellMainThread(sources: MetricSources): () => void {
  const channel = openChannel(channelName);
  const tell = (): void => channel.postMessage(readTold(threadId, sources));
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

/** What the main thread does when a worker thread has ended, however that was. */
export interface ThreadEnd {
  /** What it had stored may be somebody else's to send now. */
  ended(): void;
  /** Of events that it had in memory only, which are gone with it. */
  outcomeOf(eventType: string): Outcome;
  /** How many of them there were. Called where there were any. */
  left(eventType: string, outcome: Outcome, count: number): void;
}

/** What worker threads counted, those that have ended among them, as counters must not fall. */
export interface WorkerCounts {
  counts(): ThreadCounts | undefined;
  whenEnded(end: ThreadEnd): void;
  close(): void;
}

type Told = ToldCounts | { readonly thread: number; readonly row: SharedRow };

interface Thread {
  readonly rows: SharedRow[];
  told: ToldCounts;
}

/** The main thread: to be called before the application makes its first worker thread. */
export function listenToWorkers(): WorkerCounts {
  const threads = new Map<number, Thread>();
  let ended: ThreadCounts | undefined;
  let end: ThreadEnd | undefined;
  let channel: Channel | undefined;

  function threadOf(id: number): Thread {
    const known = threads.get(id) ?? { rows: [], told: nothingTold(id) };
    threads.set(id, known);
    return known;
  }

  function hear(data: Told): void {
    if ('row' in data) threadOf(data.thread).rows.push(data.row);
    else threadOf(data.thread).told = data;
  }

  /** What threads have said, and the event loop has not brought yet: nothing more comes at the end of the process. */
  function hearAll(): void {
    // A BroadcastChannel will do; the types do not know that.
    const next = () => channel && receiveMessageOnPort(channel as unknown as MessagePort);
    for (let said = next(); said !== undefined; said = next()) hear(said.message);
  }

  function onWorker(worker: Worker): void {
    if (channel === undefined) {
      channel = openChannel(channelName);
      channel.onmessage = (event) => hear((event as { data: Told }).data);
    }
    const { threadId } = worker;
    worker.once('exit', () => {
      end?.ended();
      settle(threadId);
    });
  }

  const sumOf = ({ rows, told }: Thread): ThreadCounts => ({ ...told, rows: rows.map(rowOf).map(countsOf) });

  /** Threads come and go: those that are gone are kept as one. */
  function settle(id: number): void {
    hearAll();
    const last = threads.get(id);
    threads.delete(id);
    if (last === undefined) return;
    for (const row of last.rows) {
      const outcome = end?.outcomeOf(row.eventType) ?? 'lost';
      const count = endRow(row, outcome);
      if (count > 0) end?.left(row.eventType, outcome, count);
    }
    const told = { ...last.told, buffer: { ...last.told.buffer, events: 0, bytes: 0 } };
    const counts = sumOf({ ...last, told });
    ended = ended === undefined ? counts : addCounts(ended, counts);
  }

  process.on('worker', onWorker);
  return {
    counts() {
      hearAll();
      return [...threads.values()]
        .map(sumOf)
        .reduce<ThreadCounts | undefined>(
          (sum, counts) => (sum === undefined ? counts : addCounts(sum, counts)),
          ended,
        );
    },
    whenEnded(told) {
      end = told;
    },
    close() {
      process.removeListener('worker', onWorker);
      hearAll();
      channel?.close();
      channel = undefined;
    },
  };
}

/** What an operator does to a process is done in each of its threads. */
export type ThreadAction = 'resetBreakers' | 'invalidateKeys';

/** The main thread, which does the same itself. */
export function tellThreads(action: ThreadAction): void {
  const channel = openChannel(actionChannelName);
  channel.postMessage(action);
  channel.close();
}

/** Worker threads. Returns what stops it. */
export function hearActions(actions: Readonly<Record<ThreadAction, () => void>>): () => void {
  const channel = openChannel(actionChannelName);
  channel.onmessage = ({ data }: MessageEvent) => actions[data as ThreadAction]?.();
  return () => channel.close();
}

/** It never keeps a thread alive. */
export function openChannel(name: string): Channel {
  const channel = new BroadcastChannel(name) as Channel;
  channel.unref();
  return channel;
}
