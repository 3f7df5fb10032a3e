// kafka/: Kafka through any of its clients. A client is a transport: it connects and signs in. The rest is here.
//
// A client's port is transport.ts: from an address to a signed-in socket.
// Connections to brokers are in transport.ts: frames, versions, time-outs, retirement, reconnects.
// Produce requests are in session.ts: leaders, sequences of batches, outcomes, brokers that hang, topics that are being created.
// Requests as values are in protocol.ts: their form, the one for metadata, the names of Kafka's errors.
// Failures are in send-failure.ts: from an error of svc, a client or Node to a line for the operator.

import { within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import { logger } from '../../observe/logger.ts';
import type { AskAccess, Broker, SendFailure } from '../../publish/broker.ts';
import { groupRefusals, heartbeatRequest, refusalOf } from './group.ts';
import type { KafkaClientOptions } from './kafka-client-options.ts';
import { metadataRequest, ProtocolError, type TopicMetadata } from './protocol.ts';
import { failed, protocolErrorIn, toSendFailure } from './send-failure.ts';
import { openSession } from './session.ts';
import { type BrokerConnection, createConnections, type LoadTransport, parseAddress } from './transport.ts';

const closedFailure: SendFailure = {
  kind: 'fatal',
  cause: 'Closed',
  message: 'the connection to Kafka is closed: svc has stopped',
};

/**
 * Kafka through one of its clients, which is loaded at the first use. A send is one produce request to one partition and is not
 * retried, with one exception: a topic that the broker is creating. The send waits for it, up to `requestTimeoutMs`, and sends
 * the records again. A record without a partition goes by its key, as in Java. Only sends and attempts to connect keep the
 * process alive.
 *
 * @param name as in `svc.broker.client`
 */
export function createKafkaBroker(name: string, options: KafkaClientOptions, load: LoadTransport): Broker {
  const asking = { options, written: false };
  const inFlight = createInFlight();
  let opened: Awaited<ReturnType<typeof openSession>> | undefined;
  const session = loadOnce(async () => {
    opened = await openSession(load, options);
    return opened;
  });
  let closed = false;
  let closing: Promise<void> | undefined;

  async function end(deadlineMs: number): Promise<void> {
    await inFlight.idle(deadlineMs);
    (await session.started()?.catch(() => undefined))?.close();
    inFlight.unref();
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
      // Read now, because a later question places other records.
      const placedBy = opened?.placedBy(topic);
      return inFlight.run(async () => {
        try {
          return await (await session()).send(topic, partition, records, placedBy);
        } catch (error) {
          return failed(toSendFailure(error, { ...asking, topic }));
        }
      });
    },

    unref: inFlight.unref,

    async partitionsFor(topic) {
      if (closed) return undefined;
      try {
        return await (await session()).partitionCount(topic);
      } catch (error) {
        logger.debug(toSendFailure(error, { ...asking, topic }).message);
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

const farAwayMs = 2 ** 31 - 1;

/** Counts work in flight, and keeps the process alive for it. The connections themselves are unref'd. */
function createInFlight() {
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
    async run<T>(work: () => Promise<T>): Promise<T> {
      count++;
      hold ??= setInterval(() => {}, farAwayMs);
      try {
        return await work();
      } finally {
        end();
      }
    },
    /** Resolves when nothing is in flight, after `limitMs` at the latest. */
    async idle(limitMs: number): Promise<void> {
      if (count === 0) return;
      const idle = new Promise<void>((resolve) => {
        onIdle = resolve;
      });
      await within(limitMs, idle);
    },
    /** Lets the process end: no caller waits for the work in flight. */
    unref(): void {
      clearInterval(hold);
      hold = undefined;
    },
  };
}

// The questions of `svc check --online` to a cluster.

/** Any broker has the answers at hand. All configured brokers are tried within about 12 s. */
const longestAnswerMs = 5_000;
const shortestAnswerMs = 1_000;
const allAnswersMs = 12_000;

/** Answers to a stranger in a group whose user has the right to take part. */
const pastTheRight = new Set([
  ...['UNKNOWN_MEMBER_ID', 'ILLEGAL_GENERATION', 'REBALANCE_IN_PROGRESS', 'GROUP_ID_NOT_FOUND'],
  ...['NOT_COORDINATOR', 'COORDINATOR_NOT_AVAILABLE', 'COORDINATOR_LOAD_IN_PROGRESS'],
]);

/** Asks one broker after the other until one answers. */
export function createKafkaAccess(options: KafkaClientOptions, load: LoadTransport): AskAccess {
  const { brokers } = options;
  const answerMs = Math.min(longestAnswerMs, Math.max(shortestAnswerMs, allAnswersMs / brokers.length));
  const asking: KafkaClientOptions = {
    ...options,
    requestTimeoutMs: Math.min(options.requestTimeoutMs, answerMs),
    connectionTimeoutMs: Math.min(options.connectionTimeoutMs, answerMs),
  };

  /** Sends a heartbeat as a stranger. It is refused, and the reason says whether members would be allowed. */
  async function groupAccess(connection: BrokerConnection, group: string) {
    try {
      await connection.ask(heartbeatRequest(group, { memberId: 'svc-check', generation: 0 }));
      return { isAllowed: true, problem: undefined };
    } catch (error) {
      const name = protocolErrorIn(error);
      if (name === undefined) throw error;
      if (pastTheRight.has(name)) return { isAllowed: true, problem: undefined };
      const problem = refusalOf(name, groupRefusals(group, options));
      return { isAllowed: problem === undefined ? undefined : false, problem };
    }
  }

  return async ({ topics, group }, signal) => {
    let failure: SendFailure | undefined;
    for (const address of brokers) {
      if (signal.aborted) break;
      let end = (): void => {};
      try {
        const connections = createConnections(await load(asking), asking);
        end = connections.close;
        signal.addEventListener('abort', end);
        const connection = await connections.get(parseAddress(address));
        const metadata = await connection.ask(metadataRequest(topics, false));
        const byName = new Map(metadata.topics.map((each) => [each.name, each]));
        return {
          cluster: { clusterId: metadata.clusterId, nodeCount: metadata.brokers.length },
          topics: topics.map((topic) => topicAccess(topic, byName.get(topic), options)),
          group: group === undefined ? undefined : await groupAccess(connection, group),
        };
      } catch (error) {
        failure ??= toSendFailure(error, { options: asking, written: false });
        // The other brokers would refuse it too.
        if (failure.kind === 'fatal') break;
      } finally {
        signal.removeEventListener('abort', end);
        end();
      }
    }
    throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', failure?.message ?? 'no broker was reachable');
  };
}

/** The value of a broker that does not tell rights. */
const untold = -2_147_483_648;
const writeRight = 1 << 4;

/** Numbers of Kafka's errors. */
const codes = { missing: 3, leaderless: 5, invalidName: 17, refused: 29 } as const;

function topicAccess(topic: string, metadata: TopicMetadata | undefined, options: KafkaClientOptions) {
  const because = (code: number): string =>
    toSendFailure(new ProtocolError(code), { options, topic, written: false }).message;
  if (metadata === undefined || metadata.errorCode !== 0) {
    const code = metadata?.errorCode ?? codes.missing;
    const isAllowed = code === codes.refused ? false : undefined;
    return { topic, partitionCount: undefined, isAllowed, problem: whyNot(code) };
  }
  const { partitions, topicAuthorizedOperations: rights = untold } = metadata;
  const isAllowed = rights === untold ? undefined : (rights & writeRight) !== 0;
  return { topic, partitionCount: partitions.length, isAllowed, problem: problemOf() };

  function problemOf(): string | undefined {
    if (isAllowed === false) return because(codes.refused);
    return partitions.every(({ leaderId }) => leaderId >= 0) ? undefined : because(codes.leaderless);
  }

  function whyNot(code: number): string {
    const name = `topic ${JSON.stringify(topic)}`;
    if (code === codes.missing)
      return `${name} does not exist: create it (brokers with auto.create.topics.enable create it with its first event)`;
    const isKnown = Object.values<number>(codes).includes(code);
    return isKnown ? because(code) : `Kafka does not describe ${name} (error ${code})`;
  }
}
