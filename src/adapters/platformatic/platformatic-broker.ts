// platformatic/: Kafka through @platformatic/kafka: connections, topics and sends are its parts.

import { systemClock } from '../../ground/clock.ts';
import { topicNamePattern } from '../../ground/event-fields.ts';
import type { Broker, BrokerRecord, SendResult } from '../../publish/broker.ts';
import { createAnswerTimes } from '../kafka/answer-times.ts';
import { createDialPace } from '../kafka/dial-pace.ts';
import { invalidTopic, noSuchPartition } from '../kafka/failure-lines.ts';
import { createKafkaBroker, failed, type KafkaSession } from '../kafka/kafka-broker.ts';
import type { KafkaClientOptions, KafkaCompression } from '../kafka/kafka-client-options.ts';
import type { PlatformaticModule, VendorCompression } from '../kafka/platformatic-module.ts';
import { loadPlatformatic } from '../kafka/platformatic-module.ts';
import { readCertificates } from '../kafka/read-certificates.ts';
import { codecNumbers } from '../kafka/records/protocol-numbers.ts';
import type { Compression } from '../kafka/records/record-batch.ts';
import { createSilence } from '../kafka/silence.ts';
import { type Connections, createConnections } from './connections.ts';
import { toSendFailure } from './platformatic-failure.ts';
import { createSignIn } from './platformatic-sign-in.ts';
import { createSends } from './sends.ts';
import { createTopics } from './topics.ts';

export type PlatformaticBrokerOptions = KafkaClientOptions;

/**
 * Kafka through the connections and requests of `@platformatic/kafka`, an optional peer that is loaded at the first use.
 * Its producer is not used: it retries, wraps a partition that does not exist round to one that does, throws out of its
 * callbacks, and cannot tell a record that was sent from one that was not. A send is one produce request to one
 * partition, never retried, but for a topic that the broker is just creating: it is waited for, up to `requestTimeoutMs`.
 * Only sends keep the process alive, and an attempt to connect or a question for as long as its time limit.
 */
export function createPlatformaticBroker(options: PlatformaticBrokerOptions): Broker {
  return createKafkaBroker({ name: 'platformatic', options, toSendFailure, load: () => load(options) });
}

async function load(options: PlatformaticBrokerOptions): Promise<KafkaSession> {
  const vendor = await loadPlatformatic('svc.broker.client: platformatic');
  const signIn = options.sasl && (await createSignIn(vendor, options.sasl, options.connectionTimeoutMs));
  const certificates = options.tls && readCertificates(options.tls, options.logger);
  // A broker answers the requests of a connection in turn: questions do not wait behind slow sends.
  const pace = createDialPace(systemClock);
  const open = (): Connections => createConnections({ vendor, options, certificates, signIn }, pace);
  const [toAsk, toSend] = [open(), open()];
  const answerTimes = createAnswerTimes(systemClock);
  const renew = (): void => {
    toAsk.renew();
    toSend.renew();
  };
  const silence = createSilence(systemClock, renew, answerTimes.last);
  const topics = createTopics(toAsk, options, silence.notice);
  const compression = await compressionOf(vendor, options.compression);
  const parts = { connections: toSend, topics, silentAtMs: silence.lastAtMs, answerTimes, compression };
  const sends = createSends(parts, options);

  async function sendTo(
    topic: string,
    partition: number,
    records: readonly BrokerRecord[],
  ): Promise<SendResult> {
    const mark = { written: false };
    try {
      if (await sends.send(topic, partition, records, mark)) return { ok: true };
      return failed(noSuchPartition(topic, partition));
    } catch (error) {
      return failed(toSendFailure(error, { options, topic, written: mark.written }));
    }
  }

  /** As in Java. What has no key may go to any. */
  async function partitionOf(topic: string, key: string | null): Promise<number> {
    const { length } = (await topics.find(topic)).leaders;
    if (key === null) return Math.floor(Math.random() * length);
    return (vendor.murmur2(Buffer.from(key)) & 0x7fffffff) % length;
  }

  return {
    connect: topics.describe,
    partitionCount: topics.partitionCount,
    describe: topics.describe,
    traffic: () => ({ connectionCount: toAsk.count() + toSend.count(), ...sends.traffic() }),

    async send(topic, partition, records) {
      if (!topicNamePattern.test(topic)) {
        const { kind, message } = invalidTopic({ options, topic, written: false });
        return failed({ kind, message, cause: 'INVALID_TOPIC_EXCEPTION' });
      }
      const [{ key } = { key: null }] = records;
      return sendTo(topic, partition ?? (await partitionOf(topic, key)), records);
    },

    async giveUpOn(topic, partition) {
      // The send says by itself that its connection is gone.
      if (partition !== undefined) await sends.letGo(topic, partition);
      return undefined;
    },

    async close() {
      for (const connections of [toAsk, toSend]) connections.close();
    },
  };
}

/** gzip and zstd from Node, which compresses aside; snappy and lz4 from the package, which does not. */
async function compressionOf(
  vendor: PlatformaticModule,
  name: KafkaCompression = 'none',
): Promise<Compression | undefined> {
  if (name === 'none') return undefined;
  if (name === 'gzip' || name === 'zstd') {
    const { compressionByNode } = await import('../kafka/records/compressors.ts');
    return compressionByNode(name);
  }
  return {
    bitmask: codecNumbers[name],
    compress: (vendor.compressionsAlgorithms[name] as VendorCompression).compressSync,
  };
}
