import { backoffMs, clock, isAnswered } from '../../ground/clock.ts';
import type { CircuitState } from '../../ground/management.ts';
import { logger } from '../../observe/logger.ts';
import {
  clusterPollMs,
  faultOf,
  isNotMade,
  passingOf,
  type SendFailure,
  type SendResult,
} from '../broker.ts';

// Whether the cluster takes events: the breaker, retries, the watch, topics that refuse, numbers of partitions.

interface BreakerSettings {
  /** Failed sends in a row before the breaker opens. */
  readonly threshold: number;
  /** Time from one probe to the next. */
  readonly probeIntervalMs: number;
  /** The same after a temporary error in answer to the last probe. Default: `probeIntervalMs`. */
  readonly passingIntervalMs?: number;
  /** From 0 to below 1: varies these times by up to 20 %, so that many processes do not probe at once. Default: no jitter. */
  readonly random?: () => number;
}

interface ClusterStateOptions extends BreakerSettings {
  /** Whether fatal failures of the cluster count as well. Default: false. */
  readonly countsFatal?: boolean;
  /** Sends a request; rejects if the cluster is away. */
  readonly ask: () => Promise<unknown>;
  /** `why`: one line; for CLOSED the end of the sentence. Default: the log lines of direct sends. */
  readonly onChange?: (to: CircuitState, from: CircuitState, why: string) => void;
}

export const defaultBreaker: BreakerSettings = {
  threshold: 5,
  probeIntervalMs: 1_000,
  passingIntervalMs: 250,
};

/** The failure of each event that finds the breaker open. */
export const breakerOpen: SendFailure = {
  kind: 'retriable',
  cause: 'CircuitBreakerOpen',
  message: 'Circuit breaker is OPEN',
};

/** The failure of an event, or of a send, that took too long. */
export function timedOut(deliveryTimeoutMs: number): SendFailure {
  return {
    kind: 'retriable',
    cause: 'TimeoutException',
    message: `not acknowledged within ${deliveryTimeoutMs} ms (svc.broker.delivery-timeout-ms, less what the dead letter topic and the backup need)`,
  };
}

/** Whether the cluster gave this answer. Refusals by svc or its client say nothing about the cluster. */
function isAnswer(failure: SendFailure): boolean {
  if (failure.cause === 'INVALID_TOPIC_EXCEPTION') return false;
  const fault = faultOf(failure);
  return (fault === 'record' && !isNotMade(failure)) || fault === 'topic' || fault === 'clock';
}

export type ClusterState = ReturnType<typeof createClusterState>;

/**
 * The answer to "is Kafka there?" for direct sends, or for a relay. Results of sends go in; `ask` helps where they do not tell.
 *
 * OPEN when `threshold` sends in a row have failed because of the cluster, and one of the batches has used up its retries. So it
 * stays CLOSED in a short outage that retries outlast, and a single partition can open it. OPEN at once when the cluster is known
 * not to answer.
 */
