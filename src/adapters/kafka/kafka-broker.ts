// kafka/: Kafka through any of its clients, each of which is a transport: it connects and signs in, and the rest is svc's.
//
//   transport.ts      what a client does: address -> a socket that is signed in, and how long the broker lets it live
//   cluster/          socket-requests: frames, and which answer is whose · broker-connection: versions, time-outs, retirement ·
//                     connections: one for each broker, asked for again, paced · throttle: brokers that hold back by a quota · topics: who leads what · sequences: what makes a batch that
//                     is sent again the same one · sends: one produce
//                     request, its outcome, letting go of a broker that hangs · session: all of that, for one client
//   protocol/         each request as a value: how it is written, how its answer is read, what Kafka calls its errors
//   send-failure.ts   from whatever was thrown, by svc, a client or Node, to what became of the records and a line for an operator
//   patient-send.ts   a topic that the broker is just making is waited for

import { within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import type { Broker, SendFailure } from '../../publish/broker.ts';
import type { KafkaClientOptions } from './kafka-client-options.ts';
import { createPatientSend } from './patient-send.ts';
import { toSendFailure } from './send-failure.ts';
import { failed, type KafkaSession, openSession } from './session.ts';
import type { LoadTransport } from './transport.ts';

const closedFailure: SendFailure = {
  kind: 'fatal',
  cause: 'Closed',
  message: 'the connection to Kafka is closed: svc has stopped',
};

/**
 * Kafka through one of its clients, which is loaded at the first use, and opens connections. A send is one produce request to
 * one partition, never retried, but for one case in which nothing was stored: a topic that the broker is just creating is waited
 * for, up to `requestTimeoutMs`, and the records are sent again. A record without a partition goes by its key, as in Java. Only
 * sends keep the process alive, and an attempt to connect for as long as the time limit of the client.
 *
 * @param name as in `svc.broker.client`
 */
export function createKafkaBroker(name: string, options: KafkaClientOptions, load: LoadTransport): Broker {
  const asking = { options, written: false };
  const underWay = createWorkUnderWay();
  const patientSend = createPatientSend({
    async send(topic, partition, records, placedBy) {
      try {
        return await (await session()).send(topic, partition, records, placedBy);
      } catch (error) {
        return failed(toSendFailure(error, { options, topic, written: false }));
      }
    },
    isReady: async (topic) => (await session()).isThere(topic),
    limitMs: options.requestTimeoutMs,
  });
  let opened: KafkaSession | undefined;
  const session = loadOnce(async () => {
    opened = await openSession(load, options);
    return opened;
  });
  let closed = false;
  let closing: Promise<void> | undefined;

  async function end(deadlineMs: number): Promise<void> {
    await underWay.idle(deadlineMs);
    (await session.started()?.catch(() => undefined))?.close();
    underWay.letGo();
  }

  return {
    name,

    async connect() {
      if (closed) return failed(closedFailure);
      try {
        await (await session()).describe();
        return { ok: true };
      } catch (error) {
        return failed(toSendFailure(error, asking));
      }
    },

    send(topic, partition, records) {
      if (closed) return Promise.resolve(failed(closedFailure));
      if (records.length === 0) return Promise.resolve({ ok: true });
      // What is asked for meanwhile places other records.
      const placedBy = opened?.placedBy(topic);
      return underWay.run(() => patientSend(topic, partition, records, placedBy));
    },

    letGo: underWay.letGo,

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

    heldBack: (topic, partition) => opened?.heldBack(topic, partition),

    close(deadlineMs) {
      closed = true;
      closing ??= end(deadlineMs);
      return closing;
    },
  };
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
