import { clock, inTime } from '../ground/clock.ts';
import type { CaptureTarget } from '../observe/metrics.ts';
import { targetStates } from '../observe/outcomes.ts';
import type { Health, HealthDetails, KeyHealth, OutboxHealth, OutboxSummary } from './controls.ts';

// health of this process: one small request to the broker now and then, and the thresholds over recent counts.

export interface ClusterState {
  readonly clusterId: string | null;
  readonly nodeCount: number;
}

export interface HealthCacheOptions {
  /** Sends a request to the broker; rejects with a one-line message if it is unreachable. */
  readonly probe: () => Promise<ClusterState>;
  /** Details without a probe, read at each answer. */
  readonly known: () => Pick<
    HealthDetails,
    'brokerProducerInitialized' | 'topic' | 'dlqTopic' | 'worker' | 'tooLargeEvents'
  >;
  /** A reason to be DOWN besides the broker, such as a lost event; one line. */
  readonly alert?: () => string | undefined;
  /** A remark that does not affect the status; one line. */
  readonly remark?: (() => string | undefined) | undefined;
  /** Recent counts, read at each answer. */
  readonly recent?: Recent | undefined;
  /** Why the local backup cannot be used; one line. Read at each answer. */
  readonly backupProblem?: () => string | null | undefined;
  /** Configured functions, read at each answer. */
  readonly targets?: (() => readonly CaptureTarget[]) | undefined;
  /** Keys of marked fields, read at each answer: a DOWN key makes the whole DOWN. */
  readonly keys?: () => readonly KeyHealth[];
  /** Never rejects. Health waits for it; DOWN makes the whole DOWN. */
  readonly outbox?: (() => Promise<OutboxHealth>) | undefined;
  /** A probe that started at `sinceMs` has failed or timed out. */
  readonly onAway?: (error: string, sinceMs: number) => void;
  /** How long a result is reused. Default: 5000. */
  readonly freshMs?: number;
  /** After this time a probe counts as failed. Default: 3000. */
  readonly timeoutMs?: number;
  /** After this time a caller gets the previous result and its age. Default: 500. */
  readonly answerMs?: number;
}

type Result = { readonly state: ClusterState } | { readonly error: string };

/** A probe is abandoned after this time, so that a hanging one does not hide a recovery. */
const abandonAfterMs = 30_000;

interface Answer {
  readonly result: Result;
  readonly ageMs?: number;
}

/**
 * Health with at most one small request to the broker per `freshMs`. One probe runs at a time. Concurrent callers share its
 * result, or get the previous one after `answerMs`. Late results of a timed-out probe are used when they arrive.
 */
export function cacheHealth(options: HealthCacheOptions): () => Promise<Health> {
  const { probe, known, alert, keys, freshMs = 5000, timeoutMs = 3000, answerMs = 500 } = options;
  let last: { readonly result: Result; readonly atMs: number } | undefined;
  let running: { readonly answer: Promise<Result>; readonly sinceMs: number } | undefined;

  const keep = (result: Result): Result => {
    last = { result, atMs: clock.monotonic() };
    return result;
  };

  const start = (): Promise<Result> => {
    const sinceMs = clock.monotonic();
    const outcome = attempt(probe);
    const late = (): Result => ({ error: `The broker did not answer within ${timeoutMs} ms.` });
    const answer = inTime(outcome, { limitMs: timeoutMs, keepsAlive: false, late }).then(keep);
    void answer.then((result) => {
      if ('error' in result) options.onAway?.(oneLine(result.error), sinceMs);
    });
    const current = { answer, sinceMs };
    running = current;
    void outcome.then((result) => {
      if (running !== current) return;
      running = undefined;
      keep(result);
    });
    return answer;
  };

  const latest = async (): Promise<Answer> => {
    const nowMs = clock.monotonic();
    if (last !== undefined && nowMs - last.atMs < freshMs) return { result: last.result };
    const isAsked = running !== undefined && nowMs - running.sinceMs < abandonAfterMs;
    const answer = isAsked && running !== undefined ? running.answer : start();
    const soon = await inTime(answer, { limitMs: answerMs, keepsAlive: false, late: () => undefined });
    if (soon !== undefined) return { result: soon };
    if (last === undefined) return { result: { error: `The broker has not answered yet (${answerMs} ms).` } };
    return { result: last.result, ageMs: Math.round(clock.monotonic() - last.atMs) };
  };

  return async () => {
    const [answer, outbox] = await Promise.all([latest(), options.outbox?.()]);
    const health = describe(answer, known(), alert?.(), keys?.() ?? [], outbox, options.remark?.());
    if (options.recent === undefined) return health;
    return {
      ...health,
      details: {
        ...health.details,
        ...stateOf(options.recent, outbox, {
          targets: options.targets?.() ?? [],
          backupProblem: options.backupProblem?.(),
        }),
      },
    };
  };
}

