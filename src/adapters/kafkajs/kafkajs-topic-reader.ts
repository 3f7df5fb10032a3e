import { randomBytes } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { Admin, Consumer, IHeaders, KafkaMessage } from 'kafkajs';
import { createRanges, type Ranges } from '../../ground/bounds.ts';
import { sleep } from '../../ground/builtins.ts';
import { clock, within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type { TailRange, TopicReader, TopicRecord, TopicTail } from '../../publish/topic-reader.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import { passingRefusals, protocolErrorIn, toSendFailure } from '../kafka/send-failure.ts';
import { countPartitions } from '../kafka/session.ts';
import { clusterOf, loadKafkajs } from './kafkajs-client.ts';
import { loadKafkajsTransport } from './kafkajs-transport.ts';

/** Reads a topic once, and follows it. */
export const kafkajsTopics = { reader: createKafkajsTopicReader, tail: createKafkajsTopicTail };

export interface KafkajsTopicReaderOptions extends KafkaClientOptions {
  readonly topic: string;
  /** Consumer group under which Kafka remembers handled records. */
  readonly group: string;
  /** Whether the open reader keeps the process alive. Default: true. */
  readonly keepsAlive?: boolean;
}

interface Part extends Marks {
  readonly end: number;
  position: number;
}

interface Fetched {
  readonly partition: number;
  readonly lastOffset: number;
  readonly records: readonly TopicRecord[];
}

/** About 10 s of tries: a new cluster may need that long to find the coordinator of a group. */
const retry = { retries: 5 };

type Client = Awaited<ReturnType<typeof openClient>>;

async function openClient(options: KafkaClientOptions) {
  return (await loadKafkajs({ ...options, ...retry, readsAll: true }))();
}

/** And another 10 s to load its offsets. */
const longestLoadingMs = 10_000;
const loadingPauseMs = 250;
/** Reading ends after this long without records: a partition can end in records that no consumer is ever shown. */
const idleMs = 15_000;
/** A broker answers a fetch after half a second, with or without records. A slower one hangs. */
const hangingMs = 5_000;
/** A fetch fails after `requestTimeoutMs`, and kafkajs asks again within this time. An older fetch says nothing. */
const renewalMs = 10_000;

/**
 * Reads a topic as a member of a consumer group, so that two recoveries at once share the partitions. The group's offsets hold
 * the progress: everything before the offset is handled, and further ranges are in its metadata.
 */
function createKafkajsTopicReader(options: KafkajsTopicReaderOptions): TopicReader {
  const { topic } = options;
  const parts = new Map<number, Part>();
  let client: Client | undefined;
  let admin: Admin | undefined;
  let consumer: Consumer | undefined;
  let channel: ReturnType<typeof createChannel<Fetched>> | undefined;
  let listGroup: string | undefined;
  /** Node id of a broker with a fetch in flight -> its start. */
  const fetching = new Map<number, number>();
  let hold: NodeJS.Timeout | undefined;

  async function orLine<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof SvcError) throw error;
      const { message } = toSendFailure(error, { options, topic, written: false });
      throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', message);
    }
  }

  /** Without retries, so that a wrong name or address is reported at once. */
  async function checkTopic(): Promise<void> {
    if ((await countPartitions(loadKafkajsTransport, options, topic)) !== undefined) return;
    throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', `Kafka has no topic "${topic}"`);
  }

  /** kafkajs does not retry while a coordinator moves or loads its offsets, as after a start or a failover. */
  async function committedOffsets(asked: Admin) {
    for (const endMs = clock.monotonic() + longestLoadingMs; ; )
      try {
        const [committed] = await asked.fetchOffsets({ groupId: options.group, topics: [topic] });
        return committed;
      } catch (error) {
        const isPassing = passingRefusals.has(protocolErrorIn(error) ?? '');
        if (!isPassing || clock.monotonic() >= endMs) throw error;
        await sleep(loadingPauseMs);
      }
  }

  async function readState(asked: Admin): Promise<void> {
    const ends = await asked.fetchTopicOffsets(topic);
    const committed = await committedOffsets(asked);
    for (const { partition, low, high } of ends) {
      const found = committed?.partitions.find((one) => one.partition === partition);
      const offset = found === undefined || Number(found.offset) < 0 ? undefined : Number(found.offset);
      const marks = doneMarks.read(Number(low), offset, found?.metadata ?? null);
      parts.set(partition, { ...marks, end: Number(high), position: marks.base });
    }
  }

  async function startConsumer(
    groupId: string,
    to: ReturnType<typeof createChannel<Fetched>>,
  ): Promise<void> {
    const { kafka, readBounded } = client as Client;
    const opened = kafka.consumer({
      groupId,
      maxWaitTimeInMs: 500,
      retry,
    });
    consumer = opened;
    opened.on(opened.events.CRASH, ({ payload }) => to.fail(payload.error));
    opened.on(
      opened.events.FETCH_START,
      ({ payload }) => void fetching.set(payload.nodeId, clock.monotonic()),
    );
    opened.on(opened.events.FETCH, ({ payload }) => void fetching.delete(payload.nodeId));
    await opened.connect();
    await opened.subscribe({ topics: [topic], fromBeginning: true });
    await readBounded(() =>
      opened.run({
        autoCommit: false,
        eachBatch: async ({ batch, heartbeat }) => {
          const { partition, messages } = batch;
          const records = messages.map((message) => toRecord(partition, message));
          await to.give({ partition, lastOffset: Number(batch.lastOffset()), records }, heartbeat);
        },
      }),
    );
    for (const [partition, { base, end }] of parts) {
      opened.seek({ topic, partition, offset: String(Math.min(base, end)) });
    }
  }

  const hangs = (): boolean =>
    [...fetching.values()].some((sinceMs) => {
      const ageMs = clock.monotonic() - sinceMs;
      return ageMs > hangingMs && ageMs < options.requestTimeoutMs + renewalMs;
    });

  const isComplete = (): boolean => [...parts.values()].every(({ position, end }) => position >= end);

  return {
    open: (forRecovery) =>
      orLine(async () => {
        // The sockets are unref'd.
        if (options.keepsAlive !== false) hold = setInterval(() => {}, 60_000);
        listGroup = forRecovery ? undefined : `${options.group}-list-${randomBytes(4).toString('hex')}`;
        await checkTopic();
        client = await openClient(options);
        admin = client.kafka.admin({ retry });
        await admin.connect();
        await readState(admin);
      }),

    async count() {
      let count = 0;
      for (const { base, end, done } of parts.values()) count += Math.max(0, end - base - done.size());
      return count;
    },

    async *read(size) {
      if (isComplete()) return;
      channel = createChannel<Fetched>(idleMs);
      const from = channel;
      await orLine(() => startConsumer(listGroup ?? options.group, from));
      while (!isComplete()) {
        const fetched = await orLine(() => from.take());
        // Records may still come from the broker that hangs. kafkajs waits for it, and fails in the end.
        if (fetched === undefined && hangs()) continue;
        if (fetched === undefined) return;
        const part = parts.get(fetched.partition);
        if (part === undefined) continue;
        const wanted = fetched.records.filter(
          ({ offset }) => offset >= part.position && offset < part.end && !part.done.has(offset),
        );
        for (let at = 0; at < wanted.length; at += size) yield wanted.slice(at, at + size);
        part.position = Math.max(part.position, fetched.lastOffset + 1);
      }
    },

    done: (records) =>
      orLine(async () => {
        for (const { partition, offset } of records) parts.get(partition)?.done.add(offset);
        const touched = new Set(records.map(({ partition }) => partition));
        await consumer?.commitOffsets(
          [...touched].map((partition) => {
            const { offset, metadata } = doneMarks.write(parts.get(partition) as Part);
            return { topic, partition, offset: String(offset), metadata };
          }),
        );
      }),

    async close() {
      channel?.end();
      if (consumer !== undefined) await disconnectWithin(consumer, 5_000);
      if (listGroup !== undefined && consumer !== undefined)
        await admin?.deleteGroups([listGroup]).catch(() => {});
      if (admin !== undefined) await disconnectWithin(admin, 1_000);
      client?.destroySockets();
      clearInterval(hold);
    },
  };
}

