import { inTime, systemClock } from '../../../ground/clock.ts';
import type { ClusterInfo } from '../../../publish/broker.ts';
import { isNoTopic } from '../../../publish/fault.ts';
import { firstAnswer, oneAtATime } from '../first-answer.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import { checkCode } from '../protocol/kafka-request.ts';
import {
  type ClusterMetadata,
  metadataRequest,
  type Node,
  type TopicMetadata,
} from '../protocol/metadata-request.ts';
import { isAnswer, protocolErrorIn } from '../send-failure.ts';
import type { Silence } from '../silence.ts';
import { type Address, keyOf, parseAddress } from '../transport.ts';
import type { BrokerConnection } from './broker-connection.ts';
import { BrokerError, NoAnswer } from './broker-error.ts';
import type { Connections } from './connections.ts';

interface Topic {
  readonly fetchedAtMs: number;
  /** By partition; `undefined` where it has none now. */
  readonly leaders: readonly (Node | undefined)[];
}

interface Question {
  readonly topics: readonly string[];
  readonly mayCreate: boolean;
}

/** What the cluster says of its brokers and topics. Everything rejects with errors that `toSendFailure` knows. */
export interface Topics {
  /** From memory, where it is known. The topic is made by Kafka where that is allowed. */
  find(topic: string): Topic | Promise<Topic>;
  /** Asks the cluster. */
  refresh(topic: string): Promise<Topic>;
  /** The next `find` asks the cluster. */
  forget(topic: string): void;
  /** `undefined` where Kafka does not know the topic. Never creates it. */
  partitionCount(topic: string): Promise<number | undefined>;
  describe(): Promise<ClusterInfo>;
}

/** Partitions may be added to a topic, which nobody tells us. */
const maxAgeMs = 300_000;
/** Where no broker confirms, none says either that it leads the partition no more. */
const maxAgeUnconfirmedMs = 2_000;
/** Any broker has the answers at hand: one that takes longer is not worth waiting for. */
const longestAnswerMs = 5_000;

/** @param notice hears of the first try of each question */
export function createTopics(
  connections: Connections,
  options: KafkaClientOptions,
  notice: Silence['notice'] = (question) => question,
): Topics {
  const seeds = options.brokers.map(parseAddress);
  const freshMs = options.acks === '0' ? maxAgeUnconfirmedMs : maxAgeMs;
  const lastMs = Math.min(options.requestTimeoutMs, longestAnswerMs);
  const known = new Map<string, Topic>();
  const asked = new Map<string, Promise<Topic>>();
  const describing = oneAtATime<ClusterMetadata>();
  let brokers: readonly Address[] = [];

  /** The brokers to ask, those first that answered before. */
  function candidates(): Address[] {
    const each = new Map([...seeds, ...brokers].map((address) => [keyOf(address), address]));
    return [...each.values()].sort((a, b) => Number(connections.has(b)) - Number(connections.has(a)));
  }

  function askOne(
    address: Address,
    { topics, mayCreate }: Question,
    limitMs: number,
  ): Promise<ClusterMetadata> {
    let connection: BrokerConnection | undefined;
    const answer = async (): Promise<ClusterMetadata> => {
      connection = await connections.get(address);
      return connection.ask(metadataRequest(topics, mayCreate));
    };
    const late = (): never => {
      // It would be asked first the next time.
      connection?.destroy();
      throw new BrokerError(keyOf(address), new NoAnswer(limitMs));
    };
    return inTime(answer(), { limitMs, keepsAlive: false, late });
  }

  async function askEach(question: Question, signal: AbortSignal): Promise<ClusterMetadata> {
    const all = candidates();
    let failure: unknown;
    for (const [index, address] of all.entries()) {
      const isLast = index === all.length - 1;
      try {
        const limitMs = isLast ? lastMs : Math.min(options.connectionTimeoutMs, lastMs);
        return await askOne(address, question, limitMs);
      } catch (error) {
        failure ??= error;
        // Refused by one, refused by all.
        if (isAnswer(error)) throw error;
        signal.throwIfAborted();
      }
    }
    throw failure;
  }

  async function ask(topics: readonly string[], mayCreate: boolean): Promise<ClusterMetadata> {
    let triedAtMs = Number.NEGATIVE_INFINITY;
    const answer = await firstAnswer((signal, isAgain) => {
      // The one that was asked may be dead without a word.
      if (isAgain) connections.renew(triedAtMs);
      triedAtMs = systemClock.monotonic();
      const asking = askEach({ topics, mayCreate }, signal);
      return isAgain ? asking : notice(asking, signal);
    }, isAnswer);
    brokers = answer.brokers;
    return answer;
  }

  async function fetch(topic: string): Promise<Topic> {
    const answer = await ask([topic], options.makesTopics !== false);
    const nodes = new Map(answer.brokers.map((node) => [node.nodeId, node]));
    const leaders: (Node | undefined)[] = [];
    for (const { partition, leaderId } of partitionsIn(answer)) leaders[partition] = nodes.get(leaderId);
    const found = { leaders, fetchedAtMs: systemClock.monotonic() };
    known.set(topic, found);
    return found;
  }

  function refresh(topic: string): Promise<Topic> {
    let asking = asked.get(topic);
    if (asking === undefined) {
      asking = fetch(topic).finally(() => asked.delete(topic));
      asked.set(topic, asking);
    }
    return asking;
  }

  return {
    find(topic) {
      const found = known.get(topic);
      if (found !== undefined && systemClock.monotonic() - found.fetchedAtMs < freshMs) return found;
      return refresh(topic);
    },
    refresh,
    forget: (topic) => known.delete(topic),
    async partitionCount(topic) {
      try {
        return partitionsIn(await ask([topic], false)).length;
      } catch (error) {
        if (isNoTopic(protocolErrorIn(error))) return undefined;
        throw error;
      }
    },
    async describe() {
      const { clusterId, brokers: nodes } = await describing(() => ask([], false));
      return { clusterId, nodeCount: nodes.length };
    },
  };
}

/** Throws a `ProtocolError` where the one topic that was asked for is refused. */
function partitionsIn({ topics }: ClusterMetadata): TopicMetadata['partitions'] {
  for (const { errorCode } of topics) checkCode(errorCode);
  return topics.flatMap(({ partitions }) => partitions);
}
