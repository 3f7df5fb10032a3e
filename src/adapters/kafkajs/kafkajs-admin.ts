import type { Admin } from 'kafkajs';
import { systemClock } from '../../ground/clock.ts';
import { askAgainMs, type ClusterInfo } from '../../publish/broker.ts';
import { isNoTopic, isOfTopic, passingOf } from '../../publish/fault.ts';
import { firstAnswer, oneAtATime } from '../kafka/first-answer.ts';
import type { Silence } from '../kafka/silence.ts';
import type { KafkajsClient, KafkajsClientOptions, OpenKafkajsClient } from './kafkajs-client.ts';
import { connectThroughSeeds, disconnectWithin } from './kafkajs-connect.ts';
import { rootCause } from './kafkajs-failure.ts';

/** Questions to the cluster over one connection, kept until it fails. They throw what kafkajs throws. */
export interface KafkajsAdmin {
  /** Connects, and asks the cluster something: only then it is known that the port speaks as expected. */
  connect(): Promise<void>;
  describe(): Promise<ClusterInfo>;
  /** `host:port` of the brokers that the cluster has told of so far. */
  knownBrokers(): readonly string[];
  /** `undefined` where Kafka does not know the topic. Never creates it. */
  partitionCount(topic: string): Promise<number | undefined>;
  close(): Promise<void>;
}

interface Connection {
  readonly client: KafkajsClient;
  readonly admin: Admin;
  readonly connected: Promise<void>;
  /** Questions without an answer. */
  pending: number;
  /** Since when it owes an answer, where it does: it has given none after that. */
  owesSinceMs: number;
  /** It is being left: each further call would add a listener to its socket. */
  leaving?: Promise<void>;
}

const isAnswer = (error: unknown): boolean => rootCause(error).type !== undefined;

/** Any broker has the answers at hand: one that takes longer is not worth waiting for. */
const longestAnswerMs = 5_000;

/** The options of the adapter, with the time that a question may take. */
export function adminOptions<T extends KafkajsClientOptions>(options: T): T {
  return { ...options, requestTimeoutMs: Math.min(options.requestTimeoutMs, longestAnswerMs) };
}

/** @param notice hears of the first try of each question */
export function createKafkajsAdmin(
  open: OpenKafkajsClient,
  options: KafkajsClientOptions,
  notice: Silence['notice'] = (question) => question,
): KafkajsAdmin {
  const { brokers, requestTimeoutMs } = adminOptions(options);
  let connection: Connection | undefined;
  let lastSeen: ClusterInfo | undefined;
  let known: readonly string[] = [];

  const drop = (dropped: Connection): Promise<void> => {
    if (connection === dropped) connection = undefined;
    dropped.leaving ??= disconnectWithin(dropped.admin, 1000).then(dropped.client.destroySockets);
    return dropped.leaving;
  };

  const connect = (): Connection => {
    const client = open({ requestTimeoutMs });
    const admin = client.kafka.admin({ retry: { retries: 0 } });
    const connected = connectThroughSeeds(admin, brokers.length);
    return { client, admin, connected, pending: 0, owesSinceMs: 0 };
  };

  const askOver = async <T>(used: Connection, question: (admin: Admin) => Promise<T>): Promise<T> => {
    if (used.pending++ === 0) used.owesSinceMs = systemClock.monotonic();
    try {
      await used.connected;
      return await question(used.admin);
    } catch (error) {
      if (connection === used && !isOfTopic(rootCause(error).type)) connection = undefined;
      throw error;
    } finally {
      used.pending--;
      used.owesSinceMs = systemClock.monotonic();
      if (used !== connection) void drop(used);
    }
  };

  /** It may be dead without a word. */
  const owes = ({ pending, owesSinceMs }: Connection): boolean =>
    pending > 0 && systemClock.monotonic() - owesSinceMs >= askAgainMs;

  const ask = <T>(question: (admin: Admin) => Promise<T>): Promise<T> => {
    let last: Connection | undefined;
    return firstAnswer((signal, isAgain) => {
      if (connection === undefined || connection === last || owes(connection)) connection = connect();
      last = connection;
      const asking = askOver(last, question);
      return isAgain ? asking : notice(asking, signal);
    }, isAnswer);
  };

  const describing = oneAtATime<Awaited<ReturnType<Admin['describeCluster']>>>();

  const describe = async (): Promise<ClusterInfo> => {
    try {
      const asked = describing(() => ask((admin) => admin.describeCluster()));
      const { clusterId, brokers: nodes } = await asked;
      lastSeen = { clusterId, nodeCount: nodes.length };
      known = nodes.map(({ host, port }) => `${host}:${port}`);
      return lastSeen;
    } catch (error) {
      // kafkajs asks for all topics as well, and gives up when one partition of any of them has no leader.
      if (lastSeen !== undefined && passingOf(rootCause(error).type) === 'without leader') return lastSeen;
      throw error;
    }
  };

  return {
    async connect() {
      try {
        await describe();
      } catch (error) {
        if (!isOfTopic(rootCause(error).type)) throw error;
      }
    },
    describe,
    knownBrokers: () => known,
    async partitionCount(topic) {
      try {
        const { topics } = await ask((admin) => admin.fetchTopicMetadata({ topics: [topic] }));
        return topics[0]?.partitions.length;
      } catch (error) {
        if (isNoTopic(rootCause(error).type)) return undefined;
        throw error;
      }
    },
    async close() {
      if (connection !== undefined) await drop(connection);
    },
  };
}
