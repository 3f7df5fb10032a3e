import type { Admin, KafkaMessage } from 'kafkajs';
import { sleep } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';
import type { TailRange, TopicRecord, TopicTail } from '../../publish/topic-reader.ts';
import { protocolErrorIn, toSendFailure } from '../kafka/send-failure.ts';
import { countPartitions } from '../kafka/session.ts';
import {
  clusterOf,
  disconnectWithin,
  type KafkajsClient,
  type KafkajsClientOptions,
  loadKafkajs,
  readBounded,
} from './kafkajs-client.ts';
import { toRecord } from './kafkajs-topic-reader.ts';
import { loadKafkajsTransport } from './kafkajs-transport.ts';

export interface KafkajsTopicTailOptions extends KafkajsClientOptions, TailRange {}

/** What kafkajs reads with itself: its consumers cannot do without a group. */
interface Cluster {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  addTargetTopic(topic: string): Promise<void>;
  refreshMetadata(): Promise<void>;
  findLeaderForPartitions(topic: string, partitions: readonly number[]): Record<string, number[]>;
  findBroker(node: { nodeId: string }): Promise<{ fetch(request: object): Promise<Fetched> }>;
}

interface Fetched {
  readonly responses: readonly { readonly partitions: readonly FetchedPart[] }[];
}

interface FetchedPart {
  readonly partition: number;
  readonly highWatermark: string;
  readonly messages: readonly KafkaMessage[];
}

type Batch = new (
  topic: string,
  offset: string,
  part: FetchedPart,
) => { readonly messages: readonly KafkaMessage[]; lastOffset(): string };

const retry = { retries: 5 };
/** A broker answers after this, with or without records. */
const maxWaitMs = 500;
const partBytes = 1024 * 1024;
const readCommitted = 1;
/** A leader that changes is back after some seconds. */
const mostFailures = 20;
const pauseMs = 500;

