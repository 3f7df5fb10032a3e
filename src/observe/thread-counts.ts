import {
  BroadcastChannel,
  type MessagePort,
  receiveMessageOnPort,
  threadId,
  type Worker,
} from 'node:worker_threads';
import type { BufferState, CaptureTarget, MetricSources, OutboxState } from './metrics.ts';
import {
  type EventCounts,
  type EventTypeCounts,
  maxRecentDlqEvents,
  type Outcome,
  type RecentDlqEvent,
  readRow,
  type SendFailureKind,
  type SharedRow,
  sendFailureKinds,
  targetStates,
  totalOf,
} from './outcomes.ts';

interface ThreadCounts extends ToldCounts {
  readonly rows: readonly CountRow[];
}

/** The part that the main thread gets periodically: numbers, names and reasons only. */
interface ToldCounts {
  readonly thread: number;
  readonly brokerErrors: Readonly<Record<SendFailureKind, number>>;
  readonly durations: readonly DurationRow[];
  readonly buffer: BufferState;
  readonly calls: readonly TargetCalls[];
  /** As {@link OutboxState.unconfirmed}. */
  readonly unconfirmed: number;
  /** As {@link OutboxState.unjoined}. */
  readonly unjoined: number;
  readonly lastPublishedMs: number | null;
  readonly recentDlqEvents: readonly RecentDlqEvent[];
}

type CountRow = EventCounts & { readonly eventType: string };

/** Of a target that is patched in the thread. */
type TargetCalls = Calls & Pick<CaptureTarget, 'target'>;
type Calls = Pick<CaptureTarget, 'calls' | 'failed' | 'skipped'>;

interface DurationRow {
  readonly eventType: string;
  readonly count: number;
  readonly sum: number;
  readonly max: number;
  readonly buckets: readonly number[];
}

function readCounts(thread: number, sources: MetricSources): ThreadCounts {
  return { ...readTold(thread, sources), rows: [...sources.ledger.rows()].map(countsOf) };
}

function readTold(thread: number, sources: MetricSources): ToldCounts {
  const { ledger, durations } = sources;
  return {
    thread,
    brokerErrors: { ...ledger.brokerErrors() },
    durations: [...durations.rows()].map(({ attributes, histogram: { count, sum, max, buckets } }) => ({
      ...attributes,
      ...{ count, sum, max, buckets: [...buckets] },
    })),
    buffer: sources.buffer(),
    calls: sources
      .captureTargets()
      .filter(({ state }) => state === 'patched')
      .map(({ target, calls, failed, skipped }) => ({ target, calls, failed, skipped })),
    unconfirmed: sources.outbox?.unconfirmed() ?? 0,
    unjoined: sources.outbox?.unjoined() ?? 0,
    lastPublishedMs: sources.lastPublishedMs(),
    recentDlqEvents: sources.recentDlqEvents(),
  };
}

/** Of a thread that has not reported yet. */
const nothingTold = (thread: number): ToldCounts => ({
  thread,
  brokerErrors: Object.fromEntries(sendFailureKinds.map((kind) => [kind, 0])) as ToldCounts['brokerErrors'],
  durations: [],
  buffer: { events: 0, bytes: 0, overflows: 0 },
  calls: [],
  unconfirmed: 0,
  unjoined: 0,
  lastPublishedMs: null,
  recentDlqEvents: [],
});

function addCounts(one: ThreadCounts, other: ThreadCounts): ThreadCounts {
  const [earlier, later] = [one.lastPublishedMs, other.lastPublishedMs];
  const recent = [...one.recentDlqEvents, ...other.recentDlqEvents];
  return {
    thread: one.thread,
    rows: merged([...one.rows, ...other.rows], ({ eventType }) => eventType),
    brokerErrors: sums(one.brokerErrors, other.brokerErrors),
    durations: merged([...one.durations, ...other.durations], ({ eventType }) => eventType),
    buffer: sums(one.buffer, other.buffer),
    calls: merged([...one.calls, ...other.calls], ({ target }) => target),
    unconfirmed: one.unconfirmed + other.unconfirmed,
    unjoined: one.unjoined + other.unjoined,
    lastPublishedMs: earlier === null || later === null ? (earlier ?? later) : Math.max(earlier, later),
    recentDlqEvents: recent.sort((a, b) => b.timestampMs - a.timestampMs).slice(0, maxRecentDlqEvents),
  };
}

