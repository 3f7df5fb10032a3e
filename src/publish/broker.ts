import { clock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import type { SendFailureKind } from '../observe/outcomes.ts';
import { schemaHeader } from '../serialize/serializer.ts';

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
  return held !== undefined && held.untilMs > clock.monotonic() ? held.forMs : 0;
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
  unref?(): void;
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

interface Access {
  /** `undefined`: the broker does not report it. */
  readonly isAllowed: boolean | undefined;
  /** One line for an operator: why not, or another problem. */
  readonly problem: string | undefined;
}

interface TopicAccess extends Access {
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

// Whose fault a failed send is.

/**
 * The cause of a failed send. It decides what happens to other events:
 * - `record`: a record in the send cannot be stored; the others can without it;
 * - `topic`: it refuses all events, because it does not exist or this user has no right to it;
 * - `partition`: the client knows fewer partitions of the topic than svc;
 * - `clock`: the broker refuses the timestamps of this machine;
 * - `registry`: the schema registry does not answer; the cluster takes the records once it does;
 * - `cluster`: it is away, or refuses everything.
 */
export type Fault = 'record' | 'topic' | 'partition' | 'clock' | 'registry' | 'cluster';

const notMade = 'SVC_PUBLISH_NOT_A_RECORD';

/** Error names of Kafka and svc. */
const faults: Readonly<Record<string, Fault>> = {
  INVALID_RECORD: 'record',
  // Compacted topics also answer this to a record without a key.
  CORRUPT_MESSAGE: 'record',
  [notMade]: 'record',
  SVC_SERIALIZE_SCHEMA: 'record',
  SVC_SERIALIZE_SCHEMA_MISFIT: 'record',
  SVC_SERIALIZE_SCHEMA_REFUSED: 'record',
  UNKNOWN_TOPIC_OR_PARTITION: 'topic',
  UNKNOWN_TOPIC_ID: 'topic',
  TOPIC_AUTHORIZATION_FAILED: 'topic',
  INVALID_TOPIC_EXCEPTION: 'topic',
  POLICY_VIOLATION: 'topic',
  UNKNOWN_PARTITION: 'partition',
  // The brokers throttle the creation of topics.
  THROTTLING_QUOTA_EXCEEDED: 'topic',
  INVALID_TIMESTAMP: 'clock',
  SVC_SERIALIZE_REGISTRY_AWAY: 'registry',
};

/** Temporary answers about a topic or partition. Nothing of the send was stored. */
type Passing = 'unknown' | 'without leader' | 'moved' | 'without replicas';

const passing: Readonly<Record<string, Passing>> = {
  UNKNOWN_TOPIC_OR_PARTITION: 'unknown',
  UNKNOWN_TOPIC_ID: 'unknown',
  LEADER_NOT_AVAILABLE: 'without leader',
  THROTTLING_QUOTA_EXCEEDED: 'without leader',
  NOT_LEADER_OR_FOLLOWER: 'moved',
  NOT_LEADER_FOR_PARTITION: 'moved',
  NOT_ENOUGH_REPLICAS: 'without replicas',
};

/**
 * `undefined`: the error is not temporary.
 * @param cause as named by the client
 */
export function passingOf(cause = ''): Passing | undefined {
  return Object.hasOwn(passing, cause) ? passing[cause] : undefined;
}

/** Whether the topic's number of partitions may differ from the known one. */
export function doubtsCount({ cause }: Pick<SendFailure, 'cause'>): boolean {
  return cause.startsWith('UNKNOWN_');
}

export function faultOf({ kind, cause }: Pick<SendFailure, 'kind' | 'cause'>): Fault {
  if (kind === 'too_large') return 'record';
  return Object.hasOwn(faults, cause) ? (faults[cause] as Fault) : 'cluster';
}

/** Whether svc could not make the record: nothing was sent, and no retry can help. */
export function isNotMade({ cause }: Pick<SendFailure, 'cause'>): boolean {
  return cause.startsWith('SVC_') && faults[cause] === 'record';
}

/** `says` must not contain values of the record. */
function notARecord(says: string): SvcError {
  return new SvcError(notMade, `it cannot be encoded as a record: ${says}`);
}

/** The failure of a send. */
export function notMadeFailure(says: string): SendFailure {
  return { kind: 'fatal', cause: notMade, message: notARecord(says).message };
}

/** Makes or encodes records. An error is the fault of a record, never of the cluster. */
export function makeRecords<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    // Messages of Node quote values.
    throw notARecord(nameOf(error));
  }
}