function describe(
  { result, ageMs }: Answer,
  known: ReturnType<HealthCacheOptions['known']>,
  alert: string | undefined,
  keys: readonly KeyHealth[],
  outbox: OutboxHealth | undefined,
  warning: string | undefined,
): Health {
  const state = 'state' in result ? result.state : undefined;
  const error = ('error' in result ? result.error : alert) ?? missingKey(keys) ?? outbox?.error;
  return {
    status: error === undefined ? 'UP' : 'DOWN',
    details: {
      brokerProducerInitialized: known.brokerProducerInitialized,
      clusterId: state?.clusterId ?? null,
      nodeCount: state?.nodeCount ?? null,
      topic: known.topic,
      dlqTopic: known.dlqTopic,
      ...(known.worker === undefined ? {} : { worker: known.worker }),
      ...(known.tooLargeEvents === undefined ? {} : { tooLargeEvents: known.tooLargeEvents }),
      ...(keys.length === 0 ? {} : { keys: keys.map((key) => oneLineEach(key)) }),
      ...(outbox === undefined ? {} : { outbox: oneLineEach(outbox) }),
      ...(ageMs === undefined ? {} : { ageMs }),
      ...(warning === undefined ? {} : { warning: oneLine(warning) }),
      ...(error === undefined ? {} : { error: oneLine(error) }),
    },
  };
}

function stateOf(
  recent: Recent,
  outbox: OutboxHealth | undefined,
  others: Pick<Measured, 'targets' | 'backupProblem'>,
): Pick<HealthDetails, 'state' | 'findings'> {
  const dlqOfLastMinute = recent.within(60_000).dlq;
  const findings = findingsOf(
    { recent: recent.within(recentMs), dlqOfLastMinute, outbox, ...others },
    recent.findings?.(),
  );
  return {
    state: findings[0]?.state ?? 'HEALTHY',
    ...(findings.length > 0 && { findings: findings.map(({ state, text }) => `${state}: ${text}`) }),
  };
}

function missingKey(keys: readonly KeyHealth[]): string | undefined {
  const missing = keys.find(({ status }) => status === 'DOWN');
  if (missing === undefined) return undefined;
  const { keyId, provider, error } = missing;
  return `Marked fields cannot be protected with the key "${keyId}" (${provider}): ${error}`;
}

function oneLineEach<T extends { readonly error?: string }>(part: T): T {
  return part.error === undefined ? part : { ...part, error: oneLine(part.error) };
}

async function attempt(probe: () => Promise<ClusterState>): Promise<Result> {
  try {
    return { state: await probe() };
  } catch (error) {
    return {
      error: error instanceof Error && error.message !== '' ? error.message : 'The broker cannot be reached.',
    };
  }
}

const maxErrorLength = 300;

function oneLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must not get out.
  return text.replace(/[\u0000-\u001f\u007f]+/g, ' ').slice(0, maxErrorLength);
}

const pageFreshMs = 15_000;
/** Shorter, so that a recovery shows soon. */
const pageFreshWhenDownMs = 5_000;

/**
 * For a page that polls every two seconds: requests to brokers and databases are cached longer, counts of this process are
 * current.
 */
export function askSlowly(
  health: () => Promise<Health>,
  recent: Recent,
  others: () => Pick<Measured, 'targets' | 'backupProblem'> = () => ({}),
): () => Promise<Health> {
  let kept: { readonly health: Health; readonly untilMs: number } | undefined;
  return async () => {
    if (kept === undefined || clock.monotonic() >= kept.untilMs) {
      const asked = await health();
      const forMs =
        asked.status === 'UP' && asked.details.ageMs === undefined ? pageFreshMs : pageFreshWhenDownMs;
      kept = { health: asked, untilMs: clock.monotonic() + forMs };
    }
    const { findings: _, ...details } = kept.health.details;
    return { ...kept.health, details: { ...details, ...stateOf(recent, details.outbox, others()) } };
  };
}

interface Finding {
  readonly state: 'WARNING' | 'CRITICAL';
  /** One line: value, threshold and remedy. */
  readonly text: string;
}

export interface Measured {
  readonly recent: Totals;
  /** Dead letters of the last minute: whether their number rises. */
  readonly dlqOfLastMinute: number;
  readonly outbox: OutboxSummary | undefined;
  /** Why the local backup cannot be used; one line. */
  readonly backupProblem?: string | null | undefined;
  readonly targets?: readonly CaptureTarget[];
}

type Rule = (measured: Measured) => Finding | undefined;

/** A mean of fewer sends is meaningless: the first event of a process waits for its connections. */
const leastSends = 10;
/** Targets named in one finding; GET /actuator/svc/targets has all. */
const mostShown = 3;
const lately = 'in the last five minutes';

