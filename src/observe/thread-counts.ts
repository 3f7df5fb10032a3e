import { durationBoundsSeconds } from './durations.ts';
import {
  type BufferState,
  type CaptureTarget,
  type MetricSources,
  maxRecentDlqEvents,
  type OutboxState,
  type RecentDlqEvent,
} from './metrics.ts';
import {
  type EventTypeCounts,
  type Outcome,
  outcomes,
  type SendFailureKind,
  sendFailureKinds,
} from './outcomes.ts';

/** The counts of one worker thread. */
export interface ThreadCounts extends ToldCounts {
  readonly rows: readonly CountRow[];
}

/** Those that go to the main thread again and again: numbers, names and reasons only. */
export interface ToldCounts {
  readonly thread: number;
  readonly brokerErrors: Readonly<Record<SendFailureKind, number>>;
  readonly durations: readonly DurationRow[];
  readonly buffer: BufferState;
  readonly calls: readonly TargetCalls[];
  /** Events of the outbox, as {@link OutboxState.unconfirmed}. */
  readonly unconfirmed: number;
  readonly lastPublishedMs: number | null;
  readonly recentDlqEvents: readonly RecentDlqEvent[];
}

type Counted = Outcome | 'calls' | 'inFlight' | 'retries' | 'dlqFailures' | 'relayed' | 'gaveUp';
const counted: readonly Counted[] = [
  ...(['calls', 'inFlight', ...outcomes, 'retries', 'dlqFailures', 'relayed', 'gaveUp'] as const),
];

type CountRow = Readonly<Record<Counted, number>> & { readonly eventType: string };

type TargetCalls = Pick<CaptureTarget, 'target' | 'calls' | 'failed' | 'skipped'>;

interface DurationRow {
  readonly eventType: string;
  readonly count: number;
  readonly sum: number;
  readonly max: number;
  readonly buckets: readonly number[];
}

export function readCounts(thread: number, sources: MetricSources): ThreadCounts {
  return { ...readTold(thread, sources), rows: [...sources.ledger.rows()].map(countsOf) };
}

export function readTold(thread: number, sources: MetricSources): ToldCounts {
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
      .map(({ target, calls, failed, skipped }) => ({ target, calls, failed, skipped })),
    unconfirmed: sources.outbox?.unconfirmed() ?? 0,
    lastPublishedMs: sources.lastPublishedMs(),
    recentDlqEvents: sources.recentDlqEvents(),
  };
}

/** Of a thread that has not said anything yet. */
export const nothingTold = (thread: number): ToldCounts => ({
  thread,
  brokerErrors: Object.fromEntries(sendFailureKinds.map((kind) => [kind, 0])) as ToldCounts['brokerErrors'],
  durations: [],
  buffer: { events: 0, bytes: 0, overflows: 0 },
  calls: [],
  unconfirmed: 0,
  lastPublishedMs: null,
  recentDlqEvents: [],
});

/** Two threads as one. */
export function addCounts(one: ThreadCounts, other: ThreadCounts): ThreadCounts {
  return {
    thread: one.thread,
    rows: merged([...one.rows, ...other.rows], ({ eventType }) => eventType, addRows),
    brokerErrors: addErrors(one.brokerErrors, other.brokerErrors),
    durations: merged([...one.durations, ...other.durations], ({ eventType }) => eventType, addDurations),
    buffer: addBuffers(one.buffer, other.buffer),
    calls: merged([...one.calls, ...other.calls], ({ target }) => target, addCalls),
    unconfirmed: one.unconfirmed + other.unconfirmed,
    lastPublishedMs: later(one.lastPublishedMs, other.lastPublishedMs),
    recentDlqEvents: newest(one.recentDlqEvents, other.recentDlqEvents),
  };
}

/** `own` with what the other threads counted: what `/metrics` shows. State (circuits, targets, backup, what waits in the outbox) stays that of `own`. */
export function withCounts(own: MetricSources, others: () => ThreadCounts | undefined): MetricSources {
  const all = (): ThreadCounts => {
    const here = readCounts(0, own);
    const there = others();
    return there === undefined ? here : addCounts(here, there);
  };
  return {
    ...own,
    ledger: {
      ...own.ledger,
      rows: () => all().rows.map(withAttributes),
      brokerErrors: () => all().brokerErrors,
    },
    durations: {
      ...own.durations,
      rows: () =>
        all().durations.map(({ eventType, ...counts }) => ({
          attributes: { eventType },
          histogram: { ...counts, record() {} },
        })),
    },
    buffer: () => all().buffer,
    outbox: own.outbox && { ...own.outbox, unconfirmed: () => all().unconfirmed },
    captureTargets: () => {
      const calls = new Map(all().calls.map((each) => [each.target, each]));
      return own.captureTargets().map((target) => ({ ...target, ...calls.get(target.target) }));
    },
    lastPublishedMs: () => all().lastPublishedMs,
    recentDlqEvents: () => all().recentDlqEvents,
  };
}

export function countsOf(row: EventTypeCounts): CountRow {
  const counts = Object.fromEntries(counted.map((name) => [name, row[name]])) as Record<Counted, number>;
  return { ...counts, ...row.attributes };
}

function withAttributes({ eventType, ...counts }: CountRow): EventTypeCounts {
  return { ...counts, attributes: { eventType } };
}

function merged<T>(rows: readonly T[], keyOf: (row: T) => string, add: (one: T, other: T) => T): T[] {
  const found = new Map<string, T>();
  for (const row of rows) {
    const known = found.get(keyOf(row));
    found.set(keyOf(row), known === undefined ? row : add(known, row));
  }
  return [...found.values()];
}

function addCalls(one: TargetCalls, other: TargetCalls): TargetCalls {
  return {
    target: one.target,
    calls: one.calls + other.calls,
    failed: one.failed + other.failed,
    skipped: one.skipped + other.skipped,
  };
}

function addRows(one: CountRow, other: CountRow): CountRow {
  const sums = Object.fromEntries(counted.map((name) => [name, one[name] + other[name]]));
  return { ...(sums as Record<Counted, number>), eventType: one.eventType };
}

function addErrors(
  one: ThreadCounts['brokerErrors'],
  other: ThreadCounts['brokerErrors'],
): ThreadCounts['brokerErrors'] {
  const sums = sendFailureKinds.map((kind) => [kind, one[kind] + other[kind]]);
  return Object.fromEntries(sums) as Record<SendFailureKind, number>;
}

function addDurations(one: DurationRow, other: DurationRow): DurationRow {
  return {
    eventType: one.eventType,
    count: one.count + other.count,
    sum: one.sum + other.sum,
    max: Math.max(one.max, other.max),
    buckets: durationBuckets.map((index) => (one.buckets[index] ?? 0) + (other.buckets[index] ?? 0)),
  };
}

const durationBuckets = Array.from({ length: durationBoundsSeconds.length + 1 }, (_, index) => index);

function addBuffers(one: BufferState, other: BufferState): BufferState {
  return {
    events: one.events + other.events,
    bytes: one.bytes + other.bytes,
    overflows: one.overflows + other.overflows,
  };
}

function later(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.max(one, other);
}

function newest(one: readonly RecentDlqEvent[], other: readonly RecentDlqEvent[]): readonly RecentDlqEvent[] {
  const all = [...one, ...other].sort((a, b) => b.timestampMs - a.timestampMs);
  return all.slice(0, maxRecentDlqEvents);
}