function toRecord(partition: number, { key, value, headers, offset, timestamp }: KafkaMessage): TopicRecord {
  return {
    partition,
    offset: Number(offset),
    key: key === null ? null : key.toString(),
    value: value ?? Buffer.alloc(0),
    headers: toTexts(headers ?? {}),
    timestamp: Number(timestamp),
  };
}

/** The last value of a repeated header. */
function toTexts(headers: IHeaders): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const one = Array.isArray(value) ? value.at(-1) : value;
    if (one !== undefined) texts[name] = one.toString();
  }
  return texts;
}

/** Handled records of one partition: all before `base`, and those in `done`. */
interface Marks {
  base: number;
  readonly done: Ranges;
}

/** As the metadata of a committed offset. */
export const doneMarks = { read: readMarks, write: writeMarks };

/** Kafka's default for `offset.metadata.max.bytes` is 4,096. */
const maxMetadataLength = 4_000;

/** From a committed offset and its metadata. */
function readMarks(low: number, offset: number | undefined, metadata: string | null): Marks {
  const base = Math.max(low, offset ?? low);
  if (offset === undefined || metadata === null || !metadata.startsWith(prefix))
    return { base, done: createRanges() };
  try {
    const packed = Buffer.from(metadata.slice(prefix.length), 'base64');
    const text = inflateRawSync(packed, { maxOutputLength: maxTextBytes }).toString();
    const ranges: [number, number][] = [];
    let at = offset;
    for (const pair of text.split(',')) {
      const [gap = 0, length = 0] = pair.split('.').map((number) => Number.parseInt(number, 36));
      ranges.push([at + gap, at + gap + length]);
      at += gap + length;
    }
    return { base, done: createRanges(ranges) };
  } catch {
    return { base, done: createRanges() };
  }
}