/** The name of an error. Its message may contain a payload. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

const scratch = Buffer.allocUnsafe(1024);

/** The partition that the default partitioners of Java and kafkajs choose for a key. */
export function partitionOfKey(key: string, partitionCount: number): number {
  // A UTF-16 unit never takes more than three bytes.
  const fits = key.length * 3 <= scratch.length;
  const bytes = fits ? scratch : Buffer.from(key);
  const length = fits ? scratch.write(key) : bytes.length;
  return (murmur2(bytes, length) & 0x7fffffff) % partitionCount;
}

/** For single events. Without a key it needs no order, so any partition will do. */
export function partitionOf(key: string | null, partitionCount: number): number {
  return key === null ? Math.floor(Math.random() * partitionCount) : partitionOfKey(key, partitionCount);
}

const seed = 0x9747b28c;
const multiplier = 0x5bd1e995;

/** MurmurHash2 of bytes as a signed 32-bit integer, as in Kafka's own clients. */
export function murmur2(bytes: Uint8Array, length: number = bytes.length): number {
  let hash = seed ^ length;
  const rest = length & 3;
  const whole = length - rest;
  for (let at = 0; at < whole; at += 4) {
    let word =
      (bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24);
    word = Math.imul(word, multiplier);
    word ^= word >>> 24;
    hash = Math.imul(hash, multiplier) ^ Math.imul(word, multiplier);
  }
  if (rest > 2) hash ^= (bytes[whole + 2] as number) << 16;
  if (rest > 1) hash ^= (bytes[whole + 1] as number) << 8;
  if (rest > 0) hash = Math.imul(hash ^ (bytes[whole] as number), multiplier);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, multiplier);
  return hash ^ (hash >>> 15);
}

/** The value and headers of a record that waited for its schema. */
type Encode = (topic: string, record: BrokerRecord) => Promise<Pick<BrokerRecord, 'value' | 'headers'>>;

/** Dead letters stay JSON around the original record. */
const isWaiting = ({ headers }: BrokerRecord): boolean =>
  headers[schemaHeader] !== undefined && headers.originalTopic === undefined;

/**
 * Encodes each record that waits for its schema before it is sent. `givesUp`: an unavailable registry fails the send for good;
 * otherwise the send may be retried.
 */
export function encodingBroker(broker: Broker, encode: Encode, givesUp: boolean): Broker {
  /** The same record at each retry: brokers recognize a batch that they already have by its bytes. */
  const made = new WeakMap<BrokerRecord, BrokerRecord>();
  const encodedOnce = async (topic: string, record: BrokerRecord): Promise<BrokerRecord> => {
    const known = made.get(record);
    if (known !== undefined) return known;
    // Without `writeValue`, which would write the former value.
    const { key, timestamp } = record;
    const encoded: BrokerRecord = { key, timestamp, ...(await encode(topic, record)) };
    made.set(record, encoded);
    return encoded;
  };
  return {
    ...broker,
    async send(topic, partition, records) {
      if (!records.some(isWaiting)) return broker.send(topic, partition, records);
      let encoded: BrokerRecord[];
      try {
        encoded = await Promise.all(
          records.map((record) => (isWaiting(record) ? encodedOnce(topic, record) : record)),
        );
      } catch (error) {
        return { ok: false, failure: failureOf(error, givesUp) };
      }
      return broker.send(topic, partition, encoded);
    },
  };
}

function failureOf(error: unknown, givesUp: boolean): SendFailure {
  if (!(error instanceof SvcError)) {
    const message = 'an unexpected error occurred while the event was encoded';
    return { kind: 'fatal', cause: 'SVC_SERIALIZE_SCHEMA', message };
  }
  const { code, message } = error;
  const passes = code === 'SVC_SERIALIZE_REGISTRY_AWAY' && !givesUp;
  return { kind: passes ? 'retriable' : 'fatal', cause: code, message };
}

/** Limits concurrent sends. The others wait in FIFO order. */
export function createSendSlots(maxInFlight: number) {
  const waiting: (() => void)[] = [];
  let taken = 0;
  let isGiving = false;
  return {
    /** Calls `run` at once if a slot is free, otherwise later. */
    acquire(run: () => void): void {
      if (taken >= maxInFlight || waiting.length > 0) {
        waiting.push(run);
        return;
      }
      taken++;
      run();
    },
    release(): void {
      taken--;
      // A partition with nothing to send releases its slot within `run`. Thousands of them must not nest on the stack.
      if (isGiving) return;
      isGiving = true;
      try {
        while (taken < maxInFlight && waiting.length > 0) {
          taken++;
          waiting.shift()?.();
        }
      } finally {
        isGiving = false;
      }
    },
  };
}
