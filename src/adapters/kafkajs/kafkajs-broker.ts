import { SvcError } from '../../errors.ts';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../publish/broker.ts';
import { noSuchPartition } from '../kafka/failure-lines.ts';
import { createPatientSend } from '../kafka/patient-send.ts';
import { createWorkUnderWay } from '../kafka/work-under-way.ts';
import { adminOptions, createKafkajsAdmin, type KafkajsAdmin } from './kafkajs-admin.ts';
import { type KafkajsClientOptions, loadKafkajs } from './kafkajs-client.ts';
import { toSendFailure } from './kafkajs-failure.ts';
import { createLeaderScout, type LeaderScout } from './leader-scout.ts';
import { createTopicProducers, type TopicProducers } from './topic-producers.ts';

export type KafkajsBrokerOptions = KafkajsClientOptions;

interface Session {
  readonly producers: TopicProducers;
  readonly admin: KafkajsAdmin;
  readonly scout: LeaderScout;
}

const closedFailure: SendFailure = {
  kind: 'fatal',
  cause: 'Closed',
  message: 'the connection to Kafka is closed: svc has stopped',
};

/**
 * Kafka through kafkajs, loaded at the first use. acks=all; a send is one produce request to one partition, never retried,
 * but for one case in which nothing was stored: a topic that the broker is just creating is waited for, up to
 * `requestTimeoutMs`, and the records are sent again. Records without a partition go by their key, as in Java;
 * several of them in one send may reach several partitions, and a failure is then an unknown outcome.
 * Only sends keep the process alive: neither the connections do, nor an attempt to connect to a Kafka that does not answer.
 */
export function createKafkajsBroker(options: KafkajsBrokerOptions): Broker {
  const asking = { options: adminOptions(options), written: false };
  const underWay = createWorkUnderWay();
  const send = createPatientSend({ send: attempt, isReady: hasLeaders, limitMs: options.requestTimeoutMs });
  let loading: Promise<Session> | undefined;
  let closed = false;
  let closing: Promise<void> | undefined;

  function session(): Promise<Session> {
    loading ??= loadKafkajs(options).then(
      (open) => {
        const admin = createKafkajsAdmin(open, options);
        const scout = createLeaderScout(open, () => [...options.brokers, ...admin.knownBrokers()]);
        return { producers: createTopicProducers(open, options), admin, scout };
      },
      (error: unknown) => {
        loading = undefined;
        throw error;
      },
    );
    return loading;
  }

  async function hasLeaders(topic: string): Promise<boolean> {
    return (await (await session()).admin.partitionCount(topic)) !== undefined;
  }

  async function attempt(
    topic: string,
    partition: number | undefined,
    records: readonly BrokerRecord[],
  ): Promise<SendResult> {
    const mark = { written: false };
    try {
      const acknowledged = await (await session()).producers.send(topic, partition, records, mark);
      if (acknowledged > 0 || options.acks === '0') return { ok: true };
      // kafkajs leaves out a partition that it does not know, and resolves.
      return failed(noSuchPartition(topic, partition));
    } catch (error) {
      const failure = toSendFailure(error, { options, topic, written: mark.written });
      const severalPartitions = partition === undefined && records.length > 1;
      return failed(severalPartitions && mark.written ? { ...failure, kind: 'unknown_outcome' } : failure);
    }
  }

  async function end(deadlineMs: number): Promise<void> {
    await underWay.idle(deadlineMs);
    const opened = await loading?.catch(() => undefined);
    if (opened !== undefined) await Promise.all([opened.producers.close(), opened.admin.close()]);
    underWay.release();
  }

  return {
    name: 'kafkajs',

    async connect() {
      if (closed) return failed(closedFailure);
      try {
        await (await session()).admin.connect();
        return { ok: true };
      } catch (error) {
        return failed(toSendFailure(error, asking));
      }
    },

    send: (topic, partition, records) => {
      if (closed) return Promise.resolve(failed(closedFailure));
      if (records.length === 0) return Promise.resolve({ ok: true });
      return underWay.run(() => send(topic, partition, records));
    },

    async giveUpOn(topic, partition) {
      const opened = await loading?.catch(() => undefined);
      const send = opened?.producers.oldest(topic, partition);
      if (opened === undefined || send === undefined) return undefined;
      const { mark } = send;
      if (send.isConnecting()) return undefined;
      // Where no broker answers at once, the network is slow or the cluster away: then it is to be waited for.
      const leader = await opened.scout.leaderOf(topic, partition ?? 0);
      const isUnderWay = opened.producers.oldest(topic, partition) === send;
      if (leader === undefined || !isUnderWay) return undefined;
      if (!mark.written) {
        send.giveUp();
        return noMetadata(topic);
      }
      if (partition === undefined || mark.target === undefined || leader === mark.target) return undefined;
      send.giveUp();
      return leaderMoved(topic, partition, mark.target, leader);
    },

    async partitionsFor(topic) {
      if (closed) return undefined;
      try {
        return await (await session()).admin.partitionCount(topic);
      } catch (error) {
        options.logger.debug(toSendFailure(error, { ...asking, topic }).message);
        return undefined;
      }
    },

    async describe() {
      if (closed) throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', closedFailure.message);
      try {
        return await (await session()).admin.describe();
      } catch (error) {
        throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', toSendFailure(error, asking).message);
      }
    },

    close(deadlineMs) {
      closed = true;
      closing ??= end(deadlineMs);
      return closing;
    },
  };
}

function noMetadata(topic: string): SendFailure {
  const message = `a broker does not answer the question who leads topic "${topic}": the next try asks another one`;
  return { kind: 'retriable', cause: 'TimeoutException', message };
}

function leaderMoved(topic: string, partition: number, from: number, to: number): SendFailure {
  const message = `broker ${from} does not answer, and broker ${to} leads partition ${partition} of topic "${topic}" now: check broker ${from}`;
  return { kind: 'unknown_outcome', cause: 'LEADER_MOVED', message };
}

function failed(failure: SendFailure): SendResult {
  return { ok: false, failure };
}
