import { type Clock, inTime, systemClock } from '../../ground/clock.ts';
import type { ClusterInfo } from '../../publish/broker.ts';
import { isNoTopic } from '../../publish/fault.ts';
import {
  type BrokerConnection,
  type Connections,
  createThrottle,
  firstAnswer,
  type Throttle,
} from './connections.ts';
import type { KafkaClientOptions } from './kafka-client-options.ts';
import {
  type ClusterMetadata,
  checkCode,
  type KafkaRequest,
  metadataRequest,
  type Node,
  type TopicMetadata,
} from './protocol.ts';
import { BrokerError, isAnswer, NoAnswer, protocolErrorIn } from './send-failure.ts';
import { type Address, keyOf, parseAddress } from './transport.ts';

interface Topic {
  readonly fetchedAtMs: number;
  /** `undefined` if the broker tells no topic ids. */
  readonly id: string | undefined;
  /** By partition; `undefined`: no leader now. */
  readonly leaders: readonly (Node | undefined)[];
}

/** Partitions may be added to a topic without notice. */
const maxAgeMs = 300_000;
/** Topics can be named by application data. */
const maxTold = 10_000;
/** Without acks, no broker says that it no longer leads the partition. */
const maxAgeUnconfirmedMs = 2_000;
/** Any broker has the answers at hand. */
const longestAnswerMs = 5_000;

export type Topics = ReturnType<typeof createTopics>;

