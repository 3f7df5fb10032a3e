import { inTime, systemClock } from '../../../ground/clock.ts';
import { topicNamePattern } from '../../../ground/event-fields.ts';
import type { BrokerRecord, BrokerTraffic, SendFailure, SendResult } from '../../../publish/broker.ts';
import type { AnswerTimes } from '../answer-times.ts';
import { invalidTopic, noSuchPartition } from '../failure-lines.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import { ProtocolError } from '../protocol/kafka-request.ts';
import type { Node } from '../protocol/metadata-request.ts';
import { produceRequest } from '../protocol/produce-request.ts';
import type { Checksum } from '../records/native-crc32c.ts';
import { ackNumbers } from '../records/protocol-numbers.ts';
import { type Compression, encodeBatch, encodeCompressedBatch } from '../records/record-batch.ts';
import { toSendFailure } from '../send-failure.ts';
import { keyOf } from '../transport.ts';
import type { BrokerConnection } from './broker-connection.ts';
import type { Connections } from './connections.ts';
import { watchForHangs } from './hang-watch.ts';
import type { Topics } from './topics.ts';

/** Sends records to the leader of their partition. */
export interface Sends {
  /** Never rejects. */
  send(topic: string, partition: number, records: readonly BrokerRecord[]): Promise<SendResult>;
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
}

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
  /** Why it was let go of. */
  failure?: SendFailure;
}

export function createSends(
  { connectionsFor, topics, silentAtMs, answerTimes, compression, checksum }: SendsParts,
  options: KafkaClientOptions,
): Sends {
  const underWay = new Set<UnderWay>();
  const acks = ackNumbers[options.acks ?? 'all'];

  /**
   * Drops the connection that it waits on, or waits for, where another broker leads its partition by now, or where the cluster was
   * silent since it was written, and answers again: it fails by that.
   */
  async function letGo(send: UnderWay): Promise<void> {
    const { topic, partition } = send;
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
    }
    // It may be one that is not given out any more.
    if (send.failure !== undefined) send.connection?.destroy();
  }
  const begins = watchForHangs(underWay, letGo);

  async function produce(entry: UnderWay, records: readonly BrokerRecord[]): Promise<void> {
    const { topic, partition, leader } = entry;
    const connection = await connectionsFor(topic).get(leader);
    const batch = compression
      ? await encodeCompressedBatch(records, compression, checksum)
      : await encodeBatch(records, checksum);
    entry.writtenMs = systemClock.monotonic();
    entry.connection = connection;
    const timeoutMs = options.requestTimeoutMs;
    await connection.ask(produceRequest({ topic, partition, acks, timeoutMs, batch }));
    answerTimes.record(systemClock.monotonic() - entry.writtenMs);
  }

  return {
    async send(topic, partition, records) {
      if (!topicNamePattern.test(topic)) {
        const { kind, message } = invalidTopic({ options, topic, written: false });
        return failed({ kind, message, cause: 'INVALID_TOPIC_EXCEPTION' });
      }
      let entry: UnderWay | undefined;
      try {
        const leader = await leaderOf(topics, topic, partition);
        if (leader === undefined) return failed(noSuchPartition(topic, partition));
        entry = { topic, partition, leader, begunMs: systemClock.monotonic() };
        underWay.add(entry);
        begins();
        await produce(entry, records);
        return { ok: true };
      } catch (error) {
        // Whatever it was: the next send asks who leads the partition.
        topics.forget(topic);
        const written = entry?.connection !== undefined;
        return failed(entry?.failure ?? toSendFailure(error, { options, topic, written }));
      } finally {
        if (entry !== undefined) underWay.delete(entry);
      }
    },

    traffic() {
      const written = [...underWay].filter(({ connection }) => connection !== undefined);
      return { inFlightRequests: written.length, requestLatencyAvg: answerTimes.mean() };
    },
  };
}

export function failed(failure: SendFailure): SendResult {
  return { ok: false, failure };
}

function leaderMoved({ topic, partition, leader, connection }: UnderWay, now: Node): SendFailure {
  const message = `broker ${leader.nodeId} does not answer, and broker ${now.nodeId} leads partition ${partition} of topic "${topic}" now: check broker ${leader.nodeId}`;
  return { kind: connection ? 'unknown_outcome' : 'retriable', cause: 'LEADER_MOVED', message };
}

function connectionDead(topic: string): SendFailure {
  const message = `the cluster was silent and is back, and a send to topic "${topic}" from before has no answer: the next one takes a fresh connection`;
  return { kind: 'unknown_outcome', cause: 'TimeoutException', message };
}

/** `undefined` where there is no such partition. */
async function leaderOf(topics: Topics, topic: string, partition: number): Promise<Node | undefined> {
  let found = await topics.find(topic);
  if (!(partition in found.leaders)) {
    // It may be new.
    if (partition >= 0) found = await topics.refresh(topic);
    if (!(partition in found.leaders)) return undefined;
  }
  const leader = found.leaders[partition];
  if (leader !== undefined) return leader;
  throw new ProtocolError(leaderNotAvailable);
}

const leaderNotAvailable = 5;
