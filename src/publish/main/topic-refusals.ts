import type { Clock } from '../../ground/clock.ts';
import type { SendFailure } from '../broker.ts';
import { faultOf } from '../fault.ts';

interface Refusal {
  readonly failure: SendFailure;
  readonly isFinal: boolean;
  readonly atMs: number;
}

/** A topic that nobody sends to any more is no news after this time. */
const newsMs = 300_000;
/** Topics that are remembered; their names can come from application data. */
const maxTopics = 1_000;

export type TopicRefusals = ReturnType<typeof createTopicRefusals>;

/** Topics that refuse all their events, because they are not there or this user has no right to them. */
export function createTopicRefusals(clock: Clock) {
  const refusals = new Map<string, Refusal>();
  return {
    /** The cluster has refused a send for its topic. `isFinal`: it is not tried again. True: it is the first one. */
    refused(topic: string, failure: SendFailure, isFinal: boolean): boolean {
      const known = refusals.get(topic);
      refusals.delete(topic);
      if (refusals.size >= maxTopics) refusals.delete(refusals.keys().next().value as string);
      const atMs = clock.monotonic();
      refusals.set(topic, { failure, isFinal: isFinal || known?.isFinal === true, atMs });
      return known === undefined;
    },
    /** The topic took events. True: it refused them before. */
    taken: (topic: string) => refusals.size > 0 && refusals.delete(topic),
    /** The last refusal, where nothing was taken since. `isFinal`: a send has used up its retries, and others need none. */
    of: (topic: string) => refusals.get(topic),
    /** `reason`, with the refusal of the topic, for an event that was never sent itself. */
    explain(topic: string, reason: SendFailure): SendFailure {
      const known = refusals.get(topic)?.failure;
      if (known === undefined || faultOf(reason) === 'topic') return reason;
      return { ...reason, cause: known.cause, message: `${reason.message}; last: ${known.message}` };
    },
    /** One line about those that were refused lately; for the health endpoint. */
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

/** A topic can be given more partitions at any time; Kafka's own clients look as often. */
export const countMaxAgeMs = 300_000;

/**
 * Topics whose counts are kept, some hundred bytes each; topic names can come from application data. With more of them in use at
 * once, each event of those beyond would ask the cluster: the one that is longest out of use goes first.
 */
const maxTopicsOfPartitionCounts = 50_000;

interface Count {
  readonly partitions: number;
  readonly atMs: number;
  /** Used since it was last passed over. */
  isUsed: boolean;
}

export type PartitionCounts = ReturnType<typeof createPartitionCounts>;

/** What is known about the number of partitions of topics. */
export function createPartitionCounts(
  partitionsFor: (topic: string) => Promise<number | undefined>,
  clock: Clock,
) {
  const counts = new Map<string, Count>();
  const questions = new Map<string, Promise<number | undefined>>();

  /** One that nobody has used lately; a used one has a second chance, which costs its use nothing. */
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
    /** At once; `undefined` where it is not known. A count older than `countMaxAgeMs` is asked for again meanwhile. */
    known(topic: string): number | undefined {
      const count = counts.get(topic);
      if (count !== undefined) count.isUsed = true;
      if (count !== undefined && clock.monotonic() - count.atMs >= countMaxAgeMs) void ask(topic);
      return count?.partitions;
    },
    /** Asks the broker. Questions about one topic are shared. Never rejects. */
    ask,
  };
}
