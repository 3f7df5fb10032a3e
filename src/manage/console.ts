import { hostname } from 'node:os';
import type { Clock } from '../ground/clock.ts';
import { type CircuitState, circuitStates } from '../ground/management.ts';
import type { BackupState, BufferState, CaptureTarget, MetricSources } from '../observe/metrics.ts';
import { durationBoundsSeconds, type EventCounts } from '../observe/outcomes.ts';
import {
  type BrokerView,
  type Controls,
  type DeadLetters,
  eventsByType,
  type Health,
  type Info,
  type Measured,
  type Recent,
  type RecentSamples,
  type RecoveryRun,
  recentDlqOf,
  type Sample,
  type Totals,
} from './controls.ts';
import { stateOf } from './health-cache.ts';

interface ConsoleParts {
  readonly sources: MetricSources;
  readonly recent: RecentSamples<Totals & Levels>;
  readonly trends: Trends;
  readonly health: Health;
  readonly info: Info;
  readonly environment: string | null;
  readonly traffic: BrokerView | undefined;
  readonly runs: Pick<Controls, 'deadLetterRecovery' | 'backupDrain'>;
  readonly nowMs: number;
}

type News = Pick<ConsoleDocument, 'history' | 'trends'>;

export function newsOf({ recent, trends }: Pick<ConsoleParts, 'recent' | 'trends'>, afterMs: number): News {
  const history = historyOf(recent.samples(), afterMs);
  return { history, trends: afterMs === 0 || history.atMs.length > 0 ? trends.all() : [] };
}

/** Everything else on the page except the actions, read at one moment; never rejects. */
export function consoleFacts(parts: ConsoleParts): Omit<ConsoleDocument, 'actions' | keyof News> {
  const { sources, health, info, environment, traffic, runs, nowMs } = parts;
  const types = typesOf(sources);
  const ofOutbox = sources.outbox?.circuit() ?? null;
  return {
    atMs: nowMs,
    process: {
      ...info,
      ...{ host: hostname(), pid: process.pid, node: process.versions.node, environment },
      upSeconds: Math.floor(process.uptime()),
    },
    health,
    counts: countsOf(sources),
    queue: sources.buffer(),
    backup: sources.backup(),
    breakers: {
      broker: circuitStates[sources.circuit()] as CircuitState,
      outbox: ofOutbox === null ? null : (circuitStates[ofOutbox] as CircuitState),
    },
    connections: traffic ?? { connectionCount: null, inFlightRequests: null, requestLatencyAvg: null },
    types: types.slice(0, mostTypes),
    typeCount: types.length,
    targets: sources.captureTargets(),
    deadLetters: { waiting: sources.dlqWaiting(), recent: recentDlqOf(sources) },
    runs: { deadLetters: runs.deadLetterRecovery.latest(), backup: runs.backupDrain.latest() },
  };
}

function countsOf({ ledger }: MetricSources): ConsoleDocument['counts'] {
  const { brokerErrors: _, ...counts } = ledger.snapshot();
  return counts;
}

function typesOf(sources: MetricSources): TypeFacts[] {
  const published = eventsByType('svc.events.published', sources);
  const failed = eventsByType('svc.events.failed', sources);
  const deadLetters = eventsByType('svc.events.dlq', sources);
  const durations = new Map(
    [...sources.durations.rows()].map(({ attributes, histogram }) => [attributes.eventType, histogram]),
  );
  const types = [...new Set([...published.keys(), ...failed.keys()])].map((eventType) => {
    const took = durations.get(eventType);
    const isKnown = took !== undefined && took.count > 0;
    return {
      eventType,
      published: published.get(eventType) ?? 0,
      failed: failed.get(eventType) ?? 0,
      deadLetters: deadLetters.get(eventType) ?? 0,
      meanMs: isKnown ? Math.round((took.sum / took.count) * 10_000) / 10 : null,
      maxMs: isKnown ? Math.round(took.max * 10_000) / 10 : null,
    };
  });
  return types.sort((one, other) => other.published + other.failed - one.published - one.failed);
}

