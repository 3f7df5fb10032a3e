import { systemClock } from '../ground/clock.ts';
import type { SendFailureKind } from '../observe/outcomes.ts';

export type { SendFailureKind };

/** One record as it goes over the wire. `value` is made once, where it is asked for, and never changed. */
export interface BrokerRecord {
  readonly key: string | null;
  readonly value: Buffer;
  /** Length of `value`, and its bytes written into a buffer of the caller: both or neither, and without making `value`. */
  readonly valueBytes?: number;
  writeValue?(to: Buffer, at: number): void;
  readonly headers: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
}

/** How often a cluster is asked that is away, or has not answered: one that is well does in milliseconds, over a new connection, too. */
export const clusterPollMs = 750;

export interface ClusterInfo {
  /** `null` where the broker has no such thing (files, memory). */
  readonly clusterId: string | null;
  readonly nodeCount: number;
}

/** Why a send failed. `message` is one line for an operator, says what to do, and holds no payload and no password. */
export interface SendFailure {
  readonly kind: SendFailureKind;
  /** Class name or code of the root cause as the client names it, such as `UNKNOWN_TOPIC_OR_PARTITION`. */
  readonly cause: string;
  readonly message: string;
  /** The topic was deleted and created again: it has nothing of what was sent before. */
  readonly isRecreated?: true;
  /** Not of a broker: why svc itself has ended the way to the topic, whatever the last answer was. The tiers go by it. */
  readonly endedBy?: 'shutdown' | 'behind' | 'behind-unless-full';
}

export type SendResult =
  | {
      readonly ok: true;
      /** The topic was deleted and created again since the last send. It may have another number of partitions. */
      readonly isRecreated?: true;
    }
  | { readonly ok: false; readonly failure: SendFailure };

/** What a client knows of its connections to the cluster. */
export interface BrokerTraffic {
  /** Those that are open now, for sends and for questions. */
  readonly connectionCount: number;
  /** Sends that were written, and not answered yet. */
  readonly inFlightRequests: number;
  /** Milliseconds from writing a send to its answer, the mean of the last minute; `null`: there was none. */
  readonly requestLatencyAvg: number | null;
}

/** A broker wants nothing written for a while, by a quota. It may be over by now. */
export interface HeldBack {
  /** Milliseconds, as it said. */
  readonly forMs: number;
  /** On the monotonic clock. */
  readonly untilMs: number;
  /** One line for an operator that names the quota. */
  readonly message: string;
}

/** For how long a broker holds this process back now, in milliseconds, as it said; 0: for none. */
export function throttledMs(broker: Pick<Broker, 'heldBack'>): number {
  const held = broker.heldBack?.();
  return held !== undefined && held.untilMs > systemClock.monotonic() ? held.forMs : 0;
}

/**
 * PORT: a client of a broker. One folder under `adapters/` implements it, or an application (`registerBroker`); it passes
 * `brokerContract` of `svc/testing`.
 *
 * - `send` writes records to one partition: all of them are stored or none, and in their order. Without `partition` there is
 *   ONE record, which the client places by its key. It resolves in every case and never throws: a failure is a value. It does
 *   not retry by itself. A send with the same record objects as the last one to its partition is that one again: a client whose
 *   broker can tell stores them once.
 * - Several sends may run at once; two at once to the same partition have no order between them.
 * - `connect` may be called again after a failure, and `send` connects by itself when nobody did.
 * - `close` waits for sends under way up to `deadlineMs`, then drops the connection. Afterwards `send` fails as `fatal`.
 * - No own spans, no lines on the console: what has to be said goes to the logger that the adapter is made with.
 */
export interface Broker {
  /** As in `svc.broker.client`. */
  readonly name: string;
  connect(): Promise<SendResult>;
  send(topic: string, partition: number | undefined, records: readonly BrokerRecord[]): Promise<SendResult>;
  /** Optional: nobody waits any more for what is under way to a cluster that does not answer, so that it keeps no process alive. */
  letGo?(): void;
  /** Number of partitions of a topic, or `undefined` where the broker does not know it. */
  partitionsFor(topic: string): Promise<number | undefined>;
  /** Optional, of a client that has connections. At once; `undefined`: it is not loaded yet. */
  traffic?(): BrokerTraffic | undefined;
  /**
   * Optional, of a client whose brokers have quotas: what the leader of this partition has said last; without a topic or a partition, what
   * any of them has. At once. `send` waits by itself: this is for whoever can do something else meanwhile.
   */
  heldBack?(topic?: string, partition?: number): HeldBack | undefined;
  /** For health checks. Rejects with a one-line message when the cluster cannot be reached. */
  describe(): Promise<ClusterInfo>;
  close(deadlineMs: number): Promise<void>;
}

/** What a process wants to do with its broker. */
interface AccessQuestion {
  readonly topics: readonly string[];
  /** From which worker ids are leased; `undefined` where none is used. */
  readonly group: string | undefined;
}

export interface Access {
  /** `undefined`: the broker does not tell. */
  readonly isAllowed: boolean | undefined;
  /** One line for an operator: why not, or what else is wrong. */
  readonly problem: string | undefined;
}

export interface TopicAccess extends Access {
  readonly topic: string;
  /** `undefined` where the topic is not there, or not for this user. */
  readonly partitionCount: number | undefined;
}

export interface AccessReport {
  /** `undefined` where there is no cluster (files, memory). */
  readonly cluster: ClusterInfo | undefined;
  readonly topics: readonly TopicAccess[];
  readonly group: Access | undefined;
}

/**
 * PORT: asks a broker what it would let this process do. Writes nothing, and makes no topic and no group. Rejects with an
 * `SvcError` of one line where nobody answers. Whoever calls sets the limit: `signal` drops the connection.
 */
export type AskAccess = (question: AccessQuestion, signal: AbortSignal) => Promise<AccessReport>;
