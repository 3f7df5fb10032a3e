import { inTime } from '../../ground/clock.ts';
import { firstAnswer } from '../kafka/first-answer.ts';
import type { OpenKafkajsClient } from './kafkajs-client.ts';

/** Asks the cluster who leads a partition, over connections of its own, while others may hang. */
export interface LeaderScout {
  /** Node id of the leader; `undefined` where there is none, or where no broker answers. Never rejects. */
  leaderOf(topic: string, partition: number): Promise<number | undefined>;
}

const answerMs = 3_000;
/** An answer serves all partitions of its topic for so long. */
const freshMs = 500;
/** Asked at once: the first answer counts. */
const maxAsked = 5;

type Leaders = ReadonlyMap<number, number>;

/** @param addresses of brokers, asked for each time: those of the configuration, and those that the cluster has told of */
export function createLeaderScout(open: OpenKafkajsClient, addresses: () => readonly string[]): LeaderScout {
  const questions = new Map<string, Promise<Leaders>>();

  async function ask(address: string, topic: string, signal: AbortSignal): Promise<Leaders> {
    const client = open({ brokers: [address], requestTimeoutMs: answerMs });
    const admin = client.kafka.admin({ retry: { retries: 0 } });
    signal.addEventListener('abort', client.destroySockets);
    const question = admin.connect().then(() => admin.fetchTopicMetadata({ topics: [topic] }));
    try {
      // kafkajs may try on and on, or never settle. A send that somebody waits for keeps the process alive by itself.
      const { topics } = await inTime(question, { limitMs: answerMs, keepsAlive: false, late: noAnswer });
      const partitions = topics[0]?.partitions ?? [];
      return new Map(partitions.map(({ partitionId, leader }) => [partitionId, leader]));
    } finally {
      signal.removeEventListener('abort', client.destroySockets);
      client.destroySockets();
    }
  }

  function leadersOf(topic: string): Promise<Leaders> {
    let question = questions.get(topic);
    if (question === undefined) {
      const asked = [...new Set(addresses())].slice(0, maxAsked);
      const askAll = (signal: AbortSignal) =>
        Promise.any(asked.map((address) => ask(address, topic, signal)));
      // A leader that is not there yet is worth another question.
      question = firstAnswer(askAll, () => false);
      questions.set(topic, question);
      const forget = (): void => void questions.delete(topic);
      question.then(() => setTimeout(forget, freshMs).unref(), forget);
    }
    return question;
  }

  return {
    async leaderOf(topic, partition) {
      const leader = await leadersOf(topic)
        .then((leaders) => leaders.get(partition))
        .catch(() => undefined);
      return leader === undefined || leader < 0 ? undefined : leader;
    },
  };
}

function noAnswer(): never {
  throw new Error('no answer');
}