/** The content of the console page, in one answer. Holds no event content. */
export interface ConsoleDocument {
  /** Unix time in milliseconds. */
  readonly atMs: number;
  readonly process: ProcessFacts;
  readonly health: Health;
  /** Outcomes of the calls since the start, and the counts of the relay of this process. */
  readonly counts: EventCounts;
  readonly queue: BufferState;
  readonly backup: BackupState;
  readonly breakers: { readonly broker: CircuitState; readonly outbox: CircuitState | null };
  readonly connections: BrokerView;
  /** The busiest, {@link mostTypes} at most. */
  readonly types: readonly TypeFacts[];
  readonly typeCount: number;
  /** Of the busiest types; empty if the page has them already. */
  readonly trends: readonly Trend[];
  readonly targets: readonly CaptureTarget[];
  readonly deadLetters: DeadLetters;
  readonly history: History;
  readonly runs: { readonly deadLetters: LatestRuns; readonly backup: LatestRuns };
  readonly actions: readonly string[];
}

interface ProcessFacts extends Info {
  readonly host: string;
  readonly pid: number;
  readonly node: string;
  /** `deployment.environment.name` of OpenTelemetry's resource, or `NODE_ENV`. */
  readonly environment: string | null;
  readonly upSeconds: number;
}

/** Events of one type, those of the relay included. */
interface TypeFacts {
  readonly eventType: string;
  readonly published: number;
  readonly failed: number;
  readonly deadLetters: number;
  readonly meanMs: number | null;
  readonly maxMs: number | null;
}

/** Events of a type within each step of ten seconds, for ten minutes at most. */
interface Trend {
  readonly eventType: string;
  readonly events: readonly number[];
}

interface LatestRuns {
  readonly run: RecoveryRun | null;
  readonly dryRun: RecoveryRun | null;
}

/** Counts within each step of ten seconds, one column per series. */
export interface History {
  /** End of the step, as Unix time in milliseconds. */
  readonly atMs: readonly number[];
  readonly seconds: readonly number[];
  readonly published: readonly number[];
  readonly failed: readonly number[];
  /** `null`: nothing was sent. */
  readonly meanMs: readonly (number | null)[];
  /** The 95th percentile, estimated from the buckets of the histogram. */
  readonly p95Ms: readonly (number | null)[];
  /** Events in memory, in the local backup, and in the outbox. */
  readonly queued: readonly number[];
  readonly backup: readonly number[];
  readonly outbox: readonly (number | null)[];
  /** Breaker for the broker: index in `circuitStates`. */
  readonly circuit: readonly number[];
}

const mostTypes = 100;

/** Sampled every ten seconds, beside the counts for the thresholds. */
export interface Levels {
  /** Unix time in milliseconds. */
  readonly wallMs: number;
  readonly queued: number;
  readonly backup: number;
  readonly outbox: number | null;
  readonly circuit: number;
  /** Of the durations of all event types, as in the histogram. */
  readonly buckets: readonly number[];
}

export function levelsOf(sources: MetricSources, wallMs: number): Levels {
  const buckets: number[] = new Array(durationBoundsSeconds.length + 1).fill(0);
  for (const { histogram } of sources.durations.rows())
    for (const [index, count] of histogram.buckets.entries()) (buckets[index] as number) += count;
  return {
    ...{ wallMs, buckets, circuit: sources.circuit() },
    queued: sources.buffer().events,
    backup: sources.backup().events,
    outbox: sources.outbox?.pending() ?? null,
  };
}

