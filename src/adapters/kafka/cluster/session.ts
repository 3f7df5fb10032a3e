// cluster/: one producer for both clients: who leads which partition, connections, requests, time-outs, what became of a send.

import { systemClock } from '../../../ground/clock.ts';
import type {
  BrokerRecord,
  BrokerTraffic,
  ClusterInfo,
  HeldBack,
  SendResult,
} from '../../../publish/broker.ts';
import { partitionOf, partitionOfKey } from '../../../publish/partition-of-key.ts';
import { createAnswerTimes } from '../answer-times.ts';
import { createDialPace } from '../dial-pace.ts';
import type { KafkaClientOptions } from '../kafka-client-options.ts';
import { compressionOf } from '../records/compressors.ts';
import { loadChecksum } from '../records/native-crc32c.ts';
import { createSilence } from '../silence.ts';
import { keyOf, type LoadTransport } from '../transport.ts';
import { type Connections, createConnections } from './connections.ts';
import { newProducerOf } from './new-producer.ts';
import { createSends } from './sends.ts';
import { createSequences } from './sequences.ts';
import { createThrottle } from './throttle.ts';
import { createTopics } from './topics.ts';

/** A client of Kafka, loaded and ready to connect. It rejects with errors that `toSendFailure` understands. */
export interface KafkaSession {
  /** One try, of at least one record. Where it rejects, nothing of them was written. Without `partition`: by the first key, as in Java. */
  send(
    topic: string,
    partition: number | undefined,
    records: readonly BrokerRecord[],
    placedBy?: number,
  ): Promise<SendResult>;
  /** These as in `Topics`. */
  partitionCount(topic: string): Promise<number | undefined>;
  placedBy(topic: string): number | undefined;
  isThere(topic: string): Promise<boolean>;
  describe(): Promise<ClusterInfo>;
  traffic(): BrokerTraffic;
  heldBack(topic?: string, partition?: number): HeldBack | undefined;
  /** At once. */
  close(): void;
}

/** For sends, as far as there are topics: those of one topic go over one. */
const mostPerBroker = 8;

export async function openSession(load: LoadTransport, options: KafkaClientOptions): Promise<KafkaSession> {
  const transport = await load(options);
  const pace = createDialPace<unknown>(systemClock);
  const throttle = createThrottle(options);
  // A broker answers the requests of a connection in turn: questions do not wait behind slow sends, nor topics behind one another.
  const open = (): Connections => createConnections(transport, options, pace, throttle);
  const toAsk = open();
  const toSend = Array.from({ length: mostPerBroker }, open);
  const all = [toAsk, ...toSend];
  const answerTimes = createAnswerTimes(systemClock);
  const renew = (): void => {
    for (const connections of all) connections.renew();
  };
  const silence = createSilence(systemClock, renew, answerTimes.last);
  const topics = createTopics(toAsk, options, { notice: silence.notice, throttle });
  const [compression, checksum] = await Promise.all([compressionOf(options.compression), loadChecksum()]);
  const connectionsFor = (topic: string) => toSend[partitionOfKey(topic, mostPerBroker)] as Connections;
  const parts = {
    ...{ connectionsFor, topics, silentAtMs: silence.lastAtMs, answerTimes, compression, checksum, throttle },
    sequences: isIdempotent(options) ? createSequences(newProducerOf(topics, options)) : undefined,
  };
  const sends = createSends(parts, options);

  return {
    async send(topic, partition, records, placedBy) {
      const [{ key } = { key: null }] = records;
      const to = partition ?? partitionOf(key, (await topics.find(topic)).leaders.length);
      return sends.send(topic, to, records, partition === undefined ? undefined : placedBy);
    },
    ...{ partitionCount: topics.partitionCount, placedBy: topics.placedBy, isThere: topics.isThere },
    describe: topics.describe,
    traffic() {
      const connectionCount = all.reduce((sum, connections) => sum + connections.count(), 0);
      return { connectionCount, ...sends.traffic() };
    },
    heldBack(topic, partition) {
      if (topic === undefined || partition === undefined) return throttle.of();
      const leader = topics.leaderOf(topic, partition);
      return leader && throttle.of(keyOf(leader));
    },
    close() {
      for (const connections of all) connections.close();
    },
  };
}

function isIdempotent({ idempotence = true, acks = 'all', logger }: KafkaClientOptions): boolean {
  if (idempotence && acks !== 'all')
    logger.info(
      `Kafka may store an event twice that is sent again: svc.broker.idempotence needs svc.broker.acks: all, and it is ${acks}`,
    );
  return idempotence && acks === 'all';
}

/** Asks this one thing, over connections of its own. */
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