const prefix = 'svc1:';
/** More than 4,000 characters of svc can expand to. Any process with access to the group can commit any text. */
const maxTextBytes = 4 * 1024 * 1024;

/** Moves `base` past handled records, and returns the offset and metadata to commit. */
function writeMarks(marks: Marks): { offset: number; metadata: string } {
  let ranges = marks.done.toJSON().filter(([, last]) => last >= marks.base);
  const first = ranges[0];
  if (first !== undefined && first[0] <= marks.base) {
    marks.base = first[1] + 1;
    ranges = ranges.slice(1);
  }
  if (ranges.length === 0) return { offset: marks.base, metadata: '' };
  let at = marks.base;
  const pairs = ranges.map(([start, last]) => {
    const pair = `${(start - at).toString(36)}.${(last - start).toString(36)}`;
    at = last;
    return pair;
  });
  const metadata = prefix + deflateRawSync(Buffer.from(pairs.join(','))).toString('base64');
  if (metadata.length > maxMetadataLength) {
    throw new SvcError(
      'SVC_ADAPTERS_MARKS_FULL',
      'the filters leave more gaps in a partition than Kafka can remember. Recover without filters, or once per event type. The next run sends the last batch again',
    );
  }
  return { offset: marks.base, metadata };
}

/** The inner cluster of kafkajs, because its consumers need a group. */
interface Cluster {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  addTargetTopic(topic: string): Promise<void>;
  refreshMetadata(): Promise<void>;
  findLeaderForPartitions(topic: string, partitions: readonly number[]): Record<string, number[]>;
  findBroker(node: { nodeId: string }): Promise<{ fetch(request: object): Promise<TailFetched> }>;
}

