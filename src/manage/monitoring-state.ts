import type { Clock } from '../ground/clock.ts';
import type { CaptureTarget } from '../observe/metrics.ts';
import type { OutboxSummary } from './metrics-shapes.ts';

export type MonitoringState = 'HEALTHY' | 'WARNING' | 'CRITICAL';

/** A threshold of the specification that is crossed. */
export interface Finding {
  readonly state: Exclude<MonitoringState, 'HEALTHY'>;
  /** One line: what was measured, the threshold, and what to do. */
  readonly text: string;
}

/** What is looked at: counts of the last five minutes, and the outbox as it is now. */
export interface Measured {
  readonly recent: Totals;
  /** Dead letters of the last minute: their number rises. */
  readonly dlqOfLastMinute: number;
  readonly outbox: OutboxSummary | undefined;
  /** Why the local backup cannot be used; one line. */
  readonly backupProblem?: string | null | undefined;
  /** As they are now. */
  readonly targets?: readonly CaptureTarget[];
}

type Rule = (measured: Measured) => Finding | undefined;

/** A mean of less than so many says nothing: the first event of a process waits for its connections. */
const leastSends = 10;
/** Of targets that make no events: GET /actuator/svc/targets has all of them. */
const mostShown = 3;
const lately = 'in the last five minutes';

const rules: readonly Rule[] = [
  ({ backupProblem }) =>
    backupProblem
      ? { state: 'WARNING', text: `the next outage loses events, as ${backupProblem}` }
      : undefined,
  ({ recent: { published, failed } }) => {
    if (failed === 0) return undefined;
    const rate = (published * 100) / (published + failed);
    const threshold = [95, 99, 99.5].find((least) => rate < least);
    if (threshold === undefined) return undefined;
    const text = `${cut(rate)} % of the events ${lately} got to their topics, under ${threshold} %: svc_events_failed_total says which event types do not, the log why`;
    return { state: threshold === 95 ? 'CRITICAL' : 'WARNING', text };
  },
  ({ recent: { dlq }, dlqOfLastMinute }) =>
    over(dlq, 0, dlqOfLastMinute > 0 ? 10 : Number.POSITIVE_INFINITY, (threshold) =>
      threshold === 0
        ? `${dlq} dead letters ${lately}: npx --no svc dlq list says why, dlq recover sends them`
        : `${dlq} dead letters ${lately}, over ${threshold}, and more come: npx --no svc dlq list says why`,
    ),
  ({ recent: { brokerErrors } }) =>
    over(
      brokerErrors,
      0,
      5,
      (threshold) => `${brokerErrors} sends failed ${lately}, over ${threshold}: the log names the cause`,
    ),
  ({ recent: { sends, sendSeconds } }) => {
    const meanMs = sends < leastSends ? 0 : (sendSeconds * 1_000) / sends;
    return over(
      meanMs,
      100,
      500,
      (threshold) =>
        `events took ${cut(meanMs)} ms on average ${lately}, over ${threshold} ms: look at the load of the brokers and the way to them`,
    );
  },
  ({ outbox }) =>
    over(
      outbox?.totalPending ?? 0,
      1_000,
      Number.POSITIVE_INFINITY,
      () =>
        `${outbox?.totalPending} events wait in the outbox, over 1000: see whether its relays run and keep up`,
    ),
  ({ outbox }) =>
    over(
      outbox?.consecutiveFailures ?? 0,
      3,
      Number.POSITIVE_INFINITY,
      () =>
        `${outbox?.consecutiveFailures} sends from the outbox failed in a row, over 3: see whether the brokers answer`,
    ),
  ({ outbox }) =>
    outbox?.totalPending
      ? over(
          outbox.timeSinceLastSuccessMs ?? 0,
          60_000,
          Number.POSITIVE_INFINITY,
          () =>
            `nothing was sent from the outbox for ${Math.floor((outbox.timeSinceLastSuccessMs ?? 0) / 1_000)} s, over 60 s, and events wait: see whether the brokers answer`,
        )
      : undefined,
  ({ targets = [] }) => {
    const silent = targets.filter(({ state }) => state === 'failed' || state === 'unloaded');
    if (silent.length === 0) return undefined;
    const shown = silent.slice(0, mostShown).map(({ target, reason }) => `${target}: ${reason}`);
    if (silent.length > mostShown) shown.push(`and ${silent.length - mostShown} more`);
    return {
      state: 'WARNING',
      text: `${silent.length} of ${targets.length} targets make no events: ${shown.join('; ')}`,
    };
  },
];

