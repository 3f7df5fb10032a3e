import { SvcError } from '../../errors.ts';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../publish/broker.ts';
import { topicNamePattern } from '../../topic-name.ts';
import { invalidTopic, noSuchPartition } from '../kafka/failure-lines.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import { createPatientSend } from '../kafka/patient-send.ts';
import { loadPlatformatic } from '../kafka/platformatic-module.ts';
import { readCertificates } from '../kafka/read-certificates.ts';
import { createWorkUnderWay } from '../kafka/work-under-way.ts';
import { compressionOf } from './compression.ts';
import { type Connections, createConnections } from './connections.ts';
import { groupByPartition } from './group-by-partition.ts';
import { toSendFailure } from './platformatic-failure.ts';
import { createSignIn } from './platformatic-sign-in.ts';
import { createSends, type Sends } from './sends.ts';
import { createTopics, type Topics } from './topics.ts';

export type PlatformaticBrokerOptions = KafkaClientOptions;

interface Session {
  readonly murmur2: (data: Buffer) => number;
  readonly topics: Topics;
  readonly sends: Sends;
  readonly connections: readonly Connections[];
}

const closedFailure: SendFailure = {
  kind: 'fatal',
  cause: 'Closed',
  message: 'the connection to Kafka is closed: svc has stopped',
};

/**
 * Kafka through the connections and requests of `@platformatic/kafka`, an optional peer that is loaded at the first use.
 * Its producer is not used: it retries, wraps a partition that does not exist round to one that does, throws out of its
 * callbacks, and cannot tell a record that was sent from one that was not. A send is one produce request to one
 * partition, never retried, but for a topic that the broker is just creating: it is waited for, up to `requestTimeoutMs`.
 * Only sends keep the process alive, and an attempt to connect or a question for as long as its time limit.
 */
export function createPlatformaticBroker(options: PlatformaticBrokerOptions): Broker {
  const underWay = createWorkUnderWay();
  const patientSend = createPatientSend({
    send: attempt,
    isReady: async (topic) => (await (await session()).topics.partitionCount(topic)) !== undefined,
    limitMs: options.requestTimeoutMs,
  });
  let loading: Promise<Session> | undefined;
  let closed = false;
  let closing: Promise<void> | undefined;

  function session(): Promise<Session> {
    loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  }

  async function load(): Promise<Session> {
    const vendor = await loadPlatformatic('svc.broker.client: platformatic');
    const signIn = options.sasl && (await createSignIn(vendor, options.sasl, options.connectionTimeoutMs));
    const tls = options.tls && (await readCertificates(options.tls));
    // A broker answers the requests of a connection in turn: questions do not wait behind slow sends.
    const [toAsk, toSend] = [0, 1].map(() => createConnections({ vendor, options, tls, signIn }));
    const topics = createTopics(toAsk as Connections, options);
    const compression = await compressionOf(vendor, options.compression);
    const sends = createSends({ connections: toSend as Connections, topics, compression }, options);
    return { murmur2: vendor.murmur2, topics, sends, connections: [toAsk, toSend] as Connections[] };
  }

  async function attempt(
    topic: string,
    partition: number | undefined,
    records: readonly BrokerRecord[],
  ): Promise<SendResult> {
    if (partition !== undefined) return sendTo(topic, partition, records);
    try {
      const { topics, murmur2 } = await session();
      const { leaders } = await topics.find(topic);
      const groups = groupByPartition(records, leaders.length, murmur2);
      const results = await Promise.all([...groups].map(([each, part]) => sendTo(topic, each, part)));
      const failed = results.find(({ ok }) => !ok);
      if (failed === undefined || failed.ok) return { ok: true };
      // Others of them may be stored.
      return groups.size === 1 ? failed : fail({ ...failed.failure, kind: 'unknown_outcome' });
    } catch (error) {
      return fail(toSendFailure(error, { options, topic, written: false }));
    }
  }

  async function sendTo(
    topic: string,
    partition: number,
    records: readonly BrokerRecord[],
  ): Promise<SendResult> {
    const mark = { written: false };
    try {
      const { sends } = await session();
      if (await sends.send(topic, partition, records, mark)) return { ok: true };
      return fail(noSuchPartition(topic, partition));
    } catch (error) {
      return fail(toSendFailure(error, { options, topic, written: mark.written }));
    }
  }

  async function end(deadlineMs: number): Promise<void> {
    await underWay.idle(deadlineMs);
    const opened = await loading?.catch(() => undefined);
    for (const connections of opened?.connections ?? []) connections.close();
    underWay.release();
  }

  return {
    name: 'platformatic',

    async connect() {
      if (closed) return fail(closedFailure);
      try {
        await (await session()).topics.describe();
        return { ok: true };
      } catch (error) {
        return fail(toSendFailure(error, { options, written: false }));
      }
    },

    send(topic, partition, records) {
      if (closed) return Promise.resolve(fail(closedFailure));
      if (records.length === 0) return Promise.resolve({ ok: true });
      if (!topicNamePattern.test(topic)) {
        const { kind, message } = invalidTopic({ options, topic, written: false });
        return Promise.resolve(fail({ kind, message, cause: 'INVALID_TOPIC_EXCEPTION' }));
      }
      return underWay.run(() => patientSend(topic, partition, records));
    },

    async giveUpOn(topic, partition) {
      const opened = await loading?.catch(() => undefined);
      // The send says by itself that its connection is gone.
      if (partition !== undefined) await opened?.sends.letGo(topic, partition);
      return undefined;
    },

    async partitionsFor(topic) {
      if (closed) return undefined;
      try {
        return await (await session()).topics.partitionCount(topic);
      } catch (error) {
        options.logger.debug(toSendFailure(error, { options, topic, written: false }).message);
        return undefined;
      }
    },

    async describe() {
      if (closed) throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', closedFailure.message);
      try {
        return await (await session()).topics.describe();
      } catch (error) {
        throw new SvcError(
          'SVC_ADAPTERS_NOT_REACHABLE',
          toSendFailure(error, { options, written: false }).message,
        );
      }
    },

    close(deadlineMs) {
      closed = true;
      closing ??= end(deadlineMs);
      return closing;
    },
  };
}

function fail(failure: SendFailure): SendResult {
  return { ok: false, failure };
}
