import { inTime, systemClock } from '../../ground/clock.ts';
import type { BrokerRecord, BrokerTraffic } from '../../publish/broker.ts';
import type { AnswerTimes } from '../kafka/answer-times.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import { ackNumbers } from '../kafka/records/protocol-numbers.ts';
import { type Compression, encodeCompressedBatch, encodeRecordBatch } from '../kafka/records/record-batch.ts';
import { type Connections, keyOf } from './connections.ts';
import type { Address, BrokerConnection } from './platformatic-connection.ts';
import type { Topics } from './topics.ts';

/** Whether a produce request may have left for the broker. */
export interface WriteMark {
  written: boolean;
}

/** Sends records to the leader of their partition. */
export interface Sends {
  /** Resolves with `false` where there is no such partition. Rejects with the errors of the package. */
  send(topic: string, partition: number, records: readonly BrokerRecord[], mark: WriteMark): Promise<boolean>;
  /**
   * Drops the connection that a send to this partition waits on, where another broker leads it by now, or where the cluster
   * was silent since it began, and answers again: the send rejects.
   */
  letGo(topic: string, partition: number): Promise<void>;
  traffic(): Omit<BrokerTraffic, 'connectionCount'>;
}

export interface SendsParts {
  readonly connections: Connections;
  readonly topics: Topics;
  /** When the cluster was last silent, on the monotonic clock. */
  readonly silentAtMs: () => number;
  readonly answerTimes: AnswerTimes;
  /** Default: none. */
  readonly compression?: Compression | undefined;
}

/** One broker that hangs is given its time-out before the next one is asked, which answers in this time or is away, too. */
const answerMs = 500;

interface UnderWay {
  readonly topic: string;
  readonly partition: number;
  readonly address: Address;
  readonly connection: BrokerConnection;
  readonly sinceMs: number;
}

export function createSends(
  { connections, topics, silentAtMs, answerTimes, compression }: SendsParts,
  options: KafkaClientOptions,
): Sends {
  const underWay = new Set<UnderWay>();
  const acks = ackNumbers[options.acks ?? 'all'];
  return {
    async send(topic, partition, records, mark) {
      const leader = await leaderOf(topics, topic, partition);
      if (leader === undefined) return false;
      let entry: UnderWay | undefined;
      try {
        const connection = await connections.get(leader);
        const batch = compression
          ? await encodeCompressedBatch(records, compression)
          : encodeRecordBatch(records);
        const sinceMs = systemClock.monotonic();
        entry = { topic, partition, address: leader, connection, sinceMs };
        underWay.add(entry);
        mark.written = true;
        await connection.produce({ topic, partition, acks, timeoutMs: options.requestTimeoutMs, batch });
        answerTimes.record(systemClock.monotonic() - sinceMs);
        return true;
      } catch (error) {
        // Whatever it was: the next send asks who leads the partition.
        topics.forget(topic);
        throw error;
      } finally {
        if (entry !== undefined) underWay.delete(entry);
      }
    },

    traffic: () => ({ inFlightRequests: underWay.size, requestLatencyAvg: answerTimes.mean() }),

    async letGo(topic, partition) {
      const isWaiting = (send: UnderWay) => send.topic === topic && send.partition === partition;
      const send = [...underWay].find(isWaiting);
      if (send === undefined) return;
      let leader: Address | undefined;
      const asking = topics.refresh(topic).then(
        ({ leaders }) => {
          leader = leaders[partition];
        },
        () => {},
      );
      const limitMs = options.connectionTimeoutMs + answerMs;
      // Who waits for the send keeps the process alive.
      await inTime(asking, { limitMs, keepsAlive: false, late: () => {} });
      const isElsewhere = leader !== undefined && keyOf(leader) !== keyOf(send.address);
      if (!underWay.has(send)) return;
      if (isElsewhere) connections.drop(send.address);
      // It may be one that is not given out any more.
      if (isElsewhere || (leader !== undefined && send.sinceMs <= silentAtMs())) send.connection.destroy();
    },
  };
}

/** Like the error of the package where Kafka itself says it. */
const withoutLeader = Object.assign(new Error('no leader'), { apiId: 'LEADER_NOT_AVAILABLE' });

/** `undefined` where there is no such partition. */
async function leaderOf(topics: Topics, topic: string, partition: number): Promise<Address | undefined> {
  let found = await topics.find(topic);
  if (!(partition in found.leaders)) {
    // It may be new.
    if (partition >= 0) found = await topics.refresh(topic);
    if (!(partition in found.leaders)) return undefined;
  }
  const leader = found.leaders[partition];
  if (leader !== undefined) return leader;
  topics.forget(topic);
  throw withoutLeader;
}
