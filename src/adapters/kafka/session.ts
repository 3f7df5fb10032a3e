import { backoffMs, clock, inTime } from '../../ground/clock.ts';
import { topicNamePattern } from '../../ground/event-fields.ts';
import { logger } from '../../observe/logger.ts';
import {
  type BrokerRecord,
  type BrokerTraffic,
  type ClusterInfo,
  type HeldBack,
  makeRecords,
  partitionOf,
  partitionOfKey,
  passingOf,
  type SendFailure,
  type SendResult,
} from '../../publish/broker.ts';
import { type Compression, compressionOf } from './compressors.ts';
import type { KafkaClientOptions } from './kafka-client-options.ts';
import {
  AnswerReader,
  type ClusterMetadata,
  checkCode,
  int32,
  type KafkaRequest,
  metadataRequest,
  type Node,
  ProtocolError,
  type TopicMetadata,
  text,
} from './protocol.ts';
import {
  BrokerError,
  failed,
  isAnswer,
  NoAnswer,
  NoCommonVersion,
  passingRefusals,
  protocolErrorIn,
  toSendFailure,
  who,
} from './send-failure.ts';
import {
  type Address,
  type BrokerConnection,
  type Connections,
  createConnections,
  firstAnswer,
  keyOf,
  type LoadTransport,
  parseAddress,
} from './transport.ts';

// one producer for all clients: leaders of partitions, connections, requests, time-outs, outcomes of sends.

/** Connections for sends to one broker. All sends of a topic use the same one. */
const maxPerBroker = 8;

/** A loaded client of Kafka. It rejects with errors that `toSendFailure` understands. */
export async function openSession(load: LoadTransport, options: KafkaClientOptions) {
  // A broker answers the requests of a connection in turn, so questions and topics have separate ones.
  const toAsk = createConnections(await load(options), options);
  const { throttle } = toAsk;
  const toSend = Array.from({ length: maxPerBroker }, toAsk.beside);
  const all = [toAsk, ...toSend];
  const answerTimes = createAnswerTimes();
  const renew = (): void => {
    for (const connections of all) connections.renew();
  };
  const silence = createSilence(renew, answerTimes.last);
  const topics = createTopics(toAsk, options, silence.notice);
  const [compression, checksum] = await Promise.all([compressionOf(options.compression), loadChecksum()]);
  const connectionsFor = (topic: string) => toSend[partitionOfKey(topic, maxPerBroker)] as Connections;
  const parts = {
    ...{ connectionsFor, topics, silentAtMs: silence.lastAtMs, answerTimes, compression, checksum },
    sequences: isIdempotent(options) ? createSequences(newProducerOf(topics, options)) : undefined,
  };
  const sends = createSends(parts, options);

  return {
    /** Of at least one record. Never rejects. Without `partition`: by the first key, as in Java. */
    send: createSendWhenTopicReady({
      async send(topic, partition, records, placedBy) {
        try {
          const [{ key } = { key: null }] = records;
          const to = partition ?? partitionOf(key, (await topics.find(topic)).leaders.length);
          return await sends.send(topic, to, records, partition === undefined ? undefined : placedBy);
        } catch (error) {
          return failed(toSendFailure(error, { options, topic, written: false }));
        }
      },
      isReady: topics.isThere,
      limitMs: options.requestTimeoutMs,
    }),
    ...{ partitionCount: topics.partitionCount, placedBy: topics.placedBy },
    describe: topics.describe,
    traffic(): BrokerTraffic {
      const connectionCount = all.reduce((sum, connections) => sum + connections.count(), 0);
      return { connectionCount, ...sends.traffic() };
    },
    heldBack(topic?: string, partition?: number): HeldBack | undefined {
      if (topic === undefined || partition === undefined) return throttle.of();
      const leader = topics.leaderOf(topic, partition);
      return leader && throttle.of(keyOf(leader));
    },
    close(): void {
      for (const connections of all) connections.close();
    },
  };
}

function isIdempotent({ idempotence = true, acks = 'all' }: KafkaClientOptions): boolean {
  if (idempotence && acks !== 'all')
    logger.info(
      `Kafka may store a retried event twice: svc.broker.idempotence needs svc.broker.acks: all, but it is ${acks}`,
    );
  return idempotence && acks === 'all';
}

type Send = (
  topic: string,
  partition: number | undefined,
  records: readonly BrokerRecord[],
  /** The number of partitions when `partition` was chosen, if known. */
  placedBy?: number,
) => Promise<SendResult>;

const firstLookMs = 20;
const longestLookMs = 250;
/** A broker creates a topic in less. Later, the sender gets the failure, and its retries continue. */
const usualUnknownMs = 1_000;
/** Topics remembered as missing. Their names can come from application data. */
const maxMissing = 1_000;

/**
 * A topic that the broker creates for its first record refuses that record until its partitions have leaders. Nothing was
 * stored, so the records are sent again. All sends to one topic share one poll. A topic that did not appear in time is not
 * waited for again until a send to it succeeds.
 */
export function createSendWhenTopicReady({
  send,
  isReady,
  limitMs,
  unknownMs = usualUnknownMs,
}: {
  readonly send: Send;
  /** Whether the topic exists. Rejects if one of its partitions has no leader. */
  readonly isReady: (topic: string) => Promise<boolean>;
  /** How long to wait for a topic without leaders. */
  readonly limitMs: number;
  /** How long to wait for a topic that the cluster does not know. Default: 1000. */
  readonly unknownMs?: number;
}): Send {
  const polls = new Map<string, Promise<boolean>>();
  const missing = new Set<string>();

  function becomesReady(topic: string): Promise<boolean> {
    let poll = polls.get(topic);
    if (poll === undefined) {
      const unknownEnd = clock.monotonic() + unknownMs;
      const look = async (): Promise<boolean | 'in vain'> => {
        try {
          return (await isReady(topic)) || (clock.monotonic() >= unknownEnd ? 'in vain' : false);
        } catch {
          return false;
        }
      };
      poll = repeatUntil(look, limitMs).finally(() => polls.delete(topic));
      polls.set(topic, poll);
    }
    return poll;
  }

  return async (topic, partition, records, placedBy) => {
    const first = await send(topic, partition, records, placedBy);
    if (first.ok) missing.delete(topic);
    if (first.ok || !isWithoutLeader(first.failure)) return first;
    const isUnknown = passingOf(first.failure.cause) === 'unknown';
    if (isUnknown && missing.has(topic)) return first;
    const end = clock.monotonic() + limitMs;
    if (!(await becomesReady(topic))) {
      if (isUnknown) missing.add(topic);
      if (missing.size > maxMissing) missing.delete(missing.values().next().value as string);
      return first;
    }
    let last = await send(topic, partition, records, placedBy);
    // The cluster knows the leader a moment before the leader itself does.
    const again = async (): Promise<boolean> => {
      last = await send(topic, partition, records, placedBy);
      return last.ok || !isBeingMade(last.failure);
    };
    if (!last.ok && isBeingMade(last.failure)) await repeatUntil(again, end - clock.monotonic());
    return last;
  };
}