/** The cluster's brokers and topics. Rejects with errors that `toSendFailure` knows. */
export function createTopics(
  connections: Connections,
  options: KafkaClientOptions,
  {
    notice = (question) => question,
    throttle = createThrottle(options),
  }: {
    /** Called with the first try of each question. */
    readonly notice?: ReturnType<typeof createSilence>['notice'];
    readonly throttle?: Throttle;
  } = {},
) {
  const seeds = options.brokers.map(parseAddress);
  const freshMs = options.acks === '0' ? maxAgeUnconfirmedMs : maxAgeMs;
  const lastMs = Math.min(options.requestTimeoutMs, longestAnswerMs);
  const known = new Map<string, Topic>();
  const asked = new Map<string, Promise<Topic>>();
  const told = new Map<string, { readonly count: number; readonly id: string | undefined }>();
  let describing: Promise<ClusterMetadata> | undefined;
  let brokers: readonly Address[] = [];
  let lastDescribed: ClusterMetadata | undefined;

  /** The brokers to ask, connected ones first. */
  function candidates(): Address[] {
    const each = new Map([...seeds, ...brokers].map((address) => [keyOf(address), address]));
    return [...each.values()].sort((a, b) => Number(connections.has(b)) - Number(connections.has(a)));
  }

  /** When a broker may be asked. A seed may be any of the brokers, under another name. */
  function heldUntilMs(address: Address): number {
    const key = keyOf(address);
    const isKnown = brokers.some((broker) => keyOf(broker) === key);
    return isKnown ? throttle.untilMs(key) : (throttle.of()?.untilMs ?? Number.NEGATIVE_INFINITY);
  }

  const freeOf = (all: readonly Address[]): Address[] =>
    all.filter((address) => heldUntilMs(address) <= systemClock.monotonic());

  const isHeldBack = (): boolean => freeOf(candidates()).length === 0;

  /** Waits while all brokers throttle this process. They are up, and are asked as soon as the first throttle ends. */
  async function untilOneIsFree(): Promise<void> {
    while (isHeldBack()) {
      const firstMs = Math.min(...candidates().map(heldUntilMs));
      const leftMs = Math.max(1, Math.ceil(firstMs - systemClock.monotonic()));
      await new Promise((resolve) => setTimeout(resolve, leftMs).unref());
    }
  }

  function askOne<T>(address: Address, request: KafkaRequest<T>, limitMs: number): Promise<T> {
    let connection: BrokerConnection | undefined;
    const answer = async (): Promise<T> => {
      connection = await connections.get(address);
      return connection.ask(request);
    };
    const late = (): never => {
      // Otherwise the next question would ask it first.
      connection?.destroy();
      throw new BrokerError(keyOf(address), new NoAnswer(limitMs));
    };
    return inTime(answer(), { limitMs, keepsAlive: false, late });
  }

  async function askEach<T>(request: KafkaRequest<T>, signal: AbortSignal): Promise<T> {
    const known = candidates();
    const free = freeOf(known);
    const all = free.length > 0 ? free : known;
    let failure: unknown;
    for (const [index, address] of all.entries()) {
      const isLast = index === all.length - 1;
      try {
        const limitMs = isLast ? lastMs : Math.min(options.connectionTimeoutMs, lastMs);
        return await askOne(address, request, limitMs);
      } catch (error) {
        failure ??= error;
        // The other brokers would refuse it too.
        if (isAnswer(error)) throw error;
        signal.throwIfAborted();
      }
    }
    throw failure;
  }

  async function askAny<T>(request: KafkaRequest<T>): Promise<T> {
    if (isHeldBack()) await untilOneIsFree();
    let triedAtMs = Number.NEGATIVE_INFINITY;
    return firstAnswer((signal, isAgain) => {
      // The connection of the last try may be dead without a word.
      if (isAgain) connections.renew(triedAtMs);
      triedAtMs = systemClock.monotonic();
      const asking = askEach(request, signal);
      return isAgain ? asking : notice(asking, signal);
    }, isAnswer);
  }

  async function ask(topics: readonly string[], mayCreate: boolean): Promise<ClusterMetadata> {
    const answer = await askAny(metadataRequest(topics, mayCreate));
    brokers = answer.brokers;
    lastDescribed = answer;
    return answer;
  }

  /** Concurrent callers share one question. */
  function describeCluster(): Promise<ClusterMetadata> {
    describing ??= ask([], false).finally(() => {
      describing = undefined;
    });
    return describing;
  }

  async function fetch(topic: string): Promise<Topic> {
    const answer = await ask([topic], options.makesTopics !== false);
    const nodes = new Map(answer.brokers.map((node) => [node.nodeId, node]));
    const leaders: (Node | undefined)[] = [];
    for (const { partition, leaderId } of partitionsIn(answer)) leaders[partition] = nodes.get(leaderId);
    const found = { leaders, id: idIn(answer), fetchedAtMs: systemClock.monotonic() };
    known.set(topic, found);
    return found;
  }

  function refresh(topic: string): Promise<Topic> {
    let asking = asked.get(topic);
    if (asking === undefined) {
      asking = fetch(topic).finally(() => asked.delete(topic));
      asked.set(topic, asking);
    }
    return asking;
  }

  async function countOf(
    topic: string,
  ): Promise<{ readonly count: number; readonly id: string | undefined } | undefined> {
    try {
      const answer = await ask([topic], false);
      return { count: partitionsIn(answer).length, id: idIn(answer) };
    } catch (error) {
      if (isNoTopic(protocolErrorIn(error))) return undefined;
      throw error;
    }
  }

  return {
    /** For questions that any broker can answer. */
    ask: askAny,
    /** From the cache if possible. Kafka may create the topic if that is allowed. */
    find(topic: string): Topic | Promise<Topic> {
      const found = known.get(topic);
      const isFresh = found !== undefined && systemClock.monotonic() - found.fetchedAtMs < freshMs;
      return isFresh || (found !== undefined && isHeldBack()) ? found : refresh(topic);
    },
    refresh,
    /** From the cache only. */
    leaderOf: (topic: string, partition: number): Node | undefined => known.get(topic)?.leaders[partition],
    /** The next `find` asks the cluster. */
    forget: (topic: string): void => void known.delete(topic),
    /** `undefined` if Kafka does not know the topic. Never creates it. Callers place records by it. */
    async partitionCount(topic: string): Promise<number | undefined> {
      const found = await countOf(topic);
      if (found === undefined) return undefined;
      told.delete(topic);
      told.set(topic, found);
      if (told.size > maxTold) told.delete(told.keys().next().value as string);
      return found.count;
    },
    /** The last result of `partitionCount`. If a topic has another number now, its records belong to other partitions. */
    placedBy: (topic: string): number | undefined => told.get(topic)?.count,
    /** Whether its id differs from the one at the last `partitionCount`: it was deleted and created again (KIP-516). */
    isRecreated(topic: string): boolean {
      const [before, now] = [told.get(topic)?.id, known.get(topic)?.id];
      return before !== undefined && now !== undefined && before !== now;
    },
    /** As `partitionCount`, for callers that place no records by it. */
    isThere: async (topic: string): Promise<boolean> => (await countOf(topic)) !== undefined,
    async describe(): Promise<ClusterInfo> {
      // Brokers that throttle this process are up, and must not be asked now.
      const known = isHeldBack() ? lastDescribed : undefined;
      const described = known ?? (await describeCluster());
      return { clusterId: described.clusterId, nodeCount: described.brokers.length };
    },
  };
}