/** See `WorkerCounts`. */
function withCounts(own: MetricSources, others: () => ThreadCounts | undefined): MetricSources {
  /** `own` itself if there are no other threads: a sum would copy the rows of all event types for each number. */
  const all = (): MetricSources => {
    const there = others();
    return there === undefined ? own : sourcesOf(own, addCounts(readCounts(0, own), there));
  };
  return {
    ...own,
    ledger: {
      ...own.ledger,
      rows: () => all().ledger.rows(),
      brokerErrors: () => all().ledger.brokerErrors(),
    },
    durations: { ...own.durations, rows: () => all().durations.rows() },
    buffer: () => all().buffer(),
    outbox: own.outbox && {
      ...own.outbox,
      unconfirmed: () => all().outbox?.unconfirmed() ?? 0,
      unjoined: () => all().outbox?.unjoined() ?? 0,
    },
    captureTargets: () => {
      const there = others();
      return own.captureTargets().map((each) => withCalls(each, each.target, there));
    },
    lastPublishedMs: () => all().lastPublishedMs(),
    recentDlqEvents: () => all().recentDlqEvents(),
  };
}

function sourcesOf(own: MetricSources, counts: ThreadCounts): MetricSources {
  const durations = counts.durations.map(({ eventType, ...histogram }) => ({
    attributes: { eventType },
    histogram: { ...histogram, record() {} },
  }));
  return {
    ...own,
    ledger: {
      ...own.ledger,
      rows: () => counts.rows.map(({ eventType, ...row }) => ({ ...row, attributes: { eventType } })),
      brokerErrors: () => counts.brokerErrors,
    },
    durations: { ...own.durations, rows: () => durations },
    buffer: () => counts.buffer,
    outbox: own.outbox && {
      ...own.outbox,
      unconfirmed: () => counts.unconfirmed,
      unjoined: () => counts.unjoined,
    },
    lastPublishedMs: () => counts.lastPublishedMs,
    recentDlqEvents: () => counts.recentDlqEvents,
  };
}

/** See `WorkerCounts`. */
function withCalls<T extends Omit<CaptureTarget, 'target'>>(
  own: T,
  target: string,
  others: ThreadCounts | undefined,
): T {
  const there = others?.calls.find((each) => each.target === target);
  if (there === undefined) return own;
  const { calls, failed, skipped } = there;
  return {
    ...own,
    ...(targetStates[own.state].isAway && { state: 'patched', reason: undefined }),
    ...sums<Calls>({ calls, failed, skipped }, own),
  };
}

function countsOf(row: EventTypeCounts): CountRow {
  return { ...totalOf([row]), ...row.attributes };
}

function merged<T extends object>(rows: readonly T[], nameOf: (row: T) => string): T[] {
  const found = new Map<string, T>();
  for (const row of rows) {
    const known = found.get(nameOf(row));
    found.set(nameOf(row), known === undefined ? row : sums(known, row));
  }
  return [...found.values()];
}

/** Adds numbers and lists of numbers, takes the larger `max`, and keeps names. */
function sums<T extends object>(one: T, other: T): T {
  const rest = new Map<string, unknown>(Object.entries(other));
  const entries = Object.entries(one).map(([name, value]: [string, unknown]) => {
    const more = rest.get(name);
    if (Array.isArray(value)) return [name, value.map((each, index) => each + (more as number[])[index])];
    if (typeof value !== 'number') return [name, value];
    return [name, name === 'max' ? Math.max(value, more as number) : value + (more as number)];
  });
  return Object.fromEntries(entries) as T;
}

const channelName = 'svc.counts';
const actionChannelName = 'svc.actions';
const everyMs = 1_000;