/** Nothing was stored, and the topic may exist in a moment. */
function isWithoutLeader({ kind, cause }: SendFailure): boolean {
  const passing = passingOf(cause);
  return kind === 'retriable' && (passing === 'unknown' || passing === 'without leader');
}

function isBeingMade(failure: SendFailure): boolean {
  return isWithoutLeader(failure) || passingOf(failure.cause) === 'moved';
}

/** Repeats `attempt` with growing pauses until it returns `true`. Returns `false` if it is in vain or `limitMs` are over. */
async function repeatUntil(attempt: () => Promise<boolean | 'in vain'>, limitMs: number): Promise<boolean> {
  const end = clock.monotonic() + limitMs;
  for (let tries = 1; ; tries++) {
    const pauseMs = backoffMs(tries, firstLookMs, longestLookMs);
    if (tries > 1 && clock.monotonic() + pauseMs >= end) return false;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    const result = await attempt();
    if (result !== false) return result === true;
  }
}

/** Asks over its own connections, and closes them. */
export async function countPartitions(
  load: LoadTransport,
  options: KafkaClientOptions,
  topic: string,
): Promise<number | undefined> {
  const connections = createConnections(await load(options), options);
  try {
    return await createTopics(connections, options).partitionCount(topic);
  } finally {
    connections.close();
  }
}

interface SendsParts {
  readonly connectionsFor: (topic: string) => Connections;
  readonly topics: Topics;
  /** When the cluster was last silent, on the monotonic clock. */
  readonly silentAtMs: () => number;
  readonly answerTimes: ReturnType<typeof createAnswerTimes>;
  /** Default: none. */
  readonly compression?: Compression | undefined;
  /** Of batches. Default: svc's own. */
  readonly checksum?: Checksum | undefined;
  /** Left out: Kafka stores a batch as often as it is sent. */
  readonly sequences?: Sequences | undefined;
}

/** A send is late after this many times the mean answer time. */
const usualAnswers = 3;

/** A broker that hangs uses up its time limit before the next one is asked. That one answers in this time, or is away too. */
const answerMs = 500;

interface InFlight {
  readonly topic: string;
  readonly partition: number;
  readonly leader: Node;
  readonly begunMs: number;
  writtenMs?: number;
  /** Set once the records are written to it. */
  connection?: BrokerConnection;
  /** May be written to another connection as well: the broker stores the batch once by its sequence. */
  request?: KafkaRequest<number | undefined> | undefined;
  /** The answer of that other connection. */
  second?: Promise<number | undefined>;
  /** Why it was abandoned. */
  failure?: SendFailure;
}

interface Try {
  readonly place: BatchPlace | undefined;
  readonly placedBy: number | undefined;
  /** A batch that is stored before this offset is in a topic that was created again. */
  readonly endOffset: number;
}
/** `acks` of a produce request. */
const ackNumbers = { all: -1, '1': 1, '0': 0 } as const;

/** Sends records to the leader of their partition. */
export function createSends(parts: SendsParts, options: KafkaClientOptions) {
  const { connectionsFor, topics, silentAtMs, answerTimes, compression, checksum, sequences } = parts;
  const inFlight = new Set<InFlight>();
  const acks = ackNumbers[options.acks ?? 'all'];

  /**
   * Drops the connection of this send if another broker leads its partition now, or if the cluster was silent since the send
   * and answers again. The send fails by that.
   */
  async function abandonHungSend(send: InFlight): Promise<void> {
    const { topic, partition } = send;
    // A broker reads nothing while it throttles this process.
    const heldUntilMs = connectionsFor(topic).throttle.untilMs(keyOf(send.leader));
    if (clock.monotonic() - heldUntilMs < stallAfterMs) return;
    let leader: Node | undefined;
    const asking = topics.refresh(topic).then(
      ({ leaders }) => {
        leader = leaders[partition];
      },
      () => {},
    );
    const limitMs = options.connectionTimeoutMs + answerMs;
    // The caller of the send keeps the process alive.
    await inTime(asking, { limitMs, keepsAlive: false, late: () => {} });
    if (leader === undefined || !inFlight.has(send)) return;
    if (keyOf(leader) !== keyOf(send.leader)) {
      send.failure = leaderMoved(send, leader);
      connectionsFor(topic).drop(send.leader);
    } else if (send.writtenMs !== undefined && send.writtenMs <= silentAtMs()) {
      send.failure = connectionDead(topic);
    } else await askAgain(send);
    // The connection may be retired already.
    if (send.failure !== undefined) send.connection?.destroy();
  }

  /**
   * The leader is the same: it is slow, or this connection is dead without a word. If the broker answers over another
   * connection, the batch is written there too. The broker stores it once by its sequence, it counts as no retry, and a dead
   * connection no longer delays it.
   */
  async function askAgain(send: InFlight): Promise<void> {
    const { topic, leader, connection, writtenMs, request } = send;
    if (request === undefined || connection === undefined || writtenMs === undefined) return;
    const usualMs = usualAnswers * (answerTimes.mean() ?? 0);
    if (clock.monotonic() - writtenMs < Math.max(stallAfterMs, usualMs)) return;
    const fresh = await connectionsFor(topic)
      .replace(leader, connection)
      .catch(() => undefined);
    if (fresh === undefined || fresh === connection || !inFlight.has(send)) return;
    send.request = undefined;
    // Giving up the send closes both connections.
    send.connection = both(connection, fresh);
    send.second = fresh.ask(request);
    // Closing the first one ends the wait for it. Other sends on it wait as well, because answers come in order.
    const answered = (): void => {
      if (inFlight.has(send)) connection.destroy();
    };
    send.second.then(answered, (error) => isAnswer(error) && answered());
  }
  const begins = watchForHangs(inFlight, abandonHungSend);

  function ended(entry: InFlight): void {
    inFlight.delete(entry);
    // V8 may keep the entry until a full garbage collection, and the request holds the batch.
    entry.request = undefined;
  }

  async function produce(
    entry: InFlight,
    records: readonly BrokerRecord[],
    place: BatchPlace | undefined,
  ): Promise<number> {
    const { topic, partition, leader } = entry;
    const connections = connectionsFor(topic);
    await connections.throttle.over(keyOf(leader));
    const connection = await connections.get(leader);
    const batch = compression
      ? await encodeCompressedBatch(records, compression, checksum, place)
      : await encodeBatch(records, checksum, place);
    entry.writtenMs = clock.monotonic();
    entry.connection = connection;
    const timeoutMs = options.requestTimeoutMs;
    const request = produceRequest({ topic, partition, acks, timeoutMs, batch });
    const asking = place === undefined ? connection.ask(request) : firstAnswered(entry, connection, request);
    const offset = await asking;
    answerTimes.record(clock.monotonic() - entry.writtenMs);
    return offset ?? -1;
  }

  /** The first answer counts if the batch was written twice. */
  async function firstAnswered(
    entry: InFlight,
    connection: BrokerConnection,
    request: KafkaRequest<number | undefined>,
  ): Promise<number | undefined> {
    entry.request = request;
    try {
      return await connection.ask(request);
    } catch (error) {
      if (entry.second === undefined || isAnswer(error)) throw error;
      return await entry.second;
    }
  }

  async function attempt(
    topic: string,
    partition: number,
    records: readonly BrokerRecord[],
    { place, placedBy, endOffset }: Try,
  ): Promise<Tried<SendResult>> {
    let entry: InFlight | undefined;
    try {
      const { leader, count } = await leaderOf(topics, topic, partition, placedBy);
      if (placedBy !== undefined && placedBy !== count)
        return {
          verdict: 'refused',
          result: failed(otherCount(topic, count, placedBy, topics.isRecreated(topic))),
        };
      if (leader === undefined)
        return { verdict: 'refused', result: failed(noSuchPartition(topic, partition)) };
      entry = { topic, partition, leader, begunMs: clock.monotonic() };
      inFlight.add(entry);
      begins();
      const offset = await produce(entry, records, place);
      if (offset < 0) return { verdict: 'stored', result: { ok: true } };
      const result: SendResult = offset < endOffset ? { ok: true, isRecreated: true } : { ok: true };
      return { verdict: 'stored', result, endOffset: offset + records.length };
    } catch (error) {
      const written = entry?.connection !== undefined;
      const verdict = entry?.failure === undefined ? verdictOf(protocolErrorIn(error), written) : 'maybe';
      if (place !== undefined && verdict === 'stored') return { verdict, result: { ok: true } };
      // After any error, the next send asks who leads the partition.
      topics.forget(topic);
      return {
        verdict,
        result: failed(entry?.failure ?? toSendFailure(error, { options, topic, written })),
      };
    } finally {
      if (entry !== undefined) ended(entry);
    }
  }

  return {
    /**
     * Never rejects.
     *
     * @param placedBy the number of partitions when this one was chosen. If the topic has another number now, nothing is sent
     */
    async send(
      topic: string,
      partition: number,
      records: readonly BrokerRecord[],
      placedBy?: number,
    ): Promise<SendResult> {
      if (!topicNamePattern.test(topic))
        return failed(toSendFailure(new ProtocolError(invalidTopic), { options, topic, written: false }));
      const one = (place?: BatchPlace, endOffset = 0) =>
        attempt(topic, partition, records, { place, placedBy, endOffset });
      try {
        return await (sequences?.send(topic, partition, records, one) ?? one().then(({ result }) => result));
      } catch (error) {
        return failed(toSendFailure(error, { options, topic, written: false }));
      }
    },

    traffic(): Omit<BrokerTraffic, 'connectionCount'> {
      const written = [...inFlight].filter(({ connection }) => connection !== undefined);
      return { inFlightRequests: written.length, requestLatencyAvg: answerTimes.mean() };
    },
  };
}

