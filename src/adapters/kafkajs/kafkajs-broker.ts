// kafkajs/: Kafka through kafkajs: sending, questions about topics, reading dead letters.

import { systemClock } from '../../ground/clock.ts';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../publish/broker.ts';
import { noSuchPartition } from '../kafka/failure-lines.ts';
import { createKafkaBroker, failed, type KafkaSession } from '../kafka/kafka-broker.ts';
import { createSilence } from '../kafka/silence.ts';
import { adminOptions, createKafkajsAdmin } from './kafkajs-admin.ts';
import { type KafkajsClientOptions, type LoadedKafkajs, loadKafkajs } from './kafkajs-client.ts';
import { toSendFailure } from './kafkajs-failure.ts';
import { createLeaderScout } from './leader-scout.ts';
import { createTopicProducers } from './topic-producers.ts';

export type KafkajsBrokerOptions = KafkajsClientOptions;

/**
 * Kafka through kafkajs, loaded at the first use. acks=all; a send is one produce request to one partition, never retried,
 * but for one case in which nothing was stored: a topic that the broker is just creating is waited for, up to
 * `requestTimeoutMs`, and the records are sent again. A record without a partition goes by its key, as in Java.
 * Only sends keep the process alive: neither the connections do, nor an attempt to connect to a Kafka that does not answer.
 */
export function createKafkajsBroker(options: KafkajsBrokerOptions): Broker {
  return createKafkaBroker({
    ...{ name: 'kafkajs', options, questionOptions: adminOptions(options), toSendFailure },
    load: async () => sessionOf(await loadKafkajs(options), options),
  });
}

function sessionOf(open: LoadedKafkajs, options: KafkajsBrokerOptions): KafkaSession {
  const producers = createTopicProducers(open, options);
  const silence = createSilence(systemClock, producers.renew, producers.lastAnswer);
  const admin = createKafkajsAdmin(open, options, silence.notice);
  const scout = createLeaderScout(open, () => [...options.brokers, ...admin.knownBrokers()]);

  async function send(
    topic: string,
    partition: number | undefined,
    records: readonly BrokerRecord[],
  ): Promise<SendResult> {
    const mark = { written: false };
    try {
      const acknowledged = await producers.send(topic, partition, records, mark);
      if (acknowledged > 0 || options.acks === '0') return { ok: true };
      // kafkajs leaves out a partition that it does not know, and resolves.
      return failed(noSuchPartition(topic, partition));
    } catch (error) {
      return failed(toSendFailure(error, { options, topic, written: mark.written }));
    }
  }

  return {
    connect: admin.connect,
    send,
    partitionCount: admin.partitionCount,
    describe: admin.describe,
    traffic: () => ({ connectionCount: open.connectionCount(), ...producers.traffic() }),

    async giveUpOn(topic, partition) {
      const send = producers.oldest(topic, partition);
      if (send === undefined) return undefined;
      const { mark } = send;
      const wasConnecting = send.isConnecting();
      // Where no broker answers at once, the network is slow or the cluster away: then it is to be waited for.
      const leader = await scout.leaderOf(topic, partition ?? 0);
      // Others were connected to, asked, and have answered meanwhile: one that still connects has met a broker that hangs.
      if (wasConnecting && !send.isConnecting()) return undefined;
      const isUnderWay = producers.oldest(topic, partition) === send;
      if (leader === undefined || !isUnderWay) return undefined;
      if (!mark.written) {
        send.giveUp();
        return noMetadata(topic);
      }
      if (send.sinceMs <= silence.lastAtMs()) {
        send.giveUp();
        return connectionDead(topic);
      }
      if (partition === undefined || mark.target === undefined || leader === mark.target) return undefined;
      send.giveUp();
      return leaderMoved(topic, partition, mark.target, leader);
    },

    async close() {
      await Promise.all([producers.close(), admin.close()]);
    },
  };
}

function noMetadata(topic: string): SendFailure {
  const message = `a broker does not answer the question who leads topic "${topic}": the next try asks another one`;
  return { kind: 'retriable', cause: 'TimeoutException', message };
}

function connectionDead(topic: string): SendFailure {
  const message = `the cluster was silent and is back, and a send to topic "${topic}" from before has no answer: the next one takes a fresh connection`;
  return { kind: 'unknown_outcome', cause: 'TimeoutException', message };
}

function leaderMoved(topic: string, partition: number, from: number, to: number): SendFailure {
  const message = `broker ${from} does not answer, and broker ${to} leads partition ${partition} of topic "${topic}" now: check broker ${from}`;
  return { kind: 'unknown_outcome', cause: 'LEADER_MOVED', message };
}