export function createClusterState(options: ClusterStateOptions) {
  const { threshold, probeIntervalMs, countsFatal = false, ask, onChange = logChange } = options;
  const { passingIntervalMs = probeIntervalMs, random = () => 0.5 } = options;
  let state: CircuitState = 'CLOSED';
  let failures = 0;
  let givenUpAny = false;
  let nextProbeAtMs = 0;
  let storedAtMs = Number.NEGATIVE_INFINITY;
  let lastStoredMs: number | null = null;
  let served = { isWaiting: () => false, onAway() {}, onBack() {} };
  const watch = createWatch({
    ...{ ask, random },
    isWaiting: () => served.isWaiting(),
    onSilent: () => silent('it does not answer'),
    onBack: () => served.onBack(),
  });
  const hasStoredSince = (atMs: number): boolean => storedAtMs >= atMs;

  function change(to: CircuitState, why = ''): void {
    const from = state;
    state = to;
    if (to === from) return;
    onChange(to, from, why);
    if (to === 'OPEN' && from === 'CLOSED') served.onAway();
  }

  function close(why?: string): void {
    failures = 0;
    givenUpAny = false;
    change('CLOSED', why);
  }

  function open(why: string, intervalMs = probeIntervalMs): void {
    nextProbeAtMs = clock.monotonic() + withJitter(intervalMs, random);
    change('OPEN', why);
  }

  function silent(message: string): void {
    if (state === 'CLOSED') open(message);
  }

  return {
    get state() {
      return state;
    },
    get isAway() {
      return state !== 'CLOSED';
    },
    /** Failures of the cluster since it last answered. */
    get consecutiveFailures() {
      return failures;
    },
    /** Milliseconds until it may be HALF-OPEN; 0: not OPEN. */
    openForMs: () => (state === 'OPEN' ? Math.max(0, nextProbeAtMs - clock.monotonic()) : 0),
    /**
     * Names the events that wait for it; once. `onAway`: the cluster is away from now on; not called when a probe failed. `onBack`:
     * it was away, and is back, while retries wait.
     */
    attach(given: typeof served): void {
      served = given;
    },
    /** Called once for each new event. `probe`: it tests the cluster; the caller must report its result, or `probeGone`. */
    admit(): 'send' | 'probe' | 'refused' {
      if (state === 'CLOSED') return 'send';
      if (state === 'HALF-OPEN' || clock.monotonic() < nextProbeAtMs) return 'refused';
      change('HALF-OPEN');
      return 'probe';
    },
    /** The probe ended without a send. */
    probeGone(): void {
      if (state === 'HALF-OPEN') open('the probe was not sent');
    },
    /** The first event waits, after none. */
    waiting: watch.waiting,
    /** A batch waits this long for its retry. */
    pausing: watch.pausing,
    /** A send ended. Report a failure with `failed` as well, once it is known whether it is retried. */
    ended({ ok }: SendResult): void {
      watch.heard(ok);
      if (!ok) return;
      storedAtMs = clock.monotonic();
      lastStoredMs = clock.now();
      close();
    },
    /** A send failed. `givenUp`: its batch is not retried. */
    failed(failure: SendFailure, givenUp: boolean) {
      const { kind, cause, message } = failure;
      const fault = faultOf(failure);
      // Every probe may be for a topic that is refused.
      if (isAnswer(failure) && (fault === 'record' || state === 'HALF-OPEN')) return close();
      if ((kind === 'fatal' && !countsFatal) || fault !== 'cluster') return;
      failures++;
      givenUpAny ||= givenUp;
      if (state === 'OPEN' || (state === 'CLOSED' && !(givenUpAny && failures >= threshold))) return;
      // The cluster is starting: it elects leaders, and replicas catch up in a moment.
      open(message, state === 'HALF-OPEN' && passingOf(cause) ? passingIntervalMs : probeIntervalMs);
    },
    /** The cluster has taken events of another sender, or answered one. */
    answered: () => close(),
    /**
     * The cluster did not answer another client. `message`: one line about that. `sinceMs`: start of the attempt, on the monotonic
     * clock; a send that was stored since counts more.
     */
    silent(message: string, sinceMs: number): void {
      if (!hasStoredSince(sinceMs)) silent(message);
    },
    /** An operator declares the cluster reachable: CLOSED, all counts 0. */
    reset: () => close(' by a reset'),
    /** Asks it. */
    isThere: () => isAnswered(ask(), answerMs),
    /** Whether the cluster has taken a batch since `atMs`, on the monotonic clock. */
    hasStoredSince,
    /** When it last took one, as Unix time in milliseconds; `null`: never. */
    lastStoredMs: () => lastStoredMs,
    close: watch.close,
  };
}

function logChange(to: CircuitState, from: CircuitState, why: string): void {
  if (to === 'CLOSED') logger.info(`Circuit breaker is CLOSED${why}: events are sent to the cluster again`);
  else if (to === 'HALF-OPEN') logger.debug('Circuit breaker is HALF-OPEN: one event tests the cluster');
  else if (from === 'HALF-OPEN')
    logger.debug(`Circuit breaker is OPEN: the cluster is still unreachable (${why})`);
  else
    logger.warn(`Circuit breaker is OPEN: new events go to the next tier until the cluster answers (${why})`);
}

/** How long sends may hang without any answer before the cluster is asked. A healthy one answers in milliseconds. */
const stallAfterMs = 2_500;
/** Time limit for the answer after such silence. */
const silentMs = 2_000;
/** Time limit for the answer while sends are answered, with failures. */
const answerMs = 1_000;

interface WatchOptions extends Required<Pick<ClusterStateOptions, 'ask' | 'random'>> {
  readonly isWaiting: () => boolean;
  /** Neither a send nor the question was answered. */
  readonly onSilent: () => void;
  readonly onBack: () => void;
}