/** Kafka refuses these before it stores anything of this try. */
const refusals = new Set([
  ...['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_RECORD', 'CORRUPT_MESSAGE', 'INVALID_TIMESTAMP'],
  ...['TOPIC_AUTHORIZATION_FAILED', 'INVALID_TOPIC_EXCEPTION', 'INVALID_REQUIRED_ACKS', 'POLICY_VIOLATION'],
  ...['NOT_ENOUGH_REPLICAS', 'UNSUPPORTED_COMPRESSION_TYPE', 'UNSUPPORTED_VERSION'],
]);

/** The producer may continue in another epoch. */
const misplaced = new Set([
  ...['OUT_OF_ORDER_SEQUENCE_NUMBER', 'UNKNOWN_PRODUCER_ID', 'INVALID_PRODUCER_EPOCH'],
  ...['INVALID_PRODUCER_ID_MAPPING', 'PRODUCER_FENCED'],
]);

/** Topics in the format of Kafka before 0.11, and clusters before 2.8 whose user may not be idempotent. */
const unplaced = new Set(['UNSUPPORTED_FOR_MESSAGE_FORMAT', 'CLUSTER_AUTHORIZATION_FAILED']);

/** @param type Kafka's name of the error. A leader that has just lost its partition may have stored the batch before */
export function verdictOf(type: string | undefined, written: boolean): Verdict {
  if (!written) return 'refused';
  if (type === undefined) return 'maybe';
  if (type === 'DUPLICATE_SEQUENCE_NUMBER') return 'stored';
  if (misplaced.has(type)) return 'misplaced';
  if (unplaced.has(type)) return 'unplaced';
  return refusals.has(type) ? 'refused' : 'maybe';
}
function noSuchPartition(topic: string, partition: number | undefined): SendFailure {
  const message = `topic "${topic}" has no partition ${partition}`;
  return { kind: 'retriable', cause: 'UNKNOWN_PARTITION', message };
}

/** `placedBy`: the count when a partition was chosen. */
function otherCount(topic: string, count: number, placedBy: number, isRecreated: boolean): SendFailure {
  const what = isRecreated ? 'was created again, and has' : 'has';
  const message = `topic "${topic}" ${what} ${count} partitions now instead of ${placedBy}: its events are partitioned again`;
  const failure: SendFailure = { kind: 'retriable', cause: 'UNKNOWN_PARTITION', message };
  return isRecreated ? { ...failure, isRecreated } : failure;
}

const both = (one: BrokerConnection, other: BrokerConnection): BrokerConnection => ({
  ...other,
  destroy() {
    one.destroy();
    other.destroy();
  },
});

function leaderMoved({ topic, partition, leader, connection }: InFlight, now: Node): SendFailure {
  const message = `broker ${leader.nodeId} does not answer, and broker ${now.nodeId} leads partition ${partition} of topic "${topic}" now: check broker ${leader.nodeId}`;
  return { kind: connection ? 'unknown_outcome' : 'retriable', cause: 'LEADER_MOVED', message };
}

function connectionDead(topic: string): SendFailure {
  const message = `the cluster was silent and is back, but a send to topic "${topic}" from before has no answer; the next send uses a new connection`;
  return { kind: 'unknown_outcome', cause: 'TimeoutException', message };
}

/** `leader` is `undefined` if there is no such partition. */
async function leaderOf(
  topics: Topics,
  topic: string,
  partition: number,
  placedBy: number | undefined,
): Promise<{ readonly leader: Node | undefined; readonly count: number }> {
  let found = await topics.find(topic);
  // It may be new.
  const isOther = placedBy !== undefined && placedBy !== found.leaders.length;
  if (isOther || (!(partition in found.leaders) && partition >= 0)) found = await topics.refresh(topic);
  const count = found.leaders.length;
  if (!(partition in found.leaders)) return { leader: undefined, count };
  const leader = found.leaders[partition];
  if (leader !== undefined) return { leader, count };
  throw new ProtocolError(leaderNotAvailable);
}

const leaderNotAvailable = 5;
const invalidTopic = 17;

/**
 * The result of one try:
 * - `stored`: it is in the topic, by this try or an earlier one;
 * - `refused`: this try has stored nothing;
 * - `maybe`: unknown;
 * - `misplaced`: Kafka's state of the producer differs from ours, and nothing was stored;
 * - `unplaced`: this topic, or this cluster, takes no batch of a producer with an id.
 */
type Verdict = 'stored' | 'refused' | 'maybe' | 'misplaced' | 'unplaced';

