import { inTime, systemClock } from '../../../ground/clock.ts';
import { topicNamePattern } from '../../../ground/event-fields.ts';
import type { BrokerRecord, BrokerTraffic, SendFailure, SendResult } from '../../../publish/broker.ts';
import type { AnswerTimes } from '../answer-times.ts';
import { invalidTopic, noSuchPartition, otherCount } from '../failure-lines.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import { type KafkaRequest, ProtocolError } from '../protocol/kafka-request.ts';
import type { Node } from '../protocol/metadata-request.ts';
import { produceRequest } from '../protocol/produce-request.ts';
import type { Checksum } from '../records/native-crc32c.ts';
import { ackNumbers } from '../records/protocol-numbers.ts';
import {
  type BatchPlace,
  type Compression,
  encodeBatch,
  encodeCompressedBatch,
} from '../records/record-batch.ts';
import { isAnswer, protocolErrorIn, toSendFailure } from '../send-failure.ts';
import { keyOf } from '../transport.ts';
import type { BrokerConnection } from './broker-connection.ts';
import type { Connections } from './connections.ts';
import { patienceMs, watchForHangs } from './hang-watch.ts';
import type { Sequences, Tried, Verdict } from './sequences.ts';
import { createThrottle, type Throttle } from './throttle.ts';
import type { Topics } from './topics.ts';

/** Sends records to the leader of their partition. */
export interface Sends {
  /**
   * Never rejects.
   *
   * @param placedBy how many partitions the topic had when this one was chosen; where it has another number, nothing is sent
   */
  send(
    topic: string,
    partition: number,
    records: readonly BrokerRecord[],
    placedBy?: number,
  ): Promise<SendResult>;
  traffic(): Omit<BrokerTraffic, 'connectionCount'>;
}

export interface SendsParts {
  readonly connectionsFor: (topic: string) => Connections;
  readonly topics: Topics;
  /** When the cluster was last silent, on the monotonic clock. */
  readonly silentAtMs: () => number;
  readonly answerTimes: AnswerTimes;
  /** Default: none. */
  readonly compression?: Compression | undefined;
  /** Of batches. Default: svc's own. */
  readonly checksum?: Checksum | undefined;
  readonly throttle?: Throttle;
  /** Left out: Kafka stores a batch as often as it is sent. */
  readonly sequences?: Sequences | undefined;
}

/** So many times the mean of its answers is unusual for a cluster that is slow. */
const usualAnswers = 3;

/** One broker that hangs is given its time-out before the next one is asked, which answers in this time or is away, too. */
const answerMs = 500;

interface UnderWay {
  readonly topic: string;
  readonly partition: number;
  readonly leader: Node;
  readonly begunMs: number;
  writtenMs?: number;
  /** Once it is open, and the records are written to it. */
  connection?: BrokerConnection;
  /** May be written to another connection as well: the broker stores the batch once by its numbers. */
  request?: KafkaRequest<number | undefined> | undefined;
  /** The answer of that other connection. */
  second?: Promise<number | undefined>;
  /** Why it was let go of. */
  failure?: SendFailure;
}

interface Try {
  readonly place: BatchPlace | undefined;
  readonly placedBy: number | undefined;
  /** A batch that is stored before this offset is in a topic that was created again. */
  readonly endOffset: number;
}

