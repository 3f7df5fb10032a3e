import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../src/publish/broker.ts';
import {
  type ClusterState,
  createClusterState,
  createRetryPolicy,
  type defaultBreaker,
} from '../../src/publish/main/cluster-state.ts';
import { createQueue, type QueueOptions } from '../../src/publish/main/queue.ts';
import type { FailedEvent } from '../../src/publish/tier.ts';
import { EventValue, jsonForm, type SerializedEvent } from '../../src/serialize/serializer.ts';
import { logInto, useLogger } from '../support/log.ts';

export interface Sent {
  readonly topic: string;
  readonly partition: number | undefined;
  readonly records: readonly BrokerRecord[];
  /** Values of the header `eventId`. */
  readonly ids: string[];
  readonly atMs: number;
  readonly answer: (result: SendResult) => void;
}

export const away: SendFailure = { kind: 'retriable', cause: 'ECONNREFUSED', message: 'cannot reach Kafka' };
export const forbidden: SendFailure = {
  kind: 'fatal',
  cause: 'TOPIC_AUTHORIZATION_FAILED',
  message: 'may not write',
};
export const tooLarge: SendFailure = { kind: 'too_large', cause: 'MESSAGE_TOO_LARGE', message: 'too large' };
export const noAnswer: SendFailure = {
  kind: 'unknown_outcome',
  cause: 'TimeoutException',
  message: 'no answer',
};

/** A broker that answers as the test says: by hand, or at once with what `reply` returns. */
export function fakeCluster(partitionCount: number | 'unknown' = 1): {
  broker: Broker;
  sends: Sent[];
  reply: { current: ((sent: Sent) => SendFailure | undefined) | undefined };
  partitions: { current: number | undefined };
} {
  const sends: Sent[] = [];
  const reply: { current: ((sent: Sent) => SendFailure | undefined) | undefined } = { current: undefined };
  const partitions: { current: number | undefined } = {
    current: partitionCount === 'unknown' ? undefined : partitionCount,
  };
  const broker: Broker = {
    name: 'fake',
    connect: async () => ({ ok: true }),
    send: (topic, partition, records) =>
      new Promise((answer) => {
        const ids = records.map(({ headers }) => headers.eventId as string);
        const sent: Sent = { topic, partition, records, ids, atMs: Date.now(), answer };
        sends.push(sent);
        if (reply.current === undefined) return;
        const failure = reply.current(sent);
        answer(failure === undefined ? { ok: true } : { ok: false, failure });
      }),
    partitionsFor: async () => partitions.current,
    describe: async () => ({ clusterId: null, nodeCount: 1 }),
    close: async () => {},
  };
  return { broker, sends, reply, partitions };
}

/** `after`: the text behind the value of `publishedAt`. */
export const event = (
  eventId: string,
  { after = '"}', ...rest }: Partial<SerializedEvent> & { after?: string } = {},
): SerializedEvent => ({
  eventId,
  eventType: 'T',
  topic: undefined,
  key: `k-${eventId}`,
  headers: { eventId },
  value: new EventValue(jsonForm, `{"eventId":"${eventId}","publishedAt":"`, [after]),
  ...rest,
});

/** Opens for no number of failed sends. */
export const patientBreaker = { threshold: Number.POSITIVE_INFINITY, probeIntervalMs: 1_000 };

export const usualRetry = {
  enabled: true,
  maxAttempts: 3,
  initialIntervalMs: 1_000,
  multiplier: 2,
  maxIntervalMs: 10_000,
  jitter: false,
};

export interface QueueUnderTest {
  readonly queue: ReturnType<typeof createQueue>;
  readonly clusterState: ClusterState;
  readonly failed: FailedEvent[];
  readonly lines: string[];
  readonly counts: { published: number; retried: number; sendsFailed: string[] };
}

/** A queue whose failures land in `failed`, as if the dead letter topic took them. */
export function queueOver(
  broker: QueueOptions['broker'] & Pick<Broker, 'describe'>,
  { breaker = patientBreaker, ...options }: Partial<QueueOptions> & { breaker?: typeof defaultBreaker } = {},
): QueueUnderTest {
  const failed: FailedEvent[] = [];
  const lines: string[] = [];
  const counts = { published: 0, retried: 0, sendsFailed: [] as string[] };
  useLogger(logInto(lines));
  const clusterState = createClusterState({ ...breaker, ask: async () => broker.describe() });
  const queue = createQueue({
    ...{ broker, cluster: clusterState },
    topic: 'main',
    batch: { maxEvents: 500, maxBytes: 900_000, lingerMs: 5 },
    buffer: { maxEvents: 10_000, maxBytes: 32 * 1024 * 1024 },
    maxInFlight: 8,
    deliveryTimeoutMs: 30_000,
    retry: createRetryPolicy(usualRetry),
    next: async (one) => {
      failed.push(one);
      return 'dlq';
    },
    onPublished: () => counts.published++,
    onRetried: () => counts.retried++,
    onLost: () => {},
    onSendFailed: (kind) => counts.sendsFailed.push(kind),
    ...options,
  });
  return { queue, clusterState, failed, lines, counts };
}
