import { AsyncResource } from 'node:async_hooks';
import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { Broker, SendFailure, SendFailureKind, SendResult } from '../broker.ts';
import { doubtsCount, faultOf } from '../fault.ts';
import { createSendSlots, type SendSlots } from '../memory-limits.ts';
import type { KeyOrder } from '../order/key-order.ts';
import type { Batch } from './batches/batch.ts';
import type { RetryPolicy } from './batches/retry.ts';
import type { Breaker } from './breaker.ts';
import { brokenPromise } from './failures.ts';
import type { PartitionCounts } from './partition-counts.ts';
import { toRecord } from './record.ts';
import type { TopicRefusals } from './topic-refusals.ts';
import type { ClusterWatch } from './watch/cluster-watch.ts';

export interface BatchSenderOptions {
  readonly broker: Pick<Broker, 'send' | 'heldBack'>;
  readonly maxInFlight: number;
  readonly order: KeyOrder;
  readonly counts: PartitionCounts;
  readonly breaker: Breaker;
  readonly watch: Pick<ClusterWatch, 'heard' | 'pausing'>;
  readonly retry: RetryPolicy;
  readonly refusals: TopicRefusals;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
  readonly onSendFailed: (kind: SendFailureKind) => void;
  readonly onRetried: (eventType: string) => void;
}

/** Hands the batches of all partitions of all topics to the broker. */
export interface BatchSender {
  readonly slots: SendSlots;
  /** What must not be sent yet, or not from here. */
  readonly order: KeyOrder;
  /** Nothing may wait for company any more. */
  readonly isClosed: boolean;
  /** The cluster is away, as far as is known. */
  readonly isAway: boolean;
  nowMs(): number;
  /** Until when the brokers of a partition want nothing written, by a quota, on the monotonic clock; `-Infinity`: they never said so. */
  heldUntilMs(topic: string, partition: number | undefined): number;
  /** Hands a batch to the client. Resolves in every case. */
  send(topic: string, partition: number | undefined, batch: Batch): Promise<SendResult>;
  /** Milliseconds until the batch is tried again; `undefined`: never. Called once for each failed send. */
  afterFailure(topic: string, batch: Batch, failure: SendFailure): number | undefined;
  /** For an event that was never sent: why others of its topic were refused. */
  explain(topic: string, reason: SendFailure): SendFailure;
  /** A batch waits so long for its retry. */
  pausing(waitMs: number): void;
  /** Whether the cluster has taken a batch since `atMs`, on the monotonic clock. */
  hasStoredSince(atMs: number): boolean;
  /** When it has last taken one, as Unix time in milliseconds; `null`: it has taken none. */
  lastStoredMs(): number | null;
  /** Runs work outside of the context of any call: it is for many. */
  outside(work: () => void): void;
  close(): void;
}

export function createBatchSender(options: BatchSenderOptions): BatchSender {
  const { broker, counts, breaker, watch, retry, clock, isolate, onSendFailed, onRetried } = options;
  const { refusals, logger } = options;
  const context = new AsyncResource('svc.queue');
  let storedAtMs = Number.NEGATIVE_INFINITY;
  let lastStoredMs: number | null = null;
  let isClosed = false;

  return {
    slots: createSendSlots(options.maxInFlight),
    order: options.order,
    get isClosed() {
      return isClosed;
    },
    get isAway() {
      return breaker.state !== 'CLOSED';
    },
    nowMs: clock.monotonic,
    heldUntilMs: (topic, partition) =>
      broker.heldBack?.(topic, partition)?.untilMs ?? Number.NEGATIVE_INFINITY,

    async send(topic, partition, batch) {
      const nowMs = clock.now();
      const records = batch.events.map((queued) => {
        if (queued.attempts++ > 0) onRetried(queued.event.eventType);
        queued.record ??= toRecord(queued.event, nowMs);
        return queued.record;
      });
      let result: SendResult;
      try {
        result = await isolate(() => broker.send(topic, partition, records));
      } catch (error) {
        result = brokenPromise(error);
      }
      watch.heard(result.ok);
      if (result.ok) {
        storedAtMs = clock.monotonic();
        lastStoredMs = clock.now();
        breaker.answered();
        if (refusals.taken(topic)) logger.info(`topic "${topic}" takes events again`);
      }
      return result;
    },

    afterFailure(topic, batch, failure) {
      onSendFailed(failure.kind);
      if (doubtsCount(failure)) void counts.ask(topic);
      const retryMs = retry.waitMs(batch.sends - 1, failure);
      const isOfTopic = faultOf(failure) === 'topic';
      const isKnown = isOfTopic && refusals.of(topic)?.isFinal === true;
      const waitMs = isKnown ? undefined : retryMs;
      // What is not tried again is said where it goes.
      if (isOfTopic && refusals.refused(topic, failure, waitMs === undefined) && waitMs !== undefined)
        logger.warn(`events wait for their topic, and go to the next tier soon: ${failure.message}`, {
          ...{ topic, cause: failure.cause },
        });
      breaker.failed(failure, waitMs === undefined);
      return breaker.state === 'CLOSED' ? waitMs : undefined;
    },

    explain: refusals.explain,
    pausing: watch.pausing,
    hasStoredSince: (atMs) => storedAtMs >= atMs,
    lastStoredMs: () => lastStoredMs,
    outside: (work) => context.runInAsyncScope(work),
    close() {
      isClosed = true;
    },
  };
}
