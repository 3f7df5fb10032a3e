import { inTime, systemClock } from '../../ground/clock.ts';
import type { ClusterInfo } from '../../publish/broker.ts';
import { isNoTopic } from '../../publish/fault.ts';
import { firstAnswer, oneAtATime } from '../kafka/first-answer.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import type { Silence } from '../kafka/silence.ts';
import { type Connections, keyOf } from './connections.ts';
import { type Address, type BrokerConnection, BrokerError } from './platformatic-connection.ts';
import { isAnswer, protocolErrorIn } from './platformatic-failure.ts';

interface Topic {
  readonly fetchedAtMs: number;
  /** By partition; `undefined` where it has none now. */
  readonly leaders: readonly (Address | undefined)[];
}

interface Metadata {
  readonly clusterId: string | null;
  readonly brokers: readonly (Address & { nodeId: number })[];
  readonly topics: readonly {
    readonly partitions: readonly { partitionIndex: number; leaderId: number }[];
  }[];
}

interface Question {
  readonly topics: readonly string[];
  readonly mayCreate: boolean;
}

/** What the cluster says of its brokers and topics. Everything rejects with the errors of the package. */
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

/** @param notice hears of the first try of each question */
export function createTopics(
  connections: Connections,
  options: KafkaClientOptions,
  notice: Silence['notice'] = (question) => question,
): Topics {
  const seeds = options.brokers.map(parseAddress);
  const known = new Map<string, Topic>();
  const asked = new Map<string, Promise<Topic>>();
  const describing = oneAtATime<Metadata>();
  let brokers: readonly Address[] = [];

  /** The brokers to ask, those first that answered before. */
  function candidates(): Address[] {
    const each = new Map([...seeds, ...brokers].map((address) => [keyOf(address), address]));
    return [...each.values()].sort((a, b) => Number(connections.has(b)) - Number(connections.has(a)));
  }

  function askOne(address: Address, { topics, mayCreate }: Question, limitMs: number): Promise<Metadata> {
    let connection: BrokerConnection | undefined;
    const answer = async (): Promise<Metadata> => {
      connection = await connections.get(address);
      return connection.metadata<Metadata>(topics, mayCreate).catch(orWithoutLeaders);
    };
    const late = (): never => {
      // It would be asked first the next time.
      connection?.destroy();
      throw new BrokerError(keyOf(address), new Error('Request timed out'));
    };
    return inTime(answer(), { limitMs, keepsAlive: false, late });
  }

  async function askEach(question: Question, signal: AbortSignal): Promise<Metadata> {
    const all = candidates();
    let failure: unknown;
    for (const [index, address] of all.entries()) {
      const isLast = index === all.length - 1;
      try {
        const limitMs = isLast ? options.requestTimeoutMs : options.connectionTimeoutMs;
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

  async function ask(topics: readonly string[], mayCreate: boolean): Promise<Metadata> {
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
    const addresses = new Map(answer.brokers.map(({ nodeId, host, port }) => [nodeId, { host, port }]));
    const leaders: (Address | undefined)[] = [];
    for (const { partitionIndex, leaderId } of answer.topics[0]?.partitions ?? [])
      leaders[partitionIndex] = addresses.get(leaderId);
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
      if (found !== undefined && systemClock.monotonic() - found.fetchedAtMs < maxAgeMs) return found;
      return refresh(topic);
    },
    refresh,
    forget: (topic) => known.delete(topic),
    async partitionCount(topic) {
      try {
        return (await ask([topic], false)).topics[0]?.partitions.length;
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

/** A partition without a leader makes an error of the whole answer, in which all the others have theirs. */
function orWithoutLeaders(error: BrokerError): Metadata {
  const { errors = [], response } = error.cause as { errors?: { path?: string }[]; response?: Metadata };
  if (response === undefined || !errors.every(({ path }) => path?.includes('/partitions/'))) throw error;
  return response;
}

export function parseAddress(text: string): Address {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(text.slice(colon + 1)) };
}
