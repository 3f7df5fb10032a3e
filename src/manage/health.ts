import { clock, inTime } from '../ground/clock.ts';
import type { KeyHealth } from '../ground/management.ts';
import type { CaptureTarget } from '../observe/metrics.ts';
import { targetStates } from '../observe/outcomes.ts';
import type { Health, HealthDetails, OutboxHealth, OutboxSummary } from './controls.ts';

// health of this process: one small request to the broker now and then, and the thresholds over recent counts.

type ClusterState = Pick<HealthDetails, 'clusterId' | 'nodeCount'>;

interface HealthOptions<T extends Totals> {
  /** Sends a request to the broker; rejects with a one-line message if it is unreachable. */
  readonly probe: () => Promise<ClusterState>;
  /** Details without a probe, read at each answer. */
  readonly known: () => Pick<
    HealthDetails,
    'brokerProducerInitialized' | 'topic' | 'dlqTopic' | 'worker' | 'tooLargeEvents'
  >;
  /** Counters since the start, read at each answer. */
  readonly totals: () => Totals;
  /** What a sample keeps: the counters, and more. */
  readonly sample: () => T;
  /** Called after each sample except the first. */
  readonly onStep?: () => void;
  /** A reason to be DOWN besides the broker, such as a lost event; one line. */
  readonly alert?: () => string | undefined;
  /** A remark that does not affect the status; one line. */
  readonly remark?: (() => string | undefined) | undefined;
  /** The last quota response of a broker. `untilMs`: on the monotonic clock. Read at each answer. */
  readonly heldBack?: () => HeldBack | undefined;
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
}

interface HeldBack {
  readonly untilMs: number;
  readonly message: string;
}

/** A view of the health of this process. It looks at the counts every ten seconds until it is closed. */
export function watchHealth<T extends Totals>(options: HealthOptions<T>) {
  const recent = watchRecent(options);
  const stateNow: StateNow = (outbox) =>
    stateOf(
      {
        recent: recent.within(recentMs),
        dlqOfLastMinute: recent.within(60_000).dlq,
        outbox,
        targets: options.targets?.() ?? [],
        backupProblem: options.backupProblem?.(),
      },
      throttleFinding(options.heldBack?.()),
    );
  const health = cacheHealth(options, stateNow);
  return {
    health,
    /**
     * For a page that polls every two seconds: requests to brokers and databases are cached longer, counts of this process are
     * current.
     */
    healthOfPage: askSlowly(health, stateNow),
    samples: recent.samples,
    close: recent.close,
  };
}

type Result = { readonly state: ClusterState } | { readonly error: string };

/** How long a result is reused. */
const freshMs = 5_000;
/** After this time a probe counts as failed. */
const timeoutMs = 3_000;
/** After this time a caller gets the previous result and its age. */
const answerMs = 500;
/** A probe is abandoned after this time, so that a hanging one does not hide a recovery. */
const abandonAfterMs = 30_000;

interface Answer {
  readonly result: Result;
  readonly ageMs?: number;
}

/**
 * Health with at most one small request to the broker per {@link freshMs}. One probe runs at a time. Concurrent callers share its
 * result, or get the previous one after {@link answerMs}. Late results of a timed-out probe are used when they arrive.
 */
function cacheHealth<T extends Totals>(options: HealthOptions<T>, stateNow: StateNow): () => Promise<Health> {
  const { probe, known, alert, keys } = options;
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
    return { ...health, details: { ...health.details, ...stateNow(outbox) } };
  };
}

function describe(
  { result, ageMs }: Answer,
  known: ReturnType<HealthOptions<Totals>['known']>,
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

/** The state by the thresholds, from the counts of now. */
type StateNow = (outbox: OutboxHealth | undefined) => Pick<HealthDetails, 'state' | 'findings'>;

function stateOf(measured: Measured, throttled: readonly Finding[]): ReturnType<StateNow> {
  const findings = findingsOf(measured, throttled);
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

function askSlowly(health: () => Promise<Health>, stateNow: StateNow): () => Promise<Health> {
  let kept: { readonly health: Health; readonly untilMs: number } | undefined;
  return async () => {
    if (kept === undefined || clock.monotonic() >= kept.untilMs) {
      const asked = await health();
      const forMs =
        asked.status === 'UP' && asked.details.ageMs === undefined ? pageFreshMs : pageFreshWhenDownMs;
      kept = { health: asked, untilMs: clock.monotonic() + forMs };
    }
    const { findings: _, ...details } = kept.health.details;
    return { ...kept.health, details: { ...details, ...stateNow(details.outbox) } };
  };
}

interface Finding {
  readonly state: 'WARNING' | 'CRITICAL';
  /** One line: value, threshold and remedy. */
  readonly text: string;
}

interface Measured {
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
const maxShown = 3;
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
    const shown = silent.slice(0, maxShown).map(({ target, reason }) => `${target}: ${reason}`);
    if (silent.length > maxShown) shown.push(`and ${silent.length - maxShown} more`);
    return {
      state: 'WARNING',
      text: `${silent.length} of ${targets.length} targets make no events: ${shown.join('; ')}`,
    };
  },
];

/** All findings, the worst first. */
function findingsOf(measured: Measured, others: readonly Finding[] = []): readonly Finding[] {
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
interface Totals {
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

function throttleFinding(held: HeldBack | undefined): readonly Finding[] {
  if (held === undefined || held.untilMs < clock.monotonic() - throttledMs) return [];
  return [{ state: 'WARNING', text: held.message }];
}

const recentMs = 300_000;
const keptMs = 3_600_000;
const stepMs = 10_000;

/** Recent counts. Totals since the start never recover from one dead letter, and a good past hides an outage. */
function watchRecent<T extends Totals>({ totals, sample, onStep }: HealthOptions<T>) {
  let samples = [{ atMs: clock.monotonic(), totals: sample() }];
  const timer = setInterval(() => {
    const nowMs = clock.monotonic();
    samples.push({ atMs: nowMs, totals: sample() });
    const begun = samples.findLastIndex(({ atMs }) => atMs <= nowMs - keptMs);
    if (begun > 0) samples = samples.slice(begun);
    onStep?.();
  }, stepMs).unref();
  return {
    /** The counts of the last `ms` milliseconds, one hour at most; accurate to ten seconds. */
    within(ms: number): Totals {
      const sinceMs = clock.monotonic() - ms;
      const before = samples.findLast(({ atMs }) => atMs <= sinceMs) ?? (samples[0] as (typeof samples)[0]);
      return difference(totals(), before.totals);
    },
    /** The samples of the last hour, ten seconds apart, oldest first. */
    samples: (): readonly Readonly<(typeof samples)[0]>[] => samples,
    close: (): void => clearInterval(timer),
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