const rules: readonly Rule[] = [
  ({ backupProblem }) =>
    backupProblem ? { state: 'WARNING', text: `the next outage loses events: ${backupProblem}` } : undefined,
  ({ recent: { published, failed } }) => {
    if (failed === 0) return undefined;
    const rate = (published * 100) / (published + failed);
    const threshold = [95, 99, 99.5].find((least) => rate < least);
    if (threshold === undefined) return undefined;
    const text = `${cut(rate)} % of the events ${lately} reached their topics, under ${threshold} %: see svc_events_failed_total for the event types, and the log for the reason`;
    return { state: threshold === 95 ? 'CRITICAL' : 'WARNING', text };
  },
  ({ recent: { dlq }, dlqOfLastMinute }) =>
    over(dlq, 0, dlqOfLastMinute > 0 ? 10 : Number.POSITIVE_INFINITY, (threshold) =>
      threshold === 0
        ? `${dlq} dead letters ${lately}. See the reasons: npx --no svc dlq list. Send them: npx --no svc dlq recover`
        : `${dlq} dead letters ${lately}, over ${threshold}, and their number grows. See the reasons: npx --no svc dlq list`,
    ),
  ({ recent: { brokerErrors } }) =>
    over(
      brokerErrors,
      0,
      5,
      (threshold) => `${brokerErrors} sends failed ${lately}, over ${threshold}: see the log for the cause`,
    ),
  ({ recent: { sends, sendSeconds } }) => {
    const meanMs = sends < leastSends ? 0 : (sendSeconds * 1_000) / sends;
    return over(
      meanMs,
      100,
      500,
      (threshold) =>
        `events took ${cut(meanMs)} ms on average ${lately}, over ${threshold} ms: check the load of the brokers, and the network`,
    );
  },
  ({ outbox }) =>
    over(
      outbox?.totalPending ?? 0,
      1_000,
      Number.POSITIVE_INFINITY,
      () =>
        `${outbox?.totalPending} events wait in the outbox, over 1000: check that its relays run and keep up`,
    ),
  ({ outbox }) =>
    over(
      outbox?.consecutiveFailures ?? 0,
      3,
      Number.POSITIVE_INFINITY,
      () =>
        `${outbox?.consecutiveFailures} sends from the outbox failed in a row, over 3: check that the brokers answer`,
    ),
  ({ outbox }) =>
    outbox?.totalPending
      ? over(
          outbox.timeSinceLastSuccessMs ?? 0,
          60_000,
          Number.POSITIVE_INFINITY,
          () =>
            `nothing was sent from the outbox for ${Math.floor((outbox.timeSinceLastSuccessMs ?? 0) / 1_000)} s (over 60 s) while events wait: check that the brokers answer`,
        )
      : undefined,
  ({ targets = [] }) => {
    const silent = targets.filter(({ state }) => targetStates[state].level === 'critical');
    if (silent.length === 0) return undefined;
    const shown = silent.slice(0, mostShown).map(({ target, reason }) => `${target}: ${reason}`);
    if (silent.length > mostShown) shown.push(`and ${silent.length - mostShown} more`);
    return {
      state: 'WARNING',
      text: `${silent.length} of ${targets.length} targets make no events: ${shown.join('; ')}`,
    };
  },
];

/** All findings, the worst first. */
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

/** Rounded down to two places, so that a value below a threshold does not read as equal to it. */
const cut = (value: number): number => Math.floor(value * 100) / 100;

/** Counters since the start. */
export interface Totals {
  readonly published: number;
  /** Events that did not reach their topic. */
  readonly failed: number;
  readonly dlq: number;
  readonly brokerErrors: number;
  /** Events that left the publisher, and their total time in it. */
  readonly sends: number;
  readonly sendSeconds: number;
}

/** Throttling is reported for a minute longer, as some quotas apply for milliseconds, again and again. */
const throttledMs = 60_000;

/** @param held the last quota response of a broker. `untilMs`: on the monotonic clock */
export function throttleFinding(
  held: { readonly untilMs: number; readonly message: string } | undefined,
): readonly Finding[] {
  if (held === undefined || held.untilMs < clock.monotonic() - throttledMs) return [];
  return [{ state: 'WARNING', text: held.message }];
}

/** Recent counts. Totals since the start never recover from one dead letter, and a good past hides an outage. */
export interface Recent {
  /** The counts of the last `ms` milliseconds, one hour at most; accurate to ten seconds. */
  within(ms: number): Totals;
  /** Findings that do not derive from counts. */
  findings?(): readonly Finding[];
  close(): void;
}

export interface Sample<T extends Totals> {
  readonly atMs: number;
  readonly totals: T;
}

interface RecentSamples<T extends Totals> extends Recent {
  /** The samples of the last hour, ten seconds apart, oldest first. */
  samples(): readonly Sample<T>[];
}

export const recentMs = 300_000;
const keptMs = 3_600_000;
const stepMs = 10_000;

interface Watching {
  /** Called after each sample except the first. */
  readonly onStep?: () => void;
  /** The totals alone, if the rest of a sample is slow. */
  readonly totals?: () => Totals;
  readonly findings?: () => readonly Finding[];
}

export function watchRecent<T extends Totals>(
  read: () => T,
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
