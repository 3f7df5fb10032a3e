import type { Clock } from '../../ground/clock.ts';

/** A topic can be given more partitions at any time; Kafka's own clients look as often. */
export const countMaxAgeMs = 300_000;

/**
 * Topics whose counts are kept, some hundred bytes each; topic names can come from application data. With more of them in use at
 * once, each event of those beyond would ask the cluster: the one that is longest out of use goes first.
 */
const maxTopics = 50_000;

/** What is known about the number of partitions of topics. */
export interface PartitionCounts {
  /** At once; `undefined` where it is not known. A count older than `countMaxAgeMs` is asked for again meanwhile. */
  known(topic: string): number | undefined;
  /** Asks the broker. Questions about one topic are shared. Never rejects. */
  ask(topic: string): Promise<number | undefined>;
}

interface Count {
  readonly partitions: number;
  readonly atMs: number;
  /** Used since it was last passed over. */
  isUsed: boolean;
}

export function createPartitionCounts(
  partitionsFor: (topic: string) => Promise<number | undefined>,
  clock: Clock,
): PartitionCounts {
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
      if (counts.size >= maxTopics) forgetOne();
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
    known(topic) {
      const count = counts.get(topic);
      if (count !== undefined) count.isUsed = true;
      if (count !== undefined && clock.monotonic() - count.atMs >= countMaxAgeMs) void ask(topic);
      return count?.partitions;
    },
    ask,
  };
}
