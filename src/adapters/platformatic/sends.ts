import { systemClock } from '../../clock.ts';
import type { BrokerRecord } from '../../publish/broker.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import { ackNumbers } from '../kafka/protocol-numbers.ts';
import { type Connections, keyOf } from './connections.ts';
import type { Address } from './platformatic-connection.ts';
import { type BatchTools, compressedBatch, plainBatch } from './record-batch.ts';
import type { Topics } from './topics.ts';

/** Whether a produce request may have left for the broker. */
export interface WriteMark {
  written: boolean;
}

/** Sends records to the leader of their partition. */
export interface Sends {
  /** Resolves with `false` where there is no such partition. Rejects with the errors of the package. */
  send(topic: string, partition: number, records: readonly BrokerRecord[], mark: WriteMark): Promise<boolean>;
}

interface UnderWay {
  readonly topic: string;
  readonly partition: number;
  readonly address: Address;
  readonly startedAtMs: number;
}

const lookMs = 1_000;
/** A send that takes so long makes us ask whether its broker still leads the partition. */
const slowMs = 2_000;

export function createSends(
  { connections, topics, tools }: { connections: Connections; topics: Topics; tools: BatchTools },
  options: KafkaClientOptions,
): Sends {
  const underWay = new Set<UnderWay>();
  const acks = ackNumbers[options.acks ?? 'all'];
  let watch: NodeJS.Timeout | undefined;

  /**
   * A broker that hangs leaves its connections open: without this its sends would wait for `requestTimeoutMs`, long
   * after another broker leads the partition.
   */
  async function look(): Promise<void> {
    if (underWay.size === 0) {
      clearInterval(watch);
      watch = undefined;
      return;
    }
    const now = systemClock.monotonic();
    for (const { topic, partition, address, startedAtMs } of [...underWay]) {
      if (now - startedAtMs < slowMs) continue;
      const found = await topics.refresh(topic).catch(() => undefined);
      const leader = found?.leaders[partition];
      if (leader !== undefined && keyOf(leader) !== keyOf(address)) connections.drop(address);
    }
  }

  return {
    async send(topic, partition, records, mark) {
      const leader = await leaderOf(topics, topic, partition);
      if (leader === undefined) return false;
      const entry = { topic, partition, address: leader, startedAtMs: systemClock.monotonic() };
      try {
        const connection = await connections.get(leader);
        const batch = tools.compression
          ? await compressedBatch(records, tools, tools.compression)
          : plainBatch(records, tools);
        underWay.add(entry);
        watch ??= setInterval(() => void look(), lookMs).unref();
        mark.written = true;
        await connection.produce({ topic, partition, acks, timeoutMs: options.requestTimeoutMs, batch });
        return true;
      } catch (error) {
        // Whatever it was: the next send asks who leads the partition.
        topics.forget(topic);
        throw error;
      } finally {
        underWay.delete(entry);
      }
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