export function createSends(parts: SendsParts, options: KafkaClientOptions): Sends {
  const { connectionsFor, topics, silentAtMs, answerTimes, compression, checksum } = parts;
  const { throttle = createThrottle(options), sequences } = parts;
  const underWay = new Set<UnderWay>();
  const acks = ackNumbers[options.acks ?? 'all'];

  /**
   * Drops the connection that it waits on, or waits for, where another broker leads its partition by now, or where the cluster was
   * silent since it was written, and answers again: it fails by that.
   */
  async function letGo(send: UnderWay): Promise<void> {
    const { topic, partition } = send;
    // A broker that holds this process back reads nothing meanwhile.
    if (systemClock.monotonic() - throttle.untilMs(keyOf(send.leader)) < patienceMs) return;
    let leader: Node | undefined;
    const asking = topics.refresh(topic).then(
      ({ leaders }) => {
        leader = leaders[partition];
      },
      () => {},
    );
    const limitMs = options.connectionTimeoutMs + answerMs;
    // Who waits for the send keeps the process alive.
    await inTime(asking, { limitMs, keepsAlive: false, late: () => {} });
    if (leader === undefined || !underWay.has(send)) return;
    if (keyOf(leader) !== keyOf(send.leader)) {
      send.failure = leaderMoved(send, leader);
      connectionsFor(topic).drop(send.leader);
    } else if (send.writtenMs !== undefined && send.writtenMs <= silentAtMs()) {
      send.failure = connectionDead(topic);
    } else await askAgain(send);
    // It may be one that is not given out any more.
    if (send.failure !== undefined) send.connection?.destroy();
  }

  /**
   * Its leader is the same, and perhaps slow; or this one connection is dead without a word. Where the broker answers over another one,
   * the batch is written there, too: stored once by its numbers, it costs no try, and is answered soon where the first is dead.
   */
  async function askAgain(send: UnderWay): Promise<void> {
    const { topic, leader, connection, writtenMs, request } = send;
    if (request === undefined || connection === undefined || writtenMs === undefined) return;
    const usualMs = usualAnswers * (answerTimes.mean() ?? 0);
    if (systemClock.monotonic() - writtenMs < Math.max(patienceMs, usualMs)) return;
    const fresh = await connectionsFor(topic)
      .replace(leader, connection)
      .catch(() => undefined);
    if (fresh === undefined || fresh === connection || !underWay.has(send)) return;
    send.request = undefined;
    // Giving up the send closes both connections.
    send.connection = both(connection, fresh);
    send.second = fresh.ask(request);
    // Closing the first one ends the wait for it. Other sends on it wait as well, because answers come in order.
    const answered = (): void => {
      if (underWay.has(send)) connection.destroy();
    };
    send.second.then(answered, (error) => isAnswer(error) && answered());
  }
  const begins = watchForHangs(underWay, letGo);

  function ended(entry: UnderWay): void {
    underWay.delete(entry);
    // V8 may keep the entry until a full garbage collection, and the request holds the batch.
    entry.request = undefined;
  }

  async function produce(
    entry: UnderWay,
    records: readonly BrokerRecord[],
    place: BatchPlace | undefined,
  ): Promise<number> {
    const { topic, partition, leader } = entry;
    await throttle.over(keyOf(leader));
    const connection = await connectionsFor(topic).get(leader);
    const batch = compression
      ? await encodeCompressedBatch(records, compression, checksum, place)
      : await encodeBatch(records, checksum, place);
    entry.writtenMs = systemClock.monotonic();
    entry.connection = connection;
    const timeoutMs = options.requestTimeoutMs;
    const request = produceRequest({ topic, partition, acks, timeoutMs, batch });
    const asking = place === undefined ? connection.ask(request) : firstAnswered(entry, connection, request);
    const offset = await asking;
    answerTimes.record(systemClock.monotonic() - entry.writtenMs);
    return offset ?? -1;
  }

  /** Of a batch that was written twice the first answer counts. */
  async function firstAnswered(
    entry: UnderWay,
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

  /** One try. */
  async function attempt(
    topic: string,
    partition: number,
    records: readonly BrokerRecord[],
    { place, placedBy, endOffset }: Try,
  ): Promise<Tried<SendResult>> {
    let entry: UnderWay | undefined;
    try {
      const { leader, count } = await leaderOf(topics, topic, partition, placedBy);
      if (placedBy !== undefined && placedBy !== count)
        return { verdict: 'refused', result: failed(otherCount(topic, count, placedBy)) };
      if (leader === undefined)
        return { verdict: 'refused', result: failed(noSuchPartition(topic, partition)) };
      entry = { topic, partition, leader, begunMs: systemClock.monotonic() };
      underWay.add(entry);
      begins();
      const offset = await produce(entry, records, place);
      if (offset < 0) return { verdict: 'stored', result: { ok: true } };
      const result: SendResult = offset < endOffset ? { ok: true, isRecreated: true } : { ok: true };
      return { verdict: 'stored', result, endOffset: offset + records.length };
    } catch (error) {
      const written = entry?.connection !== undefined;
      const verdict = entry?.failure === undefined ? verdictOf(protocolErrorIn(error), written) : 'maybe';
      if (place !== undefined && verdict === 'stored') return { verdict, result: { ok: true } };
      // Whatever it was: the next send asks who leads the partition.
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
    async send(topic, partition, records, placedBy) {
      if (!topicNamePattern.test(topic)) {
        const { kind, message } = invalidTopic({ options, topic, written: false });
        return failed({ kind, message, cause: 'INVALID_TOPIC_EXCEPTION' });
      }
      const one = (place?: BatchPlace, endOffset = 0) =>
        attempt(topic, partition, records, { place, placedBy, endOffset });
      try {
        return await (sequences?.send(topic, partition, records, one) ?? one().then(({ result }) => result));
      } catch (error) {
        return failed(toSendFailure(error, { options, topic, written: false }));
      }
    },

    traffic() {
      const written = [...underWay].filter(({ connection }) => connection !== undefined);
      return { inFlightRequests: written.length, requestLatencyAvg: answerTimes.mean() };
    },
  };
}

/** Kafka says so before it stores anything, of this try at least. */
const refusals = new Set([
  ...['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_RECORD', 'CORRUPT_MESSAGE', 'INVALID_TIMESTAMP'],
  ...['TOPIC_AUTHORIZATION_FAILED', 'INVALID_TOPIC_EXCEPTION', 'INVALID_REQUIRED_ACKS', 'POLICY_VIOLATION'],
  ...['NOT_ENOUGH_REPLICAS', 'UNSUPPORTED_COMPRESSION_TYPE', 'UNSUPPORTED_VERSION'],
]);

/** The producer may go on, in another epoch. */
const misplaced = new Set([
  ...['OUT_OF_ORDER_SEQUENCE_NUMBER', 'UNKNOWN_PRODUCER_ID', 'INVALID_PRODUCER_EPOCH'],
  ...['INVALID_PRODUCER_ID_MAPPING', 'PRODUCER_FENCED'],
]);

/** Topics in the form of Kafka before 0.11, and clusters before 2.8 where the user has no right to be idempotent. */
const unplaced = new Set(['UNSUPPORTED_FOR_MESSAGE_FORMAT', 'CLUSTER_AUTHORIZATION_FAILED']);

/** @param type what Kafka has answered, by its own name. A leader that has just lost its partition may have stored the batch before. */
export function verdictOf(type: string | undefined, written: boolean): Verdict {
  if (!written) return 'refused';
  if (type === undefined) return 'maybe';
  if (type === 'DUPLICATE_SEQUENCE_NUMBER') return 'stored';
  if (misplaced.has(type)) return 'misplaced';
  if (unplaced.has(type)) return 'unplaced';
  return refusals.has(type) ? 'refused' : 'maybe';
}

export function failed(failure: SendFailure): SendResult {
  return { ok: false, failure };
}

const both = (one: BrokerConnection, other: BrokerConnection): BrokerConnection => ({
  ...other,
  destroy() {
    one.destroy();
    other.destroy();
  },
});

function leaderMoved({ topic, partition, leader, connection }: UnderWay, now: Node): SendFailure {
  const message = `broker ${leader.nodeId} does not answer, and broker ${now.nodeId} leads partition ${partition} of topic "${topic}" now: check broker ${leader.nodeId}`;
  return { kind: connection ? 'unknown_outcome' : 'retriable', cause: 'LEADER_MOVED', message };
}

function connectionDead(topic: string): SendFailure {
  const message = `the cluster was silent and is back, and a send to topic "${topic}" from before has no answer: the next one takes a fresh connection`;
  return { kind: 'unknown_outcome', cause: 'TimeoutException', message };
}

/** `leader` is `undefined` where there is no such partition. */
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
