// kafka/: what the clients of Kafka share: certificates, failures in words, sends that outlive a new leader.

import { within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import type {
  Broker,
  BrokerRecord,
  BrokerTraffic,
  ClusterInfo,
  SendFailure,
  SendResult,
} from '../../publish/broker.ts';
import type { FailureScene } from './failure-lines.ts';
import type { KafkaClientOptions } from './kafka-client-options.ts';
import { createPatientSend } from './patient-send.ts';

/** A client of Kafka, loaded and ready to connect. It rejects with errors that `toSendFailure` understands. */
export interface KafkaSession {
  connect(): Promise<unknown>;
  /** One try, of at least one record. Where it rejects, nothing of them was written. */
  send(topic: string, partition: number | undefined, records: readonly BrokerRecord[]): Promise<SendResult>;
  /** Never rejects. */
  giveUpOn(topic: string, partition: number | undefined): Promise<SendFailure | undefined>;
  /** `undefined` where Kafka does not know the topic. Never creates it. */
  partitionCount(topic: string): Promise<number | undefined>;
  describe(): Promise<ClusterInfo>;
  traffic(): BrokerTraffic;
  /** At once. */
  close(): Promise<void>;
}

export interface KafkaBrokerParts {
  /** As in `svc.broker.client`. */
  readonly name: string;
  readonly options: KafkaClientOptions;
  /** Of questions to the cluster, where they are other ones. */
  readonly questionOptions?: KafkaClientOptions;
  /** Called at the first use, and again after it has rejected. */
  load(): Promise<KafkaSession>;
  toSendFailure(error: unknown, scene: FailureScene): SendFailure;
}

const closedFailure: SendFailure = {
  kind: 'fatal',
  cause: 'Closed',
  message: 'the connection to Kafka is closed: svc has stopped',
};

/**
 * What is the same for every client of Kafka: it is loaded at the first use; a topic that the broker is just creating is
 * waited for, up to `requestTimeoutMs`; errors become failures; only sends keep the process alive.
 */
export function createKafkaBroker({
  name,
  options,
  questionOptions = options,
  load,
  toSendFailure,
}: KafkaBrokerParts): Broker {
  const asking = { options: questionOptions, written: false };
  const underWay = createWorkUnderWay();
  const patientSend = createPatientSend({
    async send(topic, partition, records) {
      try {
        return await (await session()).send(topic, partition, records);
      } catch (error) {
        return failed(toSendFailure(error, { options, topic, written: false }));
      }
    },
    isReady: async (topic) => (await (await session()).partitionCount(topic)) !== undefined,
    limitMs: options.requestTimeoutMs,
  });
  let opened: KafkaSession | undefined;
  const session = loadOnce(async () => {
    opened = await load();
    return opened;
  });
  let closed = false;
  let closing: Promise<void> | undefined;

  async function end(deadlineMs: number): Promise<void> {
    await underWay.idle(deadlineMs);
    await (await session.started()?.catch(() => undefined))?.close();
    underWay.letGo();
  }

  return {
    name,

    async connect() {
      if (closed) return failed(closedFailure);
      try {
        await (await session()).connect();
        return { ok: true };
      } catch (error) {
        return failed(toSendFailure(error, asking));
      }
    },

    send(topic, partition, records) {
      if (closed) return Promise.resolve(failed(closedFailure));
      if (records.length === 0) return Promise.resolve({ ok: true });
      return underWay.run(() => patientSend(topic, partition, records));
    },

    letGo: underWay.letGo,

    async giveUpOn(topic, partition) {
      const opened = await session.started()?.catch(() => undefined);
      return opened?.giveUpOn(topic, partition);
    },

    async partitionsFor(topic) {
      if (closed) return undefined;
      try {
        return await (await session()).partitionCount(topic);
      } catch (error) {
        options.logger.debug(toSendFailure(error, { ...asking, topic }).message);
        return undefined;
      }
    },

    async describe() {
      if (closed) throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', closedFailure.message);
      try {
        return await (await session()).describe();
      } catch (error) {
        throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', toSendFailure(error, asking).message);
      }
    },

    traffic: () => opened?.traffic(),

    close(deadlineMs) {
      closed = true;
      closing ??= end(deadlineMs);
      return closing;
    },
  };
}

export function failed(failure: SendFailure): SendResult {
  return { ok: false, failure };
}

/** Counts what is under way, and keeps the process alive for it: the connections themselves do not. */
interface WorkUnderWay {
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Resolves when nothing is under way, at `limitMs` at the latest. */
  idle(limitMs: number): Promise<void>;
  /** Nobody waits for what is under way now: it does not keep the process alive any more. */
  letGo(): void;
}

const farAwayMs = 2 ** 31 - 1;

function createWorkUnderWay(): WorkUnderWay {
  let count = 0;
  let hold: NodeJS.Timeout | undefined;
  let onIdle: (() => void) | undefined;

  const end = () => {
    if (--count > 0) return;
    clearInterval(hold);
    hold = undefined;
    onIdle?.();
  };

  return {
    async run(work) {
      count++;
      hold ??= setInterval(() => {}, farAwayMs);
      try {
        return await work();
      } finally {
        end();
      }
    },
    async idle(limitMs) {
      if (count === 0) return;
      const idle = new Promise<void>((resolve) => {
        onIdle = resolve;
      });
      await within(limitMs, idle);
    },
    letGo() {
      clearInterval(hold);
      hold = undefined;
    },
  };
}