/** Reads each partition from its leader. Nothing of it is remembered anywhere. */
export function createKafkajsTopicTail(options: KafkajsTopicTailOptions): TopicTail {
  const { topic, fromMs, untilMs } = options;
  /** Partition -> next offset. */
  const positions = new Map<number, number>();
  /** Partition -> the offset to end before, as soon as it is known. */
  const ends = new Map<number, number>();
  /** Partition -> what lies between was not given to anybody who goes back. */
  const left = new Map<number, { readonly low: number; readonly high: number }>();
  let client: KafkajsClient | undefined;
  let admin: Admin | undefined;
  let cluster: Cluster | undefined;

  const toError = (error: unknown): SvcError => {
    if (error instanceof SvcError) return error;
    const { message } = toSendFailure(error, { options, topic, written: false });
    return new SvcError('SVC_ADAPTERS_NOT_REACHABLE', message);
  };

  async function offsetsAt(timeMs: number): Promise<readonly { partition: number; offset: string }[]> {
    return (await (admin as Admin).fetchTopicOffsetsByTimestamp(topic, timeMs)) ?? [];
  }

  async function start(): Promise<void> {
    if ((await countPartitions(loadKafkajsTransport, options, topic)) === undefined)
      throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', `Kafka knows no topic "${topic}"`);
    client = (await loadKafkajs({ ...options, retries: retry.retries, readsAll: true }))();
    admin = client.kafka.admin({ retry });
    await admin.connect();
    const stored = await admin.fetchTopicOffsets(topic);
    for (const { partition, high } of stored) positions.set(partition, Number(high));
    if (fromMs !== undefined)
      for (const { partition, offset } of await offsetsAt(fromMs)) positions.set(partition, Number(offset));
    for (const { partition, high } of stored)
      left.set(partition, { low: positions.get(partition) ?? 0, high: Number(high) });
    cluster = clusterOf<Cluster>(client.kafka, {
      ...{ metadataMaxAge: 60_000, allowAutoTopicCreation: false, isolationLevel: readCommitted },
    });
    await cluster.connect();
    await cluster.addTargetTopic(topic);
  }

  /** Records that come later are not of that time, whatever the clocks of producers say. */
  async function findEnds(): Promise<void> {
    if (untilMs === undefined || ends.size > 0 || Date.now() < untilMs) return;
    for (const { partition, offset } of await offsetsAt(untilMs)) ends.set(partition, Number(offset));
  }

  const isLeft = (partition: number): boolean =>
    (positions.get(partition) ?? 0) < (ends.get(partition) ?? Number.POSITIVE_INFINITY);

  async function fetchFrom(
    nodeId: string,
    partitions: readonly number[],
    AnyBatch: Batch,
  ): Promise<TopicRecord[]> {
    const broker = await (cluster as Cluster).findBroker({ nodeId });
    const asked = partitions.map((partition) => ({
      ...{ partition, fetchOffset: String(positions.get(partition)), maxBytes: partBytes },
    }));
    const fetched = await readBounded(() =>
      broker.fetch({
        ...{ isolationLevel: readCommitted, maxWaitTime: maxWaitMs, minBytes: 1, maxBytes: 8 * partBytes },
        topics: [{ topic, partitions: asked }],
      }),
    );
    const records: TopicRecord[] = [];
    const next = new Map<number, number>();
    for (const part of fetched.responses.flatMap((each) => each.partitions)) {
      const position = positions.get(part.partition) ?? 0;
      if (part.messages.length === 0) continue;
      const batch = new AnyBatch(topic, String(position), part);
      for (const message of batch.messages) records.push(toRecord(part.partition, message));
      next.set(part.partition, Math.max(position, Number(batch.lastOffset()) + 1));
    }
    for (const [partition, position] of next) positions.set(partition, position);
    return records.filter(
      ({ partition, offset, timestamp }) =>
        offset < (ends.get(partition) ?? Number.POSITIVE_INFINITY) &&
        (untilMs === undefined || timestamp < untilMs) &&
        (fromMs === undefined || timestamp >= fromMs),
    );
  }

  /** What was deleted meanwhile cannot be read: on from what is left. */
  async function skipDeleted(): Promise<void> {
    for (const { partition, low } of await (admin as Admin).fetchTopicOffsets(topic))
      positions.set(partition, Math.max(positions.get(partition) ?? 0, Number(low)));
  }

  async function* read(signal: AbortSignal): AsyncGenerator<TopicRecord[]> {
    const AnyBatch = await loadBatch();
    let failureCount = 0;
    while (!signal.aborted) {
      let records: TopicRecord[] = [];
      try {
        await findEnds();
        const wanted = [...positions.keys()].filter(isLeft);
        if (wanted.length === 0) return;
        const byLeader = Object.entries((cluster as Cluster).findLeaderForPartitions(topic, wanted));
        const answers = await Promise.allSettled(
          byLeader.map(([nodeId, partitions]) => fetchFrom(nodeId, partitions, AnyBatch)),
        );
        // Positions are past what the others have answered: it would not be read again.
        records = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
        const failed = answers.find(({ status }) => status === 'rejected');
        if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
        failureCount = 0;
      } catch (error) {
        if (signal.aborted) return;
        if (++failureCount > mostFailures) throw toError(error);
        if (protocolErrorIn(error) === 'OFFSET_OUT_OF_RANGE') await skipDeleted().catch(() => {});
        await sleep(pauseMs, undefined, { signal }).catch(() => {});
        await cluster?.refreshMetadata().catch(() => {});
      }
      if (records.length > 0) yield records;
    }
  }

  const partitionsLeft = (): number[] =>
    [...left].filter(([, { low, high }]) => low < high).map(([partition]) => partition);

  return {
    open: () =>
      start().catch((error: unknown) => {
        throw toError(error);
      }),

    read,
    partitionsLeft,
    async *older(count, signal) {
      for (const [partition, { low, high }] of left) {
        const from = Math.max(low, high - count);
        positions.set(partition, from);
        ends.set(partition, high);
        left.set(partition, { low, high: from });
      }
      yield* read(signal);
    },

    async close() {
      if (admin !== undefined) await disconnectWithin(admin, 1_000);
      await cluster?.disconnect().catch(() => {});
      client?.destroySockets();
    },
  };
}

/** Takes out what belongs to the log alone, and what transactions have taken back. */
async function loadBatch(): Promise<Batch> {
  // @ts-expect-error kafkajs has no types for its inner modules.
  return (await import('kafkajs/src/consumer/batch.js')).default;
}