export function historyOf(samples: readonly Sample<Totals & Levels>[], afterMs: number): History {
  const steps = samples
    .slice(1)
    .map(({ atMs, totals: now }, index) => {
      const before = samples[index] as Sample<Totals & Levels>;
      return { now, seconds: (atMs - before.atMs) / 1_000, before: before.totals };
    })
    .filter(({ now }) => now.wallMs > afterMs);
  const column = <T>(value: (step: (typeof steps)[number]) => T): T[] => steps.map(value);
  return {
    atMs: column(({ now }) => now.wallMs),
    seconds: column(({ seconds }) => Math.round(seconds * 10) / 10),
    published: column(({ now, before }) => now.published - before.published),
    failed: column(({ now, before }) => now.failed - before.failed),
    meanMs: column(({ now, before }) => {
      const sends = now.sends - before.sends;
      return sends === 0 ? null : tenth(((now.sendSeconds - before.sendSeconds) * 1_000) / sends);
    }),
    p95Ms: column(({ now, before }) =>
      percentileMs(
        now.buckets.map((count, index) => count - (before.buckets[index] as number)),
        0.95,
      ),
    ),
    queued: column(({ now }) => now.queued),
    backup: column(({ now }) => now.backup),
    outbox: column(({ now }) => now.outbox),
    circuit: column(({ now }) => now.circuit),
  };
}

/** As in Prometheus: linear within a bucket; values above the last bound count as that bound. */
function percentileMs(buckets: readonly number[], share: number): number | null {
  const all = buckets.reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  let left = all * share;
  for (const [index, upper] of durationBoundsSeconds.entries()) {
    const count = buckets[index] as number;
    const lower = durationBoundsSeconds[index - 1] ?? 0;
    if (count > 0 && left <= count) return tenth((lower + ((upper - lower) * left) / count) * 1_000);
    left -= count;
  }
  return (durationBoundsSeconds.at(-1) as number) * 1_000;
}

const tenth = (value: number): number => Math.round(value * 10) / 10;

const freshMs = 15_000;
/** Shorter, so that a recovery shows soon. */
const freshWhenDownMs = 5_000;

/**
 * For a page that polls every two seconds: requests to brokers and databases are cached longer, counts of this process are
 * current.
 */
export function askSlowly(
  health: () => Promise<Health>,
  recent: Recent,
  clock: Pick<Clock, 'monotonic'>,
  others: () => Pick<Measured, 'targets' | 'backupProblem'> = () => ({}),
): () => Promise<Health> {
  let kept: { readonly health: Health; readonly untilMs: number } | undefined;
  return async () => {
    if (kept === undefined || clock.monotonic() >= kept.untilMs) {
      const asked = await health();
      const forMs = asked.status === 'UP' && asked.details.ageMs === undefined ? freshMs : freshWhenDownMs;
      kept = { health: asked, untilMs: clock.monotonic() + forMs };
    }
    const { findings: _, ...details } = kept.health.details;
    return { ...kept.health, details: { ...details, ...stateOf(recent, details.outbox, others()) } };
  };
}

/** The number of types, the busiest since the start. */
export const mostTrends = 50;
/** Ten minutes. */
const mostSteps = 60;

interface Trends {
  step(): void;
  all(): readonly Trend[];
}

/** The events of the busiest types within each of the last steps. A type that joins them starts without history. */
export function createTrends(read: () => ReadonlyMap<string, number>): Trends {
  interface Seen {
    readonly total: number;
    readonly events: readonly number[];
  }
  const busiest = (): [string, number][] =>
    [...read()].sort(([, one], [, other]) => other - one).slice(0, mostTrends);
  let seen = new Map<string, Seen>(busiest().map(([type, total]) => [type, { total, events: [] }]));
  return {
    step() {
      seen = new Map(
        busiest().map(([type, total]) => {
          const before = seen.get(type);
          const events =
            before === undefined ? [] : [...before.events, total - before.total].slice(-mostSteps);
          return [type, { total, events }];
        }),
      );
    },
    all: () => [...seen].map(([eventType, { events }]) => ({ eventType, events })),
  };
}

/** Events that reached their topic, and events that did not. */
export function totalsByType(sources: MetricSources): Map<string, number> {
  const totals = eventsByType('svc.events.published', sources);
  for (const [type, failed] of eventsByType('svc.events.failed', sources))
    totals.set(type, (totals.get(type) ?? 0) + failed);
  return totals;
}