export interface Tried<T> {
  readonly verdict: Verdict;
  readonly result: T;
  /** The offset after the stored batch, if Kafka told its offset. */
  readonly endOffset?: number | undefined;
}

/**
 * Kafka stores each batch of a partition once. A batch carries the id and epoch of its producer and the sequence of its first
 * record, and the broker remembers the last five. A batch that is sent again keeps its sequence, and the next batch continues
 * it. As in Kafka's own producer (KIP-360), a batch with an unknown outcome ends the epoch. A late copy of it is refused after
 * a batch of the next epoch. Each partition has its own epoch, as on the broker.
 */
interface Sequences {
  /**
   * Sends of one partition run one after another. The same first record and count mean the same batch. `attempt` never rejects,
   * and may be called again. Rejects if there is no producer id. Its `endOffset` is the offset after the last stored batch, or
   * 0 if that is not known. A batch before it is in a topic that was created again.
   */
  send<T>(
    topic: string,
    partition: number,
    records: readonly BrokerRecord[],
    attempt: Attempt<T>,
  ): Promise<T>;
}

type Attempt<T> = (place: BatchPlace | undefined, endOffset: number) => Promise<Tried<T>>;

interface Unended {
  readonly first: BrokerRecord | undefined;
  readonly count: number;
  readonly sequence: number;
  maybeStored: boolean;
}

interface ProducerId {
  readonly id: bigint;
  readonly epoch: number;
}

interface Lane {
  producer: ProducerId | undefined;
  next: number;
  endOffset: number;
  unended: Unended | undefined;
  /** Takes no batch of a producer with an id. */
  isPlain: boolean;
  /** Sends that run or wait. */
  waiting: number;
  last: Promise<unknown>;
  /** Used since `forgetOne` last passed over it. */
  isUsed: boolean;
}

/** Kafka's sequences wrap to 0 here. */
const sequenceEnd = 2 ** 31;
const lastEpoch = 2 ** 15 - 1;
const maxTries = 4;
/** The user may be granted the right meanwhile. */
const recheckMs = 60_000;
/** Partitions that are remembered. Topics can be named by application data. */
const usualLanes = 10_000;

/**
 * @param newProducer a new id; `undefined`: the cluster gives none, and batches have no sequence. May reject: it is called
 * again the next time
 */
export function createSequences(
  newProducer: () => Promise<ProducerId | undefined>,
  maxLanes = usualLanes,
): Sequences {
  const lanes = new Map<string, Lane>();
  /** The id and epoch of a partition that is not remembered. */
  let current: ProducerId | undefined;
  let asking: Promise<void> | undefined;
  /** When the cluster last gave no id, on the monotonic clock. */
  let noneAtMs = Number.NEGATIVE_INFINITY;
  const hasNone = (): boolean => clock.monotonic() - noneAtMs < recheckMs;

  /** Counts one more send. */
  function laneOf(key: string): Lane {
    let lane = lanes.get(key);
    if (lane === undefined) {
      lane = {
        ...{ producer: undefined, next: 0, unended: undefined, isPlain: false, waiting: 0 },
        ...{ last: Promise.resolve(), isUsed: false, endOffset: 0 },
      };
      lanes.set(key, lane);
    } else lane.isUsed = true;
    lane.waiting++;
    if (lanes.size > maxLanes) forgetOne();
    return lane;
  }

  /**
   * Forgets a partition that was not used lately. A used one has a second chance. Moving it to the end at each use would
   * rebuild the map every few sends. V8 keeps the old tables until a full garbage collection.
   */
  function forgetOne(): void {
    for (const [key, lane] of lanes) {
      const { waiting, producer, unended, isUsed } = lane;
      // A batch that may be stored still needs its sequence.
      if (waiting > 0 || unended !== undefined) continue;
      lanes.delete(key);
      if (isUsed) {
        lane.isUsed = false;
        lanes.set(key, lane);
        continue;
      }
      // Its sequences are used up in this epoch.
      if (producer !== undefined && producer.id === current?.id)
        current = producer.epoch < lastEpoch ? laterOf(current, nextEpoch(producer)) : undefined;
      return;
    }
  }

  async function ask(): Promise<void> {
    asking ??= newProducer()
      .then((found) => {
        current = found;
        if (found === undefined) noneAtMs = clock.monotonic();
      })
      .finally(() => {
        asking = undefined;
      });
    await asking;
  }

  function restart(lane: Lane, needsNewId = false): void {
    const { producer } = lane;
    lane.next = 0;
    lane.unended = undefined;
    if (producer === undefined) return;
    if (!needsNewId && producer.epoch < lastEpoch) {
      lane.producer = nextEpoch(producer);
      return;
    }
    lane.producer = undefined;
    if (current?.id === producer.id) current = undefined;
  }

  async function placeOf(lane: Lane, records: readonly BrokerRecord[]): Promise<BatchPlace | undefined> {
    const [first] = records;
    const { length: count } = records;
    const isSame = lane.unended?.first === first && lane.unended?.count === count;
    if (!isSame && lane.unended?.maybeStored) restart(lane);
    if (lane.producer === undefined) {
      while (current === undefined && !hasNone()) await ask();
      if (current === undefined) return undefined;
      lane.producer = current;
    }
    if (!isSame || lane.unended === undefined)
      lane.unended = { first, count, sequence: lane.next, maybeStored: false };
    const { id: producerId, epoch } = lane.producer as ProducerId;
    return { producerId, epoch, sequence: lane.unended.sequence };
  }

  function ended(lane: Lane, verdict: Verdict): void {
    const { unended } = lane;
    if (unended === undefined) return;
    if (verdict === 'stored') {
      lane.next = (unended.sequence + unended.count) % sequenceEnd;
      lane.unended = undefined;
    } else if (verdict === 'maybe') unended.maybeStored = true;
    else if (!unended.maybeStored) lane.unended = undefined;
  }

  async function run<T>(lane: Lane, records: readonly BrokerRecord[], attempt: Attempt<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      const place = lane.isPlain ? undefined : await placeOf(lane, records);
      const { verdict, result, endOffset = lane.endOffset } = await attempt(place, lane.endOffset);
      lane.endOffset = endOffset;
      if (place === undefined) return result;
      if (verdict === 'unplaced') lane.isPlain = true;
      else if (verdict === 'misplaced') restart(lane, tries > 1);
      else {
        ended(lane, verdict);
        return result;
      }
      if (tries === maxTries) return result;
    }
  }

  return {
    send(topic, partition, records, attempt) {
      const lane = laneOf(`${topic}\n${partition}`);
      const work = () => run(lane, records, attempt);
      const running = lane.waiting === 1 ? work() : lane.last.then(work);
      lane.last = running.then(
        () => lane.waiting--,
        () => lane.waiting--,
      );
      return running;
    },
  };
}

const nextEpoch = ({ id, epoch }: ProducerId): ProducerId => ({ id, epoch: epoch + 1 });

const laterOf = (one: ProducerId, other: ProducerId): ProducerId => (other.epoch > one.epoch ? other : one);

const firstPauseMs = 50;
const longestPauseMs = 1_000;