/**
 * Asks the cluster whether it is reachable, one request at a time, when sends alone do not tell:
 * - A hanging cluster gives no errors to count, and callers would wait for the whole delivery time. After silence while events
 *   wait, the cluster is asked. Without an answer it counts as silent.
 * - A retry waits up to some seconds, and the cluster may be back earlier. It is polled while retries wait. If the first poll is
 *   answered, only one partition is in trouble, and its retries wait their full time.
 */
function createWatch(options: WatchOptions) {
  const { isWaiting, ask, random, onSilent, onBack } = options;
  let heardAtMs = Number.NEGATIVE_INFINITY;
  let waitingSinceMs = 0;
  let pausedUntilMs = Number.NEGATIVE_INFINITY;
  let isAway = false;
  let isAsking = false;
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;

  function lookAfter(delayMs: number): void {
    clearTimeout(timer);
    timer = setTimeout(look, Math.max(1, Math.ceil(delayMs))).unref();
  }

  function isPausing(): boolean {
    return clock.monotonic() < pausedUntilMs;
  }

  function untilSilentMs(): number {
    if (!isWaiting()) return Number.POSITIVE_INFINITY;
    return Math.max(heardAtMs, waitingSinceMs) + stallAfterMs - clock.monotonic();
  }

  function look(): void {
    timer = undefined;
    if (isClosed) return;
    const leftMs = untilSilentMs();
    if (leftMs <= 0 || (isAway && isPausing())) void question(leftMs <= 0);
    else if (isWaiting()) lookAfter(leftMs);
  }

  async function question(isSilent: boolean): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    isAsking = true;
    const askedAtMs = clock.monotonic();
    const isThere = await isAnswered(ask(), isSilent ? silentMs : answerMs);
    isAsking = false;
    if (isClosed) return;
    if (isSilent) waitingSinceMs = clock.monotonic();
    if (isThere) isBack();
    else {
      isAway = true;
      if (isSilent && heardAtMs < askedAtMs && isWaiting()) onSilent();
    }
    if (isAway && isPausing()) lookAfter(Math.min(withJitter(clusterPollMs, random), untilSilentMs()));
    else if (isWaiting()) lookAfter(untilSilentMs());
  }

  function isBack(): void {
    if (!isAway) return;
    isAway = false;
    onBack();
  }

  return {
    waiting(): void {
      waitingSinceMs = clock.monotonic();
      if (timer === undefined && !isAsking && !isClosed) lookAfter(stallAfterMs);
    },
    pausing(waitMs: number): void {
      const wasPausing = isPausing();
      pausedUntilMs = Math.max(pausedUntilMs, clock.monotonic() + waitMs);
      if (!isAsking && !isClosed && !(isAway && wasPausing)) void question(false);
    },
    heard(isStored: boolean): void {
      heardAtMs = clock.monotonic();
      if (isStored) isBack();
    },
    close(): void {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

interface RetrySettings {
  readonly enabled: boolean;
  /** Tries after the first one. */
  readonly maxAttempts: number;
  readonly initialIntervalMs: number;
  readonly multiplier: number;
  readonly maxIntervalMs: number;
  /** Varies each wait by up to 20 %, so that many processes do not return at once. */
  readonly jitter: boolean;
}

const jitterShare = 0.2;

/** Varies by up to 20 %. `random`: from 0 to below 1. */
function withJitter(waitMs: number, random: () => number): number {
  return waitMs * (1 - jitterShare + 2 * jitterShare * random());
}

/** Waits 1 s, 2 s, 4 s by default. Unknown outcomes are retried as well: a duplicate is better than a loss. */
export function createRetryPolicy(settings: RetrySettings, random: () => number = Math.random) {
  const { enabled, maxAttempts, initialIntervalMs, multiplier, maxIntervalMs, jitter } = settings;
  return {
    /** Milliseconds until the batch is sent again; `undefined`: no retry. */
    waitMs(retries: number, { kind }: SendFailure): number | undefined {
      if (!enabled || retries >= maxAttempts || kind === 'fatal' || kind === 'too_large') return undefined;
      const wait = backoffMs(retries + 1, initialIntervalMs, maxIntervalMs, multiplier);
      return jitter ? withJitter(wait, random) : wait;
    },
  };
}

/** The failure for the next tier after failed retries. */
export function afterRetries(failure: SendFailure, retries: number): SendFailure {
  if (retries === 0) return failure;
  return { ...failure, message: `Failed to send message after ${retries} retries: ${failure.message}` };
}

interface Refusal {
  readonly failure: SendFailure;
  readonly isFinal: boolean;
  readonly atMs: number;
}

/** A refusal older than this is no longer reported. */
const newsMs = 300_000;
/** Limit of remembered topics. Topic names can come from application data. */
const maxTopics = 1_000;

/** Topics that refuse all events, because they do not exist or this user has no right to them. */
export function createTopicRefusals() {
  const refusals = new Map<string, Refusal>();
  return {
    /** A send was refused because of its topic. `isFinal`: it is not retried. Returns true for the first refusal. */
    refused(topic: string, failure: SendFailure, isFinal: boolean): boolean {
      const known = refusals.get(topic);
      refusals.delete(topic);
      if (refusals.size >= maxTopics) refusals.delete(refusals.keys().next().value as string);
      const atMs = clock.monotonic();
      refusals.set(topic, { failure, isFinal: isFinal || known?.isFinal === true, atMs });
      return known === undefined;
    },
    /** The topic took events. Returns true if it refused them before. */
    taken: (topic: string) => refusals.size > 0 && refusals.delete(topic),
    /** The last refusal, if nothing was taken since. `isFinal`: a send has used up its retries, so others get none. */
    of: (topic: string) => refusals.get(topic),
    /** Adds the topic's refusal to `reason`, for an event that was never sent. */
    explain(topic: string, reason: SendFailure): SendFailure {
      const known = refusals.get(topic)?.failure;
      if (known === undefined || faultOf(reason) === 'topic') return reason;
      return { ...reason, cause: known.cause, message: `${reason.message}; last: ${known.message}` };
    },
    /** One line about recent refusals, for the health endpoint. */
    state(): string | undefined {
      const sinceMs = clock.monotonic() - newsMs;
      const lately = [...refusals.values()].filter(({ atMs }) => atMs >= sinceMs);
      const last = lately.at(-1);
      if (last === undefined) return undefined;
      const more = lately.length === 1 ? '' : `; so are ${lately.length - 1} other topics`;
      return `events of a topic are refused: ${last.failure.message}${more}`;
    },
  };
}

/** Topics can get more partitions at any time. Kafka's own clients refresh as often. */
const countMaxAgeMs = 300_000;

/**
 * Limit of topics with a known count, some hundred bytes each. Topic names can come from application data. Beyond it, the least
 * recently used topic is dropped, and its next event asks the cluster.
 */
const maxTopicsOfPartitionCounts = 50_000;

interface Count {
  readonly partitions: number;
  readonly atMs: number;
  /** Used since `forgetOne` last passed it. */
  isUsed: boolean;
}

export type PartitionCounts = ReturnType<typeof createPartitionCounts>;

/** Caches the number of partitions of topics. */
export function createPartitionCounts(partitionsFor: (topic: string) => Promise<number | undefined>) {
  const counts = new Map<string, Count>();
  const questions = new Map<string, Promise<number | undefined>>();

  /** Second-chance (clock) eviction: using a count costs nothing. */
  function forgetOne(): void {
    for (const [topic, count] of counts) {
      counts.delete(topic);
      if (!count.isUsed) return;
      counts.set(topic, { ...count, isUsed: false });
    }
  }

  async function question(topic: string): Promise<number | undefined> {
    try {
      const partitions = await partitionsFor(topic);
      if (partitions === undefined || partitions < 1) return undefined;
      counts.delete(topic);
      if (counts.size >= maxTopicsOfPartitionCounts) forgetOne();
      counts.set(topic, { partitions, atMs: clock.monotonic(), isUsed: false });
      return partitions;
    } catch {
      return undefined;
    } finally {
      questions.delete(topic);
    }
  }

  function ask(topic: string): Promise<number | undefined> {
    let asked = questions.get(topic);
    if (asked === undefined) {
      asked = question(topic);
      questions.set(topic, asked);
    }
    return asked;
  }

  return {
    /** Synchronous; `undefined`: unknown. A count older than `countMaxAgeMs` is refreshed in the background. */
    known(topic: string): number | undefined {
      const count = counts.get(topic);
      if (count !== undefined) count.isUsed = true;
      if (count !== undefined && clock.monotonic() - count.atMs >= countMaxAgeMs) void ask(topic);
      return count?.partitions;
    },
    /** Asks the broker. Concurrent calls for one topic share the request. Never rejects. */
    ask,
  };
}