interface TailFetched {
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

/** A broker answers after this, with or without records. */
const maxWaitMs = 500;
const partBytes = 1024 * 1024;
const readCommitted = 1;
/** A new leader is ready after some seconds. */
const maxFailures = 20;
const pauseMs = 500;

/** Reads each partition from its leader, and stores no progress. */
function createKafkajsTopicTail(options: KafkaClientOptions & TailRange): TopicTail {
  const { topic, fromMs, untilMs } = options;
  /** Partition -> next offset. */
  const positions = new Map<number, number>();
  /** Partition -> exclusive end offset, once it is known. */
  const ends = new Map<number, number>();
  /** Partition -> offsets that `older` has not read yet. */
  const left = new Map<number, { readonly low: number; readonly high: number }>();
  let client: Client | undefined;
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
      throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', `Kafka has no topic "${topic}"`);
    client = await openClient(options);
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

  /** Records that arrive later do not count, whatever the clocks of producers say. */
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
    const fetched = await (client as Client).readBounded(() =>
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

  /** Continues after records that were deleted meanwhile. */
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
        // Positions are past the answers of the others, which would not be read again.
        records = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
        const failed = answers.find(({ status }) => status === 'rejected');
        if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
        failureCount = 0;
      } catch (error) {
        if (signal.aborted) return;
        if (++failureCount > maxFailures) throw toError(error);
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

/** Removes control records and aborted transactions. */
async function loadBatch(): Promise<Batch> {
  // @ts-expect-error kafkajs has no types for its inner modules.
  return (await import('kafkajs/src/consumer/batch.js')).default;
}

/** kafkajs waits for answers that may never come before it disconnects. Never rejects. */
async function disconnectWithin(client: Admin | Consumer, limitMs: number): Promise<void> {
  const leaving = client.disconnect().catch(() => {});
  await within(limitMs, leaving);
}

const heartbeatMs = 1_000;

/** From a producer that calls back to a consumer that asks, one item at a time. All waits are unref'd. */
function createChannel<T>(idleMs: number) {
  let waiting: { thing: T; taken: () => void } | undefined;
  let release: (() => void) | undefined;
  let wake: (() => void) | undefined;
  let failure: { error: unknown } | undefined;
  let ended = false;

  return {
    /** Resolves when the consumer asks for the next item. Calls `heartbeat` each second until then. */
    async give(thing: T, heartbeat: () => Promise<void>): Promise<void> {
      if (ended) return;
      let isReleased = false;
      const released = new Promise<void>((resolve) => {
        waiting = {
          thing,
          taken: () => {
            isReleased = true;
            resolve();
          },
        };
      });
      wake?.();
      while (!isReleased) {
        let timer: NodeJS.Timeout | undefined;
        const second = new Promise<void>((resolve) => {
          timer = setTimeout(resolve, heartbeatMs).unref();
        });
        await Promise.race([released, second]);
        clearTimeout(timer);
        if (!isReleased) await heartbeat();
      }
    },

    /** The next item; `undefined` if none comes for `idleMs`. */
    async take(): Promise<T | undefined> {
      release?.();
      release = undefined;
      if (failure === undefined && waiting === undefined) {
        let timer: NodeJS.Timeout | undefined;
        await new Promise<void>((resolve) => {
          wake = resolve;
          timer = setTimeout(resolve, idleMs).unref();
        });
        clearTimeout(timer);
        wake = undefined;
      }
      if (failure !== undefined) throw failure.error;
      const given = waiting;
      waiting = undefined;
      release = given?.taken;
      return given?.thing;
    },

    /** The consumer has stopped: `give` resolves at once. */
    end(): void {
      ended = true;
      waiting?.taken();
      release?.();
    },

    /** `take` rejects with this error from now on. */
    fail(error: unknown): void {
      failure ??= { error };
      wake?.();
    },
  };
}