/** Any broker answers it. */
const producerIdRequest: KafkaRequest<ProducerId> = {
  ...{ key: 22, name: 'InitProducerId', oldest: 0, newest: 1 },
  throttle: { at: 'start', from: 1 },
  // No transactions, so no time limit for them.
  write: () => [text(null), int32(-1)],
  read(bytes) {
    const answer = new AnswerReader(bytes);
    answer.skip(4); // Throttle time.
    checkCode(answer.int16());
    return { id: answer.int64(), epoch: answer.int16() };
  },
};

/** Asks the cluster for a producer id; `undefined` if it gives none to this process, with one warning. */
function newProducerOf(
  topics: Pick<Topics, 'ask'>,
  options: KafkaClientOptions,
): () => Promise<ProducerId | undefined> {
  let isSaid = false;
  const none = (why: string): undefined => {
    if (!isSaid) logger.warn(`Kafka may store a retried event twice: ${why}`);
    isSaid = true;
  };
  return async () => {
    const endMs = clock.monotonic() + options.requestTimeoutMs;
    for (let tries = 1; ; tries++) {
      try {
        return await topics.ask(producerIdRequest);
      } catch (error) {
        const refusal = protocolErrorIn(error);
        if (isUnknown(error) || refusal === 'UNSUPPORTED_VERSION')
          return none(
            'it does not know the request InitProducerId (svc.broker.idempotence: false silences this line)',
          );
        if (refusal === 'CLUSTER_AUTHORIZATION_FAILED')
          return none(
            `${who(options)} may not be idempotent: grant it IdempotentWrite on the cluster (needed before Kafka 2.8), or set svc.broker.idempotence: false`,
          );
        if (refusal === undefined || !passingRefusals.has(refusal) || clock.monotonic() >= endMs) throw error;
        const pauseMs = backoffMs(tries, firstPauseMs, longestPauseMs);
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    }
  };
}

function isUnknown(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof NoCommonVersion) return true;
  return false;
}

/** How long a send may take before its leader is checked. A healthy cluster answers in milliseconds. */
const stallAfterMs = 3_000;
/** How often the leader is checked. The election of a new one takes some seconds. */
const lookMs = 500;

/**
 * A broker that stops without closing its connections answers nothing, and a request waits until its time-out, long after the
 * cluster has a new leader. So late sends are abandoned as soon as waiting is in vain, and their retries go to the new leader.
 * Returns the function to call when a send begins.
 *
 * @param inFlight in the order of their begin
 * @param abandon never rejects
 */
