import assert from 'node:assert/strict';
import type { Broker, BrokerRecord, SendFailure, SendFailureKind, SendResult } from '../publish/broker.ts';

/** A record as a reader that is not the broker under test found it. */
export interface ContractRecord {
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, string | null>>;
  readonly timestamp: number;
  readonly partition: number;
}

/** What the tests need to know of a broker, and the features it declares. */
export interface BrokerUnderTest {
  /** A new client of the same broker: nothing is shared but what is stored. */
  open(): Broker;
  createTopic(name: string, partitionCount: number): Promise<void>;
  /** At least `count` records, and all there are, in the order of partitions and offsets. */
  read(topic: string, count: number): Promise<readonly ContractRecord[]>;
  count(topic: string): Promise<number>;
  /** Whether topics have as many partitions as asked for; else each has one. */
  readonly hasPartitions: boolean;
  /** Whether there is a cluster with an id, and connections that are counted. */
  readonly isCluster: boolean;
  /** What a topic's name may be at most. */
  readonly longestTopicName: number;
  /** A record that the broker refuses by itself, and as what. */
  readonly refused?: { readonly record: BrokerRecord; readonly kind: SendFailureKind } | undefined;
}

let sequence = 0;
/** Of no other run either. */
export const newTopic = (): string =>
  `contract.${Date.now().toString(36)}${Math.random().toString(36).slice(2, 6)}.${++sequence}`;

export function recordOf(value: unknown, rest: Partial<BrokerRecord> = {}): BrokerRecord {
  return {
    key: null,
    value: Buffer.from(JSON.stringify(value)),
    headers: {},
    timestamp: Date.now(),
    ...rest,
  };
}

export function failureOf(result: SendResult): SendFailure {
  assert.equal(result.ok, false, 'the send succeeded');
  return (result as { failure: SendFailure }).failure;
}

/** Of a failure as an operator reads it. */
export function assertOneLine({ message, cause }: SendFailure): void {
  assert.match(message, /^[^\n\r]{10,400}$/);
  assert.match(cause, /^[^\n\r]+$/);
  assert.doesNotMatch(message, /sesame/);
}
