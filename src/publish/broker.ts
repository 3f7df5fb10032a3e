import { systemClock } from '../ground/clock.ts';
import type { SendFailureKind } from '../observe/outcomes.ts';

export type { SendFailureKind };

/** One record on the wire. `value` is made once, on first use, and never changes. */
export interface BrokerRecord {
  readonly key: string | null;
  readonly value: Buffer;
  /** Length of `value`, and a way to write its bytes into a buffer without making `value`. Both or neither. */
  readonly valueBytes?: number;
  writeValue?(to: Buffer, at: number): void;
  readonly headers: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
}

/** How often an unreachable cluster is polled. A healthy one answers in milliseconds, over a new connection, too. */
export const clusterPollMs = 750;

export interface ClusterInfo {
  /** `null`: the broker has no id (files, memory). */
  readonly clusterId: string | null;
  readonly nodeCount: number;
}

/** Why a send failed. `message` is one line for an operator with a remedy. It holds no payload and no password. */
export interface SendFailure {
  readonly kind: SendFailureKind;
  /** Class name or code of the root cause as named by the client, such as `UNKNOWN_TOPIC_OR_PARTITION`. */
  readonly cause: string;
  readonly message: string;
  /** The topic was deleted and created again: earlier records are gone. */
  readonly isRecreated?: true;
  /** Set by svc, not by a broker: why svc ended the delivery, whatever the last answer was. The tiers depend on it. */
  readonly endedBy?: 'shutdown' | 'behind' | 'behind-unless-full';
}

export type SendResult =
  | {
      readonly ok: true;
      /** The topic was deleted and created again since the last send. Its number of partitions may differ. */
      readonly isRecreated?: true;
    }
  | { readonly ok: false; readonly failure: SendFailure };

export interface BrokerTraffic {
  /** Open connections, for sends and for metadata. */
  readonly connectionCount: number;
  /** Sends without an answer yet. */
  readonly inFlightRequests: number;
  /** Mean milliseconds from a send to its answer over the last minute. `null`: no sends. */
  readonly requestLatencyAvg: number | null;
}

/** A quota of the broker throttles this client. It may be over by now. */
export interface HeldBack {
  /** Milliseconds, as reported by the broker. */
  readonly forMs: number;
  /** On the monotonic clock. */
  readonly untilMs: number;
  /** One line for an operator that names the quota. */
  readonly message: string;
}

/** Milliseconds that a broker now throttles this process, as reported; 0: not throttled. */
export function throttledMs(broker: Pick<Broker, 'heldBack'>): number {
  const held = broker.heldBack?.();
  return held !== undefined && held.untilMs > systemClock.monotonic() ? held.forMs : 0;
}

/**
 * PORT: the client of a broker. Adapters implement it in one folder each, and applications with `registerBroker`. An implementation
 * passes `brokerContract` of `svc/testing`.
 *
 * - `send` writes records to one partition, in order: all or none. Without `partition` there is exactly one record, and the client
 *   places it by its key. It always resolves: a failure is a value. It does not retry.
 * - A send with the same record objects as the last one to its partition repeats that one. A client whose broker can deduplicate
 *   stores them once.
 * - Several sends may run at once. Two concurrent sends to one partition have no order.
 * - `connect` may be called again after a failure. `send` connects if needed.
 * - `close` waits for sends in flight up to `deadlineMs`, then drops the connection. Afterwards `send` fails as `fatal`.
 * - No spans and no console output. Messages go to the logger that the adapter was made with.
 */
export interface Broker {
  /** As in `svc.broker.client`. */
  readonly name: string;
  connect(): Promise<SendResult>;
  send(topic: string, partition: number | undefined, records: readonly BrokerRecord[]): Promise<SendResult>;
  /** Optional: unrefs sends in flight to a cluster that does not answer, so that they do not keep the process alive. */
  letGo?(): void;
  /** Number of partitions of a topic. `undefined`: unknown to the broker. */
  partitionsFor(topic: string): Promise<number | undefined>;
  /** Optional, for a client with connections. Synchronous; `undefined`: not loaded yet. */
  traffic?(): BrokerTraffic | undefined;
  /**
   * Optional, for brokers with quotas: the last throttling by the leader of this partition; without topic or partition, by any
   * broker. Synchronous. `send` waits by itself; this is for callers with other work to do.
   */
  heldBack?(topic?: string, partition?: number): HeldBack | undefined;
  /** For health checks. Rejects with a one-line message when the cluster cannot be reached. */
  describe(): Promise<ClusterInfo>;
  close(deadlineMs: number): Promise<void>;
}

interface AccessQuestion {
  readonly topics: readonly string[];
  /** The group that worker ids are leased from. `undefined`: no lease. */
  readonly group: string | undefined;
}

export interface Access {
  /** `undefined`: the broker does not report it. */
  readonly isAllowed: boolean | undefined;
  /** One line for an operator: why not, or another problem. */
  readonly problem: string | undefined;
}

export interface TopicAccess extends Access {
  readonly topic: string;
  /** `undefined`: the topic does not exist, or this user cannot see it. */
  readonly partitionCount: number | undefined;
}

export interface AccessReport {
  /** `undefined`: there is no cluster (files, memory). */
  readonly cluster: ClusterInfo | undefined;
  readonly topics: readonly TopicAccess[];
  readonly group: Access | undefined;
}

/**
 * PORT: asks a broker what this process may do. Writes nothing, and creates no topic and no group. Rejects with an `SvcError` of
 * one line when no broker answers. `signal` drops the connection; the caller sets the time limit.
 */
export type AskAccess = (question: AccessQuestion, signal: AbortSignal) => Promise<AccessReport>;