function watchForHangs<Send extends { readonly begunMs: number }>(
  inFlight: ReadonlySet<Send>,
  abandon: (send: Send) => Promise<void>,
): () => void {
  const asked = new WeakSet<Send>();
  let timer: NodeJS.Timeout | undefined;

  function look(): void {
    if (inFlight.size === 0) {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    const nowMs = clock.monotonic();
    for (const send of inFlight) {
      if (nowMs - send.begunMs < stallAfterMs) return;
      if (asked.has(send)) continue;
      asked.add(send);
      void abandon(send).then(() => asked.delete(send));
    }
  }

  return () => {
    timer ??= setInterval(look, lookMs).unref();
  };
}

interface Produce {
  readonly topic: string;
  readonly partition: number;
  readonly acks: number;
  readonly timeoutMs: number;
  readonly batch: Buffer;
}

/** One batch for one partition. The answer is the first offset; negative or missing if Kafka does not tell. */
export function produceRequest(produce: Produce): KafkaRequest<number | undefined> {
  return {
    ...{ key: 0, name: 'Produce', oldest: 3, newest: 8 },
    throttle: { at: 'end', from: 6 },
    write: () => [produceHead(produce), produce.batch],
    read: produce.acks === 0 ? undefined : readProduced,
  };
}

function produceHead({ topic, partition, acks, timeoutMs, batch }: Produce): Buffer {
  const bytes = Buffer.allocUnsafe(26 + topic.length);
  bytes.writeInt16BE(-1, 0); // No transaction.
  bytes.writeInt16BE(acks, 2);
  bytes.writeInt32BE(timeoutMs, 4);
  bytes.writeInt32BE(1, 8); // One topic.
  bytes.writeInt16BE(topic.length, 12);
  let at = 14 + bytes.write(topic, 14, 'latin1');
  at = bytes.writeInt32BE(1, at); // One partition.
  at = bytes.writeInt32BE(partition, at);
  bytes.writeInt32BE(batch.length, at);
  return bytes;
}

function readProduced(bytes: Buffer): number {
  const answer = new AnswerReader(bytes);
  answer.skip(4); // One topic.
  answer.text();
  answer.skip(4 + 4); // One partition, and its number.
  checkCode(answer.int16());
  return Number(answer.int64());
}

// Kafka's record batch, version 2: https://kafka.apache.org/documentation/#recordbatch. svc writes it itself, in one pass over
// one buffer. Both clients take several times as long.

const headBytes = 61;
const lengthAt = 8;
const magicAt = 16;
const crcAt = 17;
/** The checksum covers everything from here on. */
const attributesAt = 21;
const lastOffsetDeltaAt = 23;
const firstTimestampAt = 27;
const maxTimestampAt = 35;
const producerIdAt = 43;
const producerEpochAt = 51;
const sequenceAt = 53;
const recordCountAt = 57;

/** The position of a batch in the writes of one producer to one partition. Kafka stores it once, however often it is sent. */
export interface BatchPlace {
  readonly producerId: bigint;
  readonly epoch: number;
  /** Of its first record. */
  readonly sequence: number;
}

/** A producer without an id, as kafkajs writes it. */
const noPlace: BatchPlace = { producerId: -1n, epoch: 0, sequence: 0 };

/** Bytes written in one turn of the event loop, about half a millisecond. */
const turnBytes = 512 * 1024;

/** Work that yields, to continue in a later turn of the event loop. */
type InTurns<T> = Generator<undefined, T>;

/** One batch; a large one takes several turns. Defaults: svc's own checksum, and a producer without an id. */
export function encodeBatch(
  records: readonly BrokerRecord[],
  checksum: Checksum = crc32c,
  place: BatchPlace = noPlace,
): Promise<Buffer> {
  return inTurns(wholeBatch(records, checksum, place));
}

export async function encodeCompressedBatch(
  records: readonly BrokerRecord[],
  { bitmask, compress }: Compression,
  checksum: Checksum = crc32c,
  place: BatchPlace = noPlace,
): Promise<Buffer> {
  const times = timesOf(records);
  const packed = await compress(await inTurns(writeRecords(records, times.firstMs, 0)));
  const batch = Buffer.allocUnsafeSlow(headBytes + packed.length);
  batch.set(packed, headBytes);
  return inTurns(writeHead(batch, { count: records.length, times, attributes: bitmask, place }, checksum));
}

async function inTurns<T>(work: InTurns<T>): Promise<T> {
  for (;;) {
    const { done, value } = makeRecords(() => work.next());
    if (done) return value;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function* wholeBatch(
  records: readonly BrokerRecord[],
  checksum: Checksum,
  place: BatchPlace,
): InTurns<Buffer> {
  const times = timesOf(records);
  const bytes = yield* writeRecords(records, times.firstMs, headBytes);
  return yield* writeHead(bytes, { count: records.length, times, attributes: 0, place }, checksum);
}

interface Times {
  readonly firstMs: number;
  readonly lastMs: number;
}

function timesOf(records: readonly BrokerRecord[]): Times {
  let firstMs = Number.POSITIVE_INFINITY;
  let lastMs = Number.NEGATIVE_INFINITY;
  for (const { timestamp } of records) {
    if (timestamp < firstMs) firstMs = timestamp;
    if (timestamp > lastMs) lastMs = timestamp;
  }
  return { firstMs, lastMs };
}

interface Head {
  readonly count: number;
  readonly times: Times;
  readonly attributes: number;
  readonly place: BatchPlace;
}

function* writeHead(
  batch: Buffer,
  { count, times: { firstMs, lastMs }, attributes, place }: Head,
  checksum: Checksum,
): InTurns<Buffer> {
  batch.fill(0, 0, headBytes);
  batch.writeInt32BE(batch.length - lengthAt - 4, lengthAt);
  batch.writeInt8(2, magicAt);
  batch.writeInt16BE(attributes, attributesAt);
  batch.writeInt32BE(count - 1, lastOffsetDeltaAt);
  batch.writeBigInt64BE(BigInt(firstMs), firstTimestampAt);
  batch.writeBigInt64BE(BigInt(lastMs), maxTimestampAt);
  batch.writeBigInt64BE(place.producerId, producerIdAt);
  batch.writeInt16BE(place.epoch, producerEpochAt);
  batch.writeInt32BE(place.sequence, sequenceAt);
  batch.writeInt32BE(count, recordCountAt);
  let sum = 0;
  for (let at = attributesAt; at < batch.length; at += turnBytes) {
    if (at > attributesAt) yield;
    sum = checksum(batch, at, Math.min(at + turnBytes, batch.length), sum);
  }
  batch.writeInt32BE(sum, crcAt);
  return batch;
}

/** The records one after another, after `before` free bytes. In one pass, because counting costs as much as writing. */
function* writeRecords(records: readonly BrokerRecord[], firstMs: number, before: number): InTurns<Buffer> {
  let max = before;
  for (const record of records) max += maxBytes(record);
  // Outside the pool of small buffers, so aligned: the checksum is faster.
  const bytes = Buffer.allocUnsafeSlow(max);
  let at = before;
  let turnEnd = at + turnBytes;
  let index = 0;
  for (const record of records) {
    if (at >= turnEnd) {
      yield;
      turnEnd = at + turnBytes;
    }
    at = writeRecord(bytes, at, record, index++, firstMs);
  }
  return bytes.subarray(0, at);
}

const maxLengthBytes = 5;
/** Attributes, time, offset, number of headers, and the lengths of record, key and value. */
const maxOtherBytes = 1 + 8 + 5 * maxLengthBytes;

/** Upper bound for a record: a UTF-16 unit takes at most three bytes. */
function maxBytes(record: BrokerRecord): number {
  const { key, headers } = record;
  let bytes = maxOtherBytes + lengthOfValue(record);
  if (key !== null) bytes += 3 * key.length;
  for (const name of Object.keys(headers))
    bytes += 2 * maxLengthBytes + 3 * (name.length + (headers[name] as string).length);
  return bytes;
}

/** Writes a record after its length, whose space is that of the value's length: nearly always the same size. */
function writeRecord(
  bytes: Buffer,
  start: number,
  record: BrokerRecord,
  offsetDelta: number,
  firstMs: number,
): number {
  const body = start + sizeOfVarint(lengthOfValue(record));
  const end = writeBody(bytes, body, record, offsetDelta, record.timestamp - firstMs);
  const moved = start + sizeOfVarint(end - body);
  if (moved !== body) bytes.copyWithin(moved, body, end);
  writeVarint(bytes, end - body, start);
  return end + moved - body;
}

function writeBody(
  bytes: Buffer,
  start: number,
  record: BrokerRecord,
  offsetDelta: number,
  timeDelta: number,
): number {
  const { key, headers } = record;
  const valueBytes = lengthOfValue(record);
  bytes[start] = 0; // Attributes of a record: none are defined.
  let at = writeVarint(bytes, timeDelta, start + 1);
  at = writeVarint(bytes, offsetDelta, at);
  at = key === null ? writeVarint(bytes, -1, at) : writeText(bytes, key, at);
  at = writeVarint(bytes, valueBytes, at);
  if (record.writeValue === undefined) bytes.set(record.value, at);
  else record.writeValue(bytes, at);
  const names = Object.keys(headers);
  at = writeVarint(bytes, names.length, at + valueBytes);
  for (const name of names) at = writeText(bytes, headers[name] as string, writeText(bytes, name, at));
  return at;
}

function lengthOfValue(record: BrokerRecord): number {
  return record.valueBytes ?? record.value.length;
}

/** Writes a text after its length, and returns the next position. */
function writeText(bytes: Buffer, text: string, start: number): number {
  // An array has a length as well.
  if (typeof text !== 'string') throw new TypeError('no text');
  const { length } = text;
  const at = writeVarint(bytes, length, start);
  // Keys and headers are short and mostly ASCII: this loop is faster than a call into Node.
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    if (unit > 0x7f) return writeUtf8(bytes, text, start);
    bytes[at + i] = unit;
  }
  return at + length;
}

function writeUtf8(bytes: Buffer, text: string, start: number): number {
  const at = writeVarint(bytes, Buffer.byteLength(text), start);
  return at + bytes.write(text, at);
}

/** Below this, the doubled number fits the 32-bit operations of JavaScript. */
const fewBits = 2 ** 30;

/** Bytes of a whole number in Kafka's form: zigzag, seven bits a byte. */
function sizeOfVarint(value: number): number {
  let rest = zigzag(value);
  let size = 1;
  while (rest >= 0x80) {
    rest = rest < fewBits ? rest >>> 7 : Math.floor(rest / 0x80);
    size++;
  }
  return size;
}

/** Writes a whole number, up to 2 ** 52 in size, and returns the next position. */
function writeVarint(bytes: Uint8Array, value: number, start: number): number {
  let rest = zigzag(value);
  let at = start;
  while (rest >= 0x80) {
    bytes[at++] = (rest % 0x80) | 0x80;
    rest = rest < fewBits ? rest >>> 7 : Math.floor(rest / 0x80);
  }
  bytes[at++] = rest;
  return at;
}

const zigzag = (value: number): number => (value < 0 ? -2 * value - 1 : 2 * value);

/** Reversed polynomial of CRC-32C (Castagnoli), which Kafka's record batches carry. */
const polynomial = 0x82f63b78;

/** `tables[n * 256 + byte]`: the checksum of that byte followed by `n` zero bytes, so that one step takes eight bytes. */
const tables = makeTables();

const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
const noWords = new Int32Array(0);

/** CRC-32C of `bytes` from `start` to `end`, as a signed 32-bit number. `before`: the checksum of the preceding bytes. */
export function crc32c(bytes: Uint8Array, start: number, end: number, before = 0): number {
  let crc = ~before;
  let at = start;
  for (; at < end && ((bytes.byteOffset + at) & 3) !== 0; at++) crc = oneByte(crc, bytes[at] as number);
  const pairs = isLittleEndian ? (end - at) >> 3 : 0;
  const words = pairs > 0 ? new Int32Array(bytes.buffer, bytes.byteOffset + at, pairs * 2) : noWords;
  for (let word = 0; word < words.length; word += 2) {
    const first = (words[word] as number) ^ crc;
    const second = words[word + 1] as number;
    crc =
      (tables[0x700 + (first & 0xff)] as number) ^
      (tables[0x600 + ((first >>> 8) & 0xff)] as number) ^
      (tables[0x500 + ((first >>> 16) & 0xff)] as number) ^
      (tables[0x400 + (first >>> 24)] as number) ^
      (tables[0x300 + (second & 0xff)] as number) ^
      (tables[0x200 + ((second >>> 8) & 0xff)] as number) ^
      (tables[0x100 + ((second >>> 16) & 0xff)] as number) ^
      (tables[second >>> 24] as number);
  }
  for (at += words.byteLength; at < end; at++) crc = oneByte(crc, bytes[at] as number);
  return ~crc;
}

function oneByte(crc: number, byte: number): number {
  return (tables[(crc ^ byte) & 0xff] as number) ^ (crc >>> 8);
}

function makeTables(): Int32Array {
  const made = new Int32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ polynomial : crc >>> 1;
    made[byte] = crc;
  }
  for (let at = 256; at < made.length; at++) {
    const before = made[at - 256] as number;
    made[at] = (made[before & 0xff] as number) ^ (before >>> 8);
  }
  return made;
}

type Checksum = typeof crc32c;

interface NativeModule {
  readonly crc32c: (bytes: Uint8Array, before: number) => number;
}

// A variable: type checkers and bundlers must not require an optional peer.
const packageName: string = '@node-rs/crc32';

/** The package's checksum takes an eighth of the time. Without a binary for this machine: svc's own. Never rejects. */
export async function loadChecksum(
  load: () => Promise<NativeModule> = () => import(packageName),
): Promise<Checksum> {
  try {
    const native = (await load()).crc32c;
    const checksum: Checksum = (bytes, start, end, before = 0) =>
      native(bytes.subarray(start, end), before >>> 0) | 0;
    return isRight(checksum) ? checksum : crc32c;
  } catch {
    return crc32c;
  }
}

/** A broker refuses every batch with a wrong checksum. */
function isRight(checksum: Checksum): boolean {
  const sample = Uint8Array.from({ length: 300 }, (_, at) => at * 167);
  const inParts = checksum(sample, 200, sample.length, checksum(sample, 1, 200));
  return inParts === crc32c(sample, 1, sample.length);
}

// Topics and their leaders, as the brokers last told them.

interface Topic {
  readonly fetchedAtMs: number;
  /** `undefined` if the broker tells no topic ids. */
  readonly id: string | undefined;
  /** By partition; `undefined`: no leader now. */
  readonly leaders: readonly (Node | undefined)[];
}

/** Partitions may be added to a topic without notice. */
const maxAgeMs = 300_000;
/** Topics can be named by application data. */
const maxTold = 10_000;
/** Without acks, no broker says that it no longer leads the partition. */
const maxAgeUnconfirmedMs = 2_000;
/** Any broker has the answers at hand. */
const longestAnswerMs = 5_000;

export type Topics = ReturnType<typeof createTopics>;

/**
 * The cluster's brokers and topics. Rejects with errors that `toSendFailure` knows.
 *
 * @param notice called with the first try of each question
 */
export function createTopics(
  connections: Connections,
  options: KafkaClientOptions,
  notice: ReturnType<typeof createSilence>['notice'] = (question) => question,
) {
  const { throttle } = connections;
  const seeds = options.brokers.map(parseAddress);
  const freshMs = options.acks === '0' ? maxAgeUnconfirmedMs : maxAgeMs;
  const lastMs = Math.min(options.requestTimeoutMs, longestAnswerMs);
  const known = new Map<string, Topic>();
  const asked = new Map<string, Promise<Topic>>();
  const told = new Map<string, { readonly count: number; readonly id: string | undefined }>();
  let describing: Promise<ClusterMetadata> | undefined;
  let brokers: readonly Address[] = [];
  let lastDescribed: ClusterMetadata | undefined;

  /** The brokers to ask, connected ones first. */
  function candidates(): Address[] {
    const each = new Map([...seeds, ...brokers].map((address) => [keyOf(address), address]));
    return [...each.values()].sort((a, b) => Number(connections.has(b)) - Number(connections.has(a)));
  }

  /** When a broker may be asked. A seed may be any of the brokers, under another name. */
  function heldUntilMs(address: Address): number {
    const key = keyOf(address);
    const isKnown = brokers.some((broker) => keyOf(broker) === key);
    return isKnown ? throttle.untilMs(key) : (throttle.of()?.untilMs ?? Number.NEGATIVE_INFINITY);
  }

  const freeOf = (all: readonly Address[]): Address[] =>
    all.filter((address) => heldUntilMs(address) <= clock.monotonic());

  const isHeldBack = (): boolean => freeOf(candidates()).length === 0;

  /** Waits while all brokers throttle this process. They are up, and are asked as soon as the first throttle ends. */
  async function untilOneIsFree(): Promise<void> {
    while (isHeldBack()) {
      const firstMs = Math.min(...candidates().map(heldUntilMs));
      const leftMs = Math.max(1, Math.ceil(firstMs - clock.monotonic()));
      await new Promise((resolve) => setTimeout(resolve, leftMs).unref());
    }
  }

  function askOne<T>(address: Address, request: KafkaRequest<T>, limitMs: number): Promise<T> {
    let connection: BrokerConnection | undefined;
    const answer = async (): Promise<T> => {
      connection = await connections.get(address);
      return connection.ask(request);
    };
    const late = (): never => {
      // Otherwise the next question would ask it first.
      connection?.destroy();
      throw new BrokerError(keyOf(address), new NoAnswer(limitMs));
    };
    return inTime(answer(), { limitMs, keepsAlive: false, late });
  }

  async function askEach<T>(request: KafkaRequest<T>, signal: AbortSignal): Promise<T> {
    const known = candidates();
    const free = freeOf(known);
    const all = free.length > 0 ? free : known;
    let failure: unknown;
    for (const [index, address] of all.entries()) {
      const isLast = index === all.length - 1;
      try {
        const limitMs = isLast ? lastMs : Math.min(options.connectionTimeoutMs, lastMs);
        return await askOne(address, request, limitMs);
      } catch (error) {
        failure ??= error;
        // The other brokers would refuse it too.
        if (isAnswer(error)) throw error;
        signal.throwIfAborted();
      }
    }
    throw failure;
  }

  async function askAny<T>(request: KafkaRequest<T>): Promise<T> {
    if (isHeldBack()) await untilOneIsFree();
    let triedAtMs = Number.NEGATIVE_INFINITY;
    return firstAnswer((signal, isAgain) => {
      // The connection of the last try may be dead without a word.
      if (isAgain) connections.renew(triedAtMs);
      triedAtMs = clock.monotonic();
      const asking = askEach(request, signal);
      return isAgain ? asking : notice(asking, signal);
    }, isAnswer);
  }

  async function ask(topics: readonly string[], mayCreate: boolean): Promise<ClusterMetadata> {
    const answer = await askAny(metadataRequest(topics, mayCreate));
    brokers = answer.brokers;
    lastDescribed = answer;
    return answer;
  }

  /** Concurrent callers share one question. */
  function describeCluster(): Promise<ClusterMetadata> {
    describing ??= ask([], false).finally(() => {
      describing = undefined;
    });
    return describing;
  }

  async function fetch(topic: string): Promise<Topic> {
    const answer = await ask([topic], options.makesTopics !== false);
    const nodes = new Map(answer.brokers.map((node) => [node.nodeId, node]));
    const leaders: (Node | undefined)[] = [];
    for (const { partition, leaderId } of partitionsIn(answer)) leaders[partition] = nodes.get(leaderId);
    const found = { leaders, id: idIn(answer), fetchedAtMs: clock.monotonic() };
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

  async function countOf(
    topic: string,
  ): Promise<{ readonly count: number; readonly id: string | undefined } | undefined> {
    try {
      const answer = await ask([topic], false);
      return { count: partitionsIn(answer).length, id: idIn(answer) };
    } catch (error) {
      if (isNoTopic(protocolErrorIn(error))) return undefined;
      throw error;
    }
  }

  return {
    /** For questions that any broker can answer. */
    ask: askAny,
    /** From the cache if possible. Kafka may create the topic if that is allowed. */
    find(topic: string): Topic | Promise<Topic> {
      const found = known.get(topic);
      const isFresh = found !== undefined && clock.monotonic() - found.fetchedAtMs < freshMs;
      return isFresh || (found !== undefined && isHeldBack()) ? found : refresh(topic);
    },
    refresh,
    /** From the cache only. */
    leaderOf: (topic: string, partition: number): Node | undefined => known.get(topic)?.leaders[partition],
    /** The next `find` asks the cluster. */
    forget: (topic: string): void => void known.delete(topic),
    /** `undefined` if Kafka does not know the topic. Never creates it. Callers place records by it. */
    async partitionCount(topic: string): Promise<number | undefined> {
      const found = await countOf(topic);
      if (found === undefined) return undefined;
      told.delete(topic);
      told.set(topic, found);
      if (told.size > maxTold) told.delete(told.keys().next().value as string);
      return found.count;
    },
    /** The last result of `partitionCount`. If a topic has another number now, its records belong to other partitions. */
    placedBy: (topic: string): number | undefined => told.get(topic)?.count,
    /** Whether its id differs from the one at the last `partitionCount`: it was deleted and created again (KIP-516). */
    isRecreated(topic: string): boolean {
      const [before, now] = [told.get(topic)?.id, known.get(topic)?.id];
      return before !== undefined && now !== undefined && before !== now;
    },
    /** As `partitionCount`, for callers that place no records by it. */
    isThere: async (topic: string): Promise<boolean> => (await countOf(topic)) !== undefined,
    async describe(): Promise<ClusterInfo> {
      // Brokers that throttle this process are up, and must not be asked now.
      const known = isHeldBack() ? lastDescribed : undefined;
      const described = known ?? (await describeCluster());
      return { clusterId: described.clusterId, nodeCount: described.brokers.length };
    },
  };
}

/** Whether the topic does not exist, or its name is invalid. `type`: Kafka's name of the error. */
const isNoTopic = (type: string | undefined): boolean =>
  passingOf(type) === 'unknown' || type === 'INVALID_TOPIC_EXCEPTION';

/** Throws a `ProtocolError` if the one requested topic is refused. */
function partitionsIn({ topics }: ClusterMetadata): TopicMetadata['partitions'] {
  for (const { errorCode } of topics) checkCode(errorCode);
  return topics.flatMap(({ partitions }) => partitions);
}

function idIn({ topics: [topic] }: ClusterMetadata): string | undefined {
  return topic?.id;
}

/** A healthy broker answers in milliseconds. */
const silentMs = 2_000;

/** The bound for slow networks. */
const longestSilentMs = 10_000;

/**
 * When the whole cluster was last silent: neither a question to any broker nor a send had an answer. Older connections may be
 * dead without a word, as after the loss of a machine or network. A send on such a connection would wait long after the cluster
 * is back.
 *
 * @param onSilent called each time, and again every 2 s while there is no answer
 * @param heard the last answer to a send. The cluster is silent after 2 s without one, or after twice the time that it took, at
 * most 10 s
 */
export function createSilence(onSilent: () => void, heard: () => Answer | undefined) {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  return {
    /** Passes on the result of the question. `over`: aborted once another connection has answered. */
    async notice<T>(question: Promise<T>, over?: AbortSignal): Promise<T> {
      let timer: NodeJS.Timeout | undefined;
      let hasLooked = false;
      const look = (): void => {
        if (hasLooked && over?.aborted) return;
        hasLooked = true;
        const nowMs = clock.monotonic();
        const { atMs, tookMs } = heard() ?? { atMs: Number.NEGATIVE_INFINITY, tookMs: 0 };
        const leftMs = atMs + Math.min(Math.max(silentMs, 2 * tookMs), longestSilentMs) - nowMs;
        if (leftMs <= 0) {
          lastAtMs = nowMs;
          onSilent();
        }
        lookAfter(leftMs > 0 ? leftMs : silentMs);
      };
      const lookAfter = (delayMs: number): void => {
        timer = setTimeout(look, delayMs).unref();
      };
      lookAfter(silentMs);
      try {
        return await question;
      } finally {
        clearTimeout(timer);
      }
    },
    /** On the monotonic clock. */
    lastAtMs: () => lastAtMs,
  };
}

/** The window of Kafka's own clients. The mean covers the last full window and the current one. */
const windowMs = 30_000;

interface Answer {
  /** On the monotonic clock. */
  readonly atMs: number;
  readonly tookMs: number;
}

interface Window {
  count: number;
  sumMs: number;
}

/** How long the broker takes to answer. */
export function createAnswerTimes() {
  const empty = (): Window => ({ count: 0, sumMs: 0 });
  let startMs = clock.monotonic();
  let before = empty();
  let now = empty();
  let last: Answer | undefined;

  function turn(): void {
    const turns = Math.floor((clock.monotonic() - startMs) / windowMs);
    if (turns === 0) return;
    startMs += turns * windowMs;
    before = turns === 1 ? now : empty();
    now = empty();
  }

  return {
    record(ms: number): void {
      turn();
      last = { atMs: clock.monotonic(), tookMs: ms };
      now.count++;
      now.sumMs += ms;
    },
    last: () => last,
    /** Milliseconds, over the last 30 to 60 seconds; `null`: no answers. */
    mean(): number | null {
      turn();
      const count = before.count + now.count;
      return count === 0 ? null : (before.sumMs + now.sumMs) / count;
    },
  };
}
