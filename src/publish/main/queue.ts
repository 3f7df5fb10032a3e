import { AsyncResource } from 'node:async_hooks';
import { within } from '../../ground/clock.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { SendFailure, SendResult } from '../broker.ts';
import { createMemory, createSendSlots } from '../memory-limits.ts';
import type { Publisher } from '../publisher.ts';
import type { FailedEvent } from '../tier.ts';
import { type Breaker, breakerOpen, createBreaker } from './breaker.ts';
import { createFollower } from './event-outcome.ts';
import { brokenPromise, shutDown, stopped, timedOut } from './failures.ts';
import { createPartitionCounts } from './partition-counts.ts';
import type { SendLine } from './partition-queue.ts';
import type { QueueOptions } from './queue-options.ts';
import { QueuedEvent } from './queued-event.ts';
import { bytesOf, toRecord } from './record.ts';
import { createSilenceWatch } from './silence-watch.ts';
import { createTopicQueue, earliest, type TopicQueue } from './topic-queue.ts';

export type { QueueOptions };

export interface QueueState {
  /** In memory: waiting, under way, or waiting for a retry. */
  readonly events: number;
  readonly bytes: number;
  /** Events for which there was no room. */
  readonly overflows: number;
}

export interface Queue extends Publisher {
  /** Sends at once what waits only for company. */
  flush(): void;
  readonly breaker: Breaker | undefined;
  state(): QueueState;
  /** Somebody else has found the cluster away; `sinceMs`: when that was begun, on the monotonic clock. */
  clusterAway(message: string, sinceMs: number): void;
  /**
   * Sends at once what waits only for company, and waits until everything has its outcome. Towards the end of `deadlineMs`
   * what is not acknowledged goes to the next tier, what is under way too. Intake stays as it is.
   */
  drain(deadlineMs: number): Promise<boolean>;
  /** Gives everything to the next tier that is not acknowledged yet. */
  giveUp(reason: SendFailure): void;
  /**
   * The same at the very end of the process, where no promise is heard any more: whoever calls it stores them. `late` gets
   * each event that comes after it, and returns whether it is stored.
   */
  surrender(reason: SendFailure, late: (failed: FailedEvent) => boolean): readonly FailedEvent[];
}

/** The last part of the time to drain, which the next tiers have for what was not acknowledged: at most this. */
const longestReserveMs = 2_000;
/** Topics kept although nothing of them is under way; topic names can come from application data. */
const maxIdleTopics = 100;
/** At most one line about a full buffer in this time. */
const quietMs = 10_000;

/**
 * The main topic: events wait in memory in a queue for each partition, and go out in batches, each acknowledged by the
 * broker as a whole. What cannot be published goes to the next tier; the caller is never blocked.
 */
