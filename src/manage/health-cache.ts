import { type Clock, inTime, systemClock } from '../ground/clock.ts';
import type { CaptureTarget } from '../observe/metrics.ts';
import {
  findingsOf,
  type Health,
  type HealthDetails,
  type KeyHealth,
  type Measured,
  type OutboxHealth,
  type Recent,
  recentMs,
} from './controls.ts';

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
  readonly clock?: Clock;
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
  const { clock = systemClock } = options;
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

export function stateOf(
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