/** What is crossed, and what else was found, the worst first. */
export function findingsOf(measured: Measured, others: readonly Finding[] = []): readonly Finding[] {
  const found = rules.map((rule) => rule(measured)).filter((finding) => finding !== undefined);
  return [...found, ...others].sort(
    (one, other) => Number(one.state === 'WARNING') - Number(other.state === 'WARNING'),
  );
}

function over(
  value: number,
  warning: number,
  critical: number,
  text: (threshold: number) => string,
): Finding | undefined {
  if (value > critical) return { state: 'CRITICAL', text: text(critical) };
  return value > warning ? { state: 'WARNING', text: text(warning) } : undefined;
}

/** Rounded down, to two places: what is under a threshold does not read as if it were not. */
const cut = (value: number): number => Math.floor(value * 100) / 100;

/** Counts that only grow. */
export interface Totals {
  readonly published: number;
  /** Those that did not get to their topic. */
  readonly failed: number;
  readonly dlq: number;
  readonly brokerErrors: number;
  /** Events that the publisher has had, and the seconds that it had them for, all together. */
  readonly sends: number;
  readonly sendSeconds: number;
}

/** A minute after a broker has held events back it is still worth a look: some quotas do so for milliseconds, again and again. */
const throttledMs = 60_000;

/** @param held what a broker has said last of its quotas. `untilMs`: on the monotonic clock */
export function throttleFinding(
  held: { readonly untilMs: number; readonly message: string } | undefined,
  clock: Clock,
): readonly Finding[] {
  if (held === undefined || held.untilMs < clock.monotonic() - throttledMs) return [];
  return [{ state: 'WARNING', text: held.message }];
}

/** What was counted lately: totals since the start never recover from one dead letter, and a good past hides an outage. */
export interface Recent {
  /** Within the last so many milliseconds, an hour at most; the beginning is right to ten seconds. */
  within(ms: number): Totals;
  /** What is not a matter of counts. */
  findings?(): readonly Finding[];
  close(): void;
}

/** What was read at one moment of the monotonic clock. */
export interface Sample<T extends Totals> {
  readonly atMs: number;
  readonly totals: T;
}

export interface RecentSamples<T extends Totals> extends Recent {
  /** Those of the last hour, ten seconds apart, the oldest first. */
  samples(): readonly Sample<T>[];
}

/** What the thresholds look at. */
export const recentMs = 300_000;
const keptMs = 3_600_000;
const stepMs = 10_000;

interface Watching {
  /** Hears of each sample but the first. */
  readonly onStep?: () => void;
  /** The totals alone, where the rest of a sample takes time. */
  readonly totals?: () => Totals;
  readonly findings?: () => readonly Finding[];
}

export function watchRecent<T extends Totals>(
  read: () => T,
  clock: Clock,
  { onStep, totals: readTotals = read, findings = () => [] }: Watching = {},
): RecentSamples<T> {
  let samples: Sample<T>[] = [{ atMs: clock.monotonic(), totals: read() }];
  const timer = setInterval(() => {
    const nowMs = clock.monotonic();
    samples.push({ atMs: nowMs, totals: read() });
    const begun = samples.findLastIndex(({ atMs }) => atMs <= nowMs - keptMs);
    if (begun > 0) samples = samples.slice(begun);
    onStep?.();
  }, stepMs).unref();
  return {
    within(ms) {
      const sinceMs = clock.monotonic() - ms;
      const { totals } =
        samples.findLast(({ atMs }) => atMs <= sinceMs) ?? (samples[0] as (typeof samples)[0]);
      return difference(readTotals(), totals);
    },
    findings,
    samples: () => samples,
    close: () => clearInterval(timer),
  };
}

function difference(now: Totals, before: Totals): Totals {
  return {
    published: now.published - before.published,
    failed: now.failed - before.failed,
    dlq: now.dlq - before.dlq,
    brokerErrors: now.brokerErrors - before.brokerErrors,
    sends: now.sends - before.sends,
    sendSeconds: now.sendSeconds - before.sendSeconds,
  };
}