/** Node's type: that of browsers lacks `unref`. */
type Channel = BroadcastChannel & { unref(): void };

/** Worker threads: shares a row of the ledger with the main thread, which reads it directly from then on. */
export function shareRow(row: SharedRow): void {
  const channel = openChannel(channelName);
  channel.postMessage({ thread: threadId, row });
  channel.close();
}

/**
 * Worker threads: sends all other counts to the main thread every second and at the end, and runs the actions that `tellThreads`
 * tells. Returns a function that stops both.
 */
export function joinMainThread(
  sources: MetricSources,
  actions: Readonly<Record<ThreadAction, () => void>>,
): () => void {
  const heard = openChannel(actionChannelName);
  heard.onmessage = ({ data }: MessageEvent) => actions[data as ThreadAction]?.();
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
  return () => {
    end();
    heard.close();
  };
}

/** Called in the main thread when a worker thread has ended for any reason. */
interface ThreadEnd {
  /** Other threads may now send its stored events. */
  ended(): void;
  /** The outcome of events that were only in its memory. */
  outcomeOf(eventType: string): Outcome;
  left(eventType: string, outcome: Outcome, count: number): void;
}

/** The counts of worker threads, ended ones included, as counters must not fall. */
interface WorkerCounts {
  /** `own` plus these counts, for `/metrics`. State (circuits, targets, backup, outbox) stays that of `own`. */
  withCounts(own: MetricSources): MetricSources;
  /** Targets across threads: another thread may have loaded them. */
  withCalls<T extends Omit<CaptureTarget, 'target'>>(own: readonly T[], targetOf: (one: T) => string): T[];
  whenEnded(end: ThreadEnd): void;
  close(): void;
}

type Told = ToldCounts | { readonly thread: number; readonly row: SharedRow };

interface Thread {
  readonly rows: ReturnType<typeof readRow>[];
  told: ToldCounts;
}

/** The main thread: call it before the application creates its first worker thread. */
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
    if ('row' in data) threadOf(data.thread).rows.push(readRow(data.row));
    else threadOf(data.thread).told = data;
  }

  /** Reads messages that the event loop has not delivered: none is delivered at the end of the process. */
  function hearAll(): void {
    // It accepts a BroadcastChannel; its types do not.
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

  const sumOf = ({ rows, told }: Thread): ThreadCounts => ({ ...told, rows: rows.map(countsOf) });

  /** Ended threads are merged into one. */
  function settle(id: number): void {
    hearAll();
    const last = threads.get(id);
    threads.delete(id);
    if (last === undefined) return;
    for (const row of last.rows) {
      const { eventType } = row.attributes;
      const outcome = end?.outcomeOf(eventType) ?? 'lost';
      const count = row.end(outcome);
      if (count > 0) end?.left(eventType, outcome, count);
    }
    const told = { ...last.told, buffer: { ...last.told.buffer, events: 0, bytes: 0 } };
    const counts = sumOf({ ...last, told });
    ended = ended === undefined ? counts : addCounts(ended, counts);
  }

  function counts(): ThreadCounts | undefined {
    hearAll();
    return [...threads.values()]
      .map(sumOf)
      .reduce<ThreadCounts | undefined>(
        (sum, counts) => (sum === undefined ? counts : addCounts(sum, counts)),
        ended,
      );
  }

  process.on('worker', onWorker);
  return {
    withCounts: (own) => withCounts(own, counts),
    withCalls(own, targetOf) {
      const there = counts();
      return own.map((one) => withCalls(one, targetOf(one), there));
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

/** Actions of an operator that apply to each thread. */
type ThreadAction = 'resetBreakers' | 'invalidateKeys';

/** The main thread, which runs the same action itself. */
export function tellThreads(action: ThreadAction): void {
  const channel = openChannel(actionChannelName);
  channel.postMessage(action);
  channel.close();
}

/** Unref'd: it does not keep a thread alive. */
export function openChannel(name: string): Channel {
  const channel = new BroadcastChannel(name) as Channel;
  channel.unref();
  return channel;
}