export function createQueue(options: QueueOptions): Queue {
  const { broker, clock, logger, retry, deliveryTimeoutMs, isolate } = options;
  const makeRecord = options.makeRecord ?? toRecord;
  const follower = createFollower({
    ...options,
    onEnd() {
      if (--pending === 0) for (const resolve of onIdle.splice(0)) resolve();
    },
  });
  const memory = createMemory(options.buffer);
  const topics = new Map<string, TopicQueue>();
  const context = new AsyncResource('svc.queue');
  const counts = createPartitionCounts((topic) => isolate(() => broker.partitionsFor(topic)), clock);
  const slots = createSendSlots(options.maxInFlight);
  const breaker =
    options.breaker &&
    createBreaker({ ...options.breaker, clock, logger, onOpen: () => giveUp(breakerOpen, false) });
  /** The event that tests the cluster, while it does. */
  let probe: QueuedEvent | undefined;
  let expiry: NodeJS.Timeout | undefined;
  let overflowSaidAtMs = Number.NEGATIVE_INFINITY;
  /** In memory, or with the next tier. */
  let pending = 0;
  let closed = false;
  let answeredAtMs = Number.NEGATIVE_INFINITY;
  const onIdle: (() => void)[] = [];
  let surrendered: FailedEvent[] | undefined;
  let storeLate: ((failed: FailedEvent) => boolean) | undefined;

  const silence = createSilenceWatch({
    clock,
    isWaiting: () => memory.events > 0,
    ask: () => isolate(async () => broker.describe?.()),
    onSilent: () => breaker?.silent('it does not answer'),
  });

  const line = (topic: string): SendLine => ({
    slots,
    lingerMs: options.batch.lingerMs,
    isAwaited: options.batch.isAwaited ?? false,
    nowMs: clock.monotonic,
    isClosing: () => closed,
    outside: (work) => context.runInAsyncScope(work),

    async send(partition, batch) {
      const nowMs = clock.now();
      const records = batch.events.map((queued) => {
        if (queued.attempts++ > 0) options.onRetried?.(queued.event.eventType);
        queued.record ??= makeRecord(queued.event, nowMs);
        return queued.record;
      });
      let result: SendResult;
      try {
        result = await isolate(() => broker.send(topic, partition, records));
      } catch (error) {
        result = { ok: false, failure: brokenPromise(error) };
      }
      silence.heard();
      if (result.ok) {
        answeredAtMs = clock.monotonic();
        breaker?.answered();
      }
      return result;
    },

    afterFailure(batch, failure) {
      options.onSendFailed?.(failure.kind);
      if (failure.cause.startsWith('UNKNOWN_')) void counts.ask(topic);
      const waitMs = retry.waitMs(batch.sends - 1, failure);
      breaker?.failed(failure, waitMs === undefined);
      return breaker === undefined || breaker.state === 'CLOSED' ? waitMs : undefined;
    },

    settle(queued, failure) {
      if (queued.isSettled) return;
      memory.give(queued.bytes);
      if (queued.isProbe) breaker?.probeGone();
      if (failure === undefined) {
        queued.published();
      } else {
        queued.record ??= makeRecord(queued.event, clock.now());
        const failed = queued.toFailed(failure);
        if (surrendered === undefined) follower.failed(queued, failed);
        else {
          queued.silenced();
          surrendered.push(failed);
        }
      }
      // When its whole batch is settled, those of its key that wait behind it.
      if (queued === probe) void Promise.resolve().then(afterProbe);
    },
  });

  function topicQueue(topic: string): TopicQueue {
    let queue = topics.get(topic);
    if (queue === undefined) {
      const made = createTopicQueue({
        topic,
        limits: options.batch,
        line: line(topic),
        counts,
        onIdle: () => {
          if (topics.size > maxIdleTopics && made.isIdle()) topics.delete(topic);
        },
      });
      queue = made;
      topics.set(topic, queue);
    }
    return queue;
  }

  function afterProbe(): void {
    probe = undefined;
    if (breaker?.state !== 'CLOSED') giveUp(breakerOpen, false);
  }

  function giveUp(reason: SendFailure, alsoInFlight: boolean): void {
    for (const topic of [...topics.values()]) topic.abandon(reason, alsoInFlight);
    // Sends may be under way still whose events have gone to the next tier.
    if (memory.events === 0 && breaker?.state !== 'CLOSED') broker.letGo?.();
  }

  function expireAfter(delayMs: number): void {
    context.runInAsyncScope(() => {
      expiry = setTimeout(expire, delayMs).unref();
    });
  }

  function expire(): void {
    expiry = undefined;
    const nowMs = clock.monotonic();
    const before = memory.events;
    const next = earliest([...topics.values()].map((topic) => topic.expire(nowMs, deliveryTimeoutMs)));
    // Where others got through meanwhile, the cluster is there.
    if (memory.events < before && answeredAtMs < nowMs - deliveryTimeoutMs)
      breaker?.failed(timedOut(deliveryTimeoutMs, true), true);
    if (next !== undefined) expireAfter(Math.max(1, Math.ceil(next - nowMs)));
    else if (breaker?.state !== 'CLOSED') broker.letGo?.();
  }

  /** Takes the event, or says why not. */
  function take(event: SerializedEvent, topic: string): QueuedEvent | SendFailure {
    if (closed) return stopped;
    const bytes = bytesOf(event);
    // Room first: a probe that finds none would leave the breaker waiting.
    if (!memory.take(bytes)) return bufferFull();
    const admission = breaker?.admit() ?? 'send';
    if (admission === 'refused' && !isBehindProbe(event, topic)) {
      memory.give(bytes);
      return breakerOpen;
    }
    const isProbe = admission === 'probe';
    const queued = new QueuedEvent(event, topic, bytes, {
      atMs: clock.monotonic(),
      deliveryTimeoutMs,
      isProbe,
    });
    if (isProbe) probe = queued;
    if (memory.events === 1) context.runInAsyncScope(silence.waiting);
    topicQueue(topic).push(queued);
    if (expiry === undefined) expireAfter(deliveryTimeoutMs);
    return queued;
  }

  /** It must not get to the next tier, or its topic, before an earlier event of its key has. */
  function isBehindProbe({ key }: SerializedEvent, topic: string): boolean {
    return probe !== undefined && probe.event.key === key && probe.topic === topic;
  }

  function bufferFull(): SendFailure {
    const { maxEvents, maxBytes } = options.buffer;
    const message = `${memory.events} events of ${memory.bytes} bytes are waiting in memory (at most ${maxEvents} events of ${maxBytes} bytes: svc.broker.buffer)`;
    if (clock.monotonic() - overflowSaidAtMs >= quietMs) {
      overflowSaidAtMs = clock.monotonic();
      logger.warn(`events go to the next tier, because ${message}`);
    }
    return { kind: 'retriable', cause: 'BufferFull', message };
  }

  function idle(): Promise<void> {
    return pending === 0 ? Promise.resolve() : new Promise((resolve) => onIdle.push(resolve));
  }

  function flush(): void {
    for (const topic of topics.values()) topic.flush();
  }

  async function drain(deadlineMs: number): Promise<boolean> {
    const end = clock.monotonic() + deadlineMs;
    flush();
    const isDrained = await within(deadlineMs - Math.min(deadlineMs / 4, longestReserveMs), idle());
    // Events that came after the last one was through have their time still.
    if (isDrained) return true;
    giveUp(shutDown, true);
    return within(Math.max(0, end - clock.monotonic()), idle());
  }

  return {
    breaker,
    state: () => ({ events: memory.events, bytes: memory.bytes, overflows: memory.overflows }),
    clusterAway(message, sinceMs) {
      if (answeredAtMs < sinceMs) breaker?.silent(message);
    },
    giveUp: (reason) => giveUp(reason, true),
    surrender(reason, late) {
      closed = true;
      storeLate = late;
      surrendered = follower.takeBack();
      giveUp(reason, true);
      return surrendered;
    },
    publish(event) {
      const topic = event.topic ?? options.topic;
      if (storeLate !== undefined) {
        const record = makeRecord(event, clock.now());
        const isStored = storeLate({ event, topic, attempts: 0, failure: shutDown, record });
        return Promise.resolve(isStored ? 'backup' : 'lost');
      }
      const taken = take(event, topic);
      pending++;
      if (taken instanceof QueuedEvent) return follower.outcomeOf(taken);
      const record = makeRecord(event, clock.now());
      const deadlineAtMs = clock.monotonic() + deliveryTimeoutMs;
      return follower.toNextTier({ event, topic, attempts: 0, failure: taken, record, deadlineAtMs });
    },

    flush,
    drain,

    async close(deadlineMs) {
      closed = true;
      await drain(deadlineMs);
      clearTimeout(expiry);
      silence.close();
    },
  };
}
