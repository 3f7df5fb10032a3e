import type { Clock } from '../../ground/clock.ts';
import type { SendFailure } from '../broker.ts';
import { faultOf } from '../fault.ts';

interface Refusal {
  readonly failure: SendFailure;
  readonly isFinal: boolean;
  readonly atMs: number;
}

/** A refusal older than this is no longer reported. */
const newsMs = 300_000;
/** Limit of remembered topics. Topic names can come from application data. */
const maxTopics = 1_000;

export type TopicRefusals = ReturnType<typeof createTopicRefusals>;

/** Topics that refuse all events, because they do not exist or this user has no right to them. */
export function createTopicRefusals(clock: Clock) {
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
export const countMaxAgeMs = 300_000;

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
export function createPartitionCounts(
  partitionsFor: (topic: string) => Promise<number | undefined>,
  clock: Clock,
) {
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