/** Throws a `ProtocolError` if the one requested topic is refused. */
function partitionsIn({ topics }: ClusterMetadata): TopicMetadata['partitions'] {
  for (const { errorCode } of topics) checkCode(errorCode);
  return topics.flatMap(({ partitions }) => partitions);
}

function idIn({ topics: [topic] }: ClusterMetadata): string | undefined {
  return topic?.id;
}

/** A healthy broker answers in milliseconds. */
const silentMs = 2_000;

/** The bound for slow networks. */
const longestSilentMs = 10_000;

/**
 * When the whole cluster was last silent: neither a question to any broker nor a send had an answer. Older connections may be
 * dead without a word, as after the loss of a machine or network. A send on such a connection would wait long after the cluster
 * is back.
 *
 * @param onSilent called each time, and again every 2 s while there is no answer
 * @param heard the last answer to a send. The cluster is silent after 2 s without one, or after twice the time that it took, at
 * most 10 s
 */
export function createSilence(clock: Clock, onSilent: () => void, heard: () => Answer | undefined) {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  return {
    /** Passes on the result of the question. `over`: aborted once another connection has answered. */
    async notice<T>(question: Promise<T>, over?: AbortSignal): Promise<T> {
      let timer: NodeJS.Timeout | undefined;
      let hasLooked = false;
      const look = (): void => {
        if (hasLooked && over?.aborted) return;
        hasLooked = true;
        const nowMs = clock.monotonic();
        const { atMs, tookMs } = heard() ?? { atMs: Number.NEGATIVE_INFINITY, tookMs: 0 };
        const leftMs = atMs + Math.min(Math.max(silentMs, 2 * tookMs), longestSilentMs) - nowMs;
        if (leftMs <= 0) {
          lastAtMs = nowMs;
          onSilent();
        }
        lookAfter(leftMs > 0 ? leftMs : silentMs);
      };
      const lookAfter = (delayMs: number): void => {
        timer = setTimeout(look, delayMs).unref();
      };
      lookAfter(silentMs);
      try {
        return await question;
      } finally {
        clearTimeout(timer);
      }
    },
    /** On the monotonic clock. */
    lastAtMs: () => lastAtMs,
  };
}

/** The window of Kafka's own clients. The mean covers the last full window and the current one. */
const windowMs = 30_000;

interface Answer {
  /** On the monotonic clock. */
  readonly atMs: number;
  readonly tookMs: number;
}

interface Window {
  count: number;
  sumMs: number;
}

/** How long the broker takes to answer. */
export function createAnswerTimes(clock: Clock) {
  const empty = (): Window => ({ count: 0, sumMs: 0 });
  let startMs = clock.monotonic();
  let before = empty();
  let now = empty();
  let last: Answer | undefined;

  function turn(): void {
    const turns = Math.floor((clock.monotonic() - startMs) / windowMs);
    if (turns === 0) return;
    startMs += turns * windowMs;
    before = turns === 1 ? now : empty();
    now = empty();
  }

  return {
    record(ms: number): void {
      turn();
      last = { atMs: clock.monotonic(), tookMs: ms };
      now.count++;
      now.sumMs += ms;
    },
    last: () => last,
    /** Milliseconds, over the last 30 to 60 seconds; `null`: no answers. */
    mean(): number | null {
      turn();
      const count = before.count + now.count;
      return count === 0 ? null : (before.sumMs + now.sumMs) / count;
    },
  };
}
