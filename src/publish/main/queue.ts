// main/: the main topic: admission, topic, partition, sender, outcome.

import { type Clock, within } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { Outcome } from '../../observe/outcomes.ts';
import type { SerializedEvent } from '../../serialize/serializer.ts';
import type { Broker, SendFailure, SendFailureKind } from '../broker.ts';
import { createTickBudget, type MemoryLimits } from '../memory-limits.ts';
import { isSpilled, type KeyOrder, noOrder } from '../order/backup-order.ts';
import type { Publisher } from '../publisher.ts';
import type { FailedEvent, NextTier } from '../tier.ts';
import {
  type Breaker,
  type BreakerSettings,
  breakerOpen,
  createBreaker,
  createClusterWatch,
  type RetryPolicy,
} from './breaker.ts';
import {
  type BatchSettings,
  createBatchSender,
  createTopicQueue,
  earliest,
  type TopicQueue,
} from './partition-queue.ts';
import { createAdmission, createEventOutcomes, QueuedEvent, shutDown, timedOut } from './queued-event.ts';
import { bytesOf, toRecord } from './record.ts';
import { createPartitionCounts, createTopicRefusals } from './topic-refusals.ts';

export interface QueueOptions {
  readonly broker: Pick<Broker, 'send' | 'partitionsFor' | 'describe' | 'letGo' | 'heldBack'>;
  /** Topic of events that name none. */
  readonly topic: string;
  readonly batch: BatchSettings;
  /** Over all topics. Events beyond it go to the next tier. */
  readonly buffer: MemoryLimits;
  /**
   * For events that wait because earlier ones of their partition are in the backup. Beyond it they spill to the backup; if that is
   * full, the new event is lost.
   */
  readonly held?: MemoryLimits | undefined;
  /** Concurrent sends over all partitions. */
  readonly maxInFlight: number;
  /** An event without acknowledgment after this time goes to the next tier. */
  readonly deliveryTimeoutMs: number;
  readonly retry: RetryPolicy;
  readonly breaker: BreakerSettings;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Runs a send as svc's own work: not captured, and without spans of the client's instrumentation. */
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
  /** Takes an event that was not published. Called in the context of the event's call. */
  readonly next: NextTier;
  readonly onPublished: () => void;
  /** Keeps events in order with those in the backup. Default: no order. */
  readonly order?: KeyOrder | undefined;
  /** An event that does not fit into memory, not even on its way to the next tier. */
  readonly onLost: (event: SerializedEvent, topic: string, failure: SendFailure) => void;
  /** A send failed, with any number of events. */
  readonly onSendFailed: (kind: SendFailureKind) => void;
  readonly onRetried: (eventType: string) => void;
}

export interface Queue extends Publisher {
  /** Sends batches at once that wait for more events. */
  flush(): void;
  readonly breaker: Breaker;
  state(): {
    /** In memory: waiting, in flight, or waiting for a retry. */
    readonly events: number;
    readonly bytes: number;
    /** Events that did not fit. */
    readonly overflows: number;
  };
  /** One line about topics that refuse their events. */
  refusals(): string | undefined;
  /** When the cluster last took a batch, as Unix time in milliseconds; `null`: never. */
  lastPublishedMs(): number | null;
  /** Another client found the cluster unreachable. `sinceMs`: start of its attempt, on the monotonic clock. */
  clusterAway(message: string, sinceMs: number): void;
  /**
   * Flushes and waits until each event has its outcome. Near the end of `deadlineMs` unacknowledged events, also those in flight,
   * go to the next tier, unless `isWanted` returns false then. Admission continues.
   */
  finish(deadlineMs: number, isWanted?: () => boolean): Promise<boolean>;
  /**
   * For the end of the process, when promises no longer resolve. Returns all unacknowledged events that no tier has received; the
   * caller must store them. `late` receives each later event, and returns whether it stored it.
   */
  takeOver(reason: SendFailure, late: (failed: FailedEvent) => boolean): readonly FailedEvent[];
  /** Stops admission and finishes: each event has its outcome, at `deadlineMs` at the latest. */
  close(deadlineMs: number): Promise<void>;
}

/** The last part of `deadlineMs` of `finish`, at most, which is reserved for the next tiers. */
const longestReserveMs = 2_000;
/** How often the first event that found the backup full tries again. */
const roomEveryMs = 1_000;
/** Limit of topics kept without events. Topic names can come from application data. */
const maxIdleTopics = 100;

/**
 * The main topic. Events wait in memory, in one queue per partition, and are sent in batches. The broker acknowledges each batch as
 * a whole. Events that cannot be published go to the next tier. The caller is never blocked.
 *
 * The path of an event: `createAdmission`, `createTopicQueue` (partition), `createPartitionQueue` (batches), `createBatchSender`
 * (client), `createEventOutcomes`. This function handles all events at once: deadlines, giving up, the end.
 */
export function createQueue(options: QueueOptions): Queue {
  const { broker, clock, logger, deliveryTimeoutMs, isolate, order = noOrder } = options;
  const breaker = createBreaker({ ...options.breaker, clock, logger, onOpen: giveUpWaiting });
  const admission = createAdmission({
    ...{ ...options, breaker, onProbeFailed: giveUpWaiting },
    onFirst: () => sender.outside(watch.waiting),
  });
  const { memory } = admission;
  const outcomes = createEventOutcomes({ ...options, admission, order, putBack, onStored });
  const counts = createPartitionCounts((topic) => isolate(() => broker.partitionsFor(topic)), clock);
  const watch = createClusterWatch({
    clock,
    ask: () => isolate(async () => broker.describe()),
    isWaiting: () => memory.events > 0,
    random: options.breaker.random,
    onSilent: () => breaker.silent('it does not answer'),
    onReturn: () => sender.outside(wake),
  });
  const refusals = createTopicRefusals(clock);
  const sender = createBatchSender({ ...options, counts, breaker, watch, order, refusals });
  const topics = new Map<string, TopicQueue>();
  order.attach({
    countOf: counts.known,
    holds: (topic, partition) => topics.get(topic)?.holds(partition) === true,
    firstHeld: (topic, partition) => topics.get(topic)?.firstHeld(partition),
    orderChanged: (topic, partition) => sender.outside(() => orderChanged(topic, partition)),
  });
  const tick = createTickBudget();
  let expiry: NodeJS.Timeout | undefined;
  let storeLate: ((failed: FailedEvent) => boolean) | undefined;
  /** Events found the backup full, and neither one of them nor another event was stored there since. */
  let isWaitingForRoom = false;
  let roomTimer: NodeJS.Timeout | undefined;
  /** All waiting events were given up, and svc ends. */
  let isOver = false;

  function topicQueue(topic: string): TopicQueue {
    let queue = topics.get(topic);
    if (queue === undefined) {
      const made = createTopicQueue({
        topic,
        batch: options.batch,
        counts,
        sender,
        outcomes,
        onIdle: () => {
          if (topics.size > maxIdleTopics && made.isIdle()) topics.delete(topic);
        },
      });
      queue = made;
      topics.set(topic, queue);
    }
    return queue;
  }

  function abandon(reason: SendFailure, alsoInFlight: boolean): void {
    for (const topic of [...topics.values()]) topic.abandon(reason, alsoInFlight);
    // Sends may be in flight whose events have gone to the next tier.
    if (memory.events === 0 && breaker.state !== 'CLOSED') broker.letGo?.();
  }

  function giveUpWaiting(): void {
    abandon(breakerOpen, false);
  }

  function orderChanged(topic: string | undefined, partition: number | undefined): void {
    if (topic !== undefined) topics.get(topic)?.orderChanged(partition);
    else for (const each of [...topics.values()]) each.orderChanged(undefined);
  }

  function wake(): void {
    for (const topic of topics.values()) topic.wake();
  }

  function expireAfter(delayMs: number): void {
    sender.outside(() => {
      expiry = setTimeout(expire, delayMs).unref();
    });
  }

  function expire(): void {
    expiry = undefined;
    const nowMs = clock.monotonic();
    const before = memory.events;
    const next = earliest([...topics.values()].map((topic) => topic.expire(nowMs, deliveryTimeoutMs)));
    // If other events got through meanwhile, the cluster is not away.
    if (memory.events < before && !sender.hasStoredSince(nowMs - deliveryTimeoutMs))
      breaker.failed(timedOut(deliveryTimeoutMs), true);
    // A held event may get its deadline by then.
    if (next !== undefined) expireAfter(Math.max(1, Math.ceil(Math.min(next - nowMs, deliveryTimeoutMs))));
    else if (breaker.state !== 'CLOSED') broker.letGo?.();
  }

  function take(event: SerializedEvent, topic: string): QueuedEvent | SendFailure {
    if (sender.isClosed) return stopped;
    const isHeld = order.isGuarding && order.stateOfKey(topic, event.key) !== 'open';
    const taken = admission.admit(event, topic, isHeld);
    if (!(taken instanceof QueuedEvent)) return taken;
    if (isHeld) tick.add(taken.bytes);
    topicQueue(topic).push(taken);
    if (expiry === undefined) expireAfter(deliveryTimeoutMs);
    return taken;
  }

  function putBack(queued: QueuedEvent): boolean {
    if (isOver || !admission.takeBack(queued)) return false;
    topicQueue(queued.topic).putBack(queued);
    isWaitingForRoom = true;
    tryRoomLater();
    if (expiry === undefined) expireAfter(deliveryTimeoutMs);
    return true;
  }

  function tryRoomLater(): void {
    sender.outside(() => {
      roomTimer ??= setTimeout(tryRoom, roomEveryMs).unref();
    });
  }

  function tryRoom(): void {
    roomTimer = undefined;
    if (!isWaitingForRoom) return;
    if ([...topics.values()].some((topic) => topic.tryRoom())) tryRoomLater();
    else onStored();
  }

  /** The backup has space again. */
  function onStored(): void {
    if (!isWaitingForRoom) return;
    isWaitingForRoom = false;
    sender.outside(() => orderChanged(undefined, undefined));
  }

  /** Without a deadline, for the end of the process. */
  function unsent(event: SerializedEvent, topic: string, failure: SendFailure): FailedEvent {
    return { event, topic, attempts: 0, failure, record: toRecord(event, clock.now()) };
  }

  function refused(event: SerializedEvent, topic: string, failure: SendFailure): Promise<Outcome> {
    tick.add(bytesOf(event));
    const deadlineAtMs = clock.monotonic() + deliveryTimeoutMs;
    return outcomes.outcomeOfRefused({ ...unsent(event, topic, failure), deadlineAtMs });
  }

  function flush(): void {
    for (const topic of topics.values()) topic.flush();
  }

  async function finish(deadlineMs: number, isWanted = () => true): Promise<boolean> {
    const end = clock.monotonic() + deadlineMs;
    flush();
    const isFinished = await within(deadlineMs - Math.min(deadlineMs / 4, longestReserveMs), outcomes.idle());
    // Events that came after the last outcome still have time.
    if (isFinished) return true;
    if (!isWanted()) return false;
    isOver = sender.isClosed;
    abandon(shutDown, true);
    return within(Math.max(0, end - clock.monotonic()), outcomes.idle());
  }

  return {
    breaker,
    state: () => ({ events: memory.events, bytes: memory.bytes, overflows: memory.overflows }),
    refusals: refusals.state,
    lastPublishedMs: sender.lastStoredMs,
    clusterAway(message, sinceMs) {
      if (!sender.hasStoredSince(sinceMs)) breaker.silent(message);
    },
    takeOver(reason, late) {
      sender.close();
      storeLate = late;
      const left = outcomes.takeOver();
      abandon(reason, true);
      return left;
    },
    isRefused(event) {
      const known = refusals.of(event.topic ?? options.topic);
      return known !== undefined && !known.isFinal;
    },
    publish(event) {
      const topic = event.topic ?? options.topic;
      if (storeLate !== undefined) {
        const isStored = storeLate(unsent(event, topic, shutDown));
        return Promise.resolve(isStored ? 'backup' : 'lost');
      }
      const taken = take(event, topic);
      if (taken instanceof QueuedEvent) return outcomes.outcomeOf(taken);
      if (!isSpilled(taken) || topics.get(topic)?.spillHeldEvents(event.key) !== false)
        return refused(event, topic, taken);
      options.onLost(event, topic, taken);
      return Promise.resolve('lost');
    },

    rejectIfOverloaded(event) {
      if (tick.isFull) options.onLost(event, event.topic ?? options.topic, tooManyAtOnce);
      return tick.isFull;
    },
    flush,
    finish,
    async close(deadlineMs) {
      sender.close();
      await finish(deadlineMs);
      clearTimeout(expiry);
      clearTimeout(roomTimer);
      watch.close();
    },
  };
}

const stopped: SendFailure = { kind: 'fatal', cause: 'Closed', message: 'svc has stopped' };

const tooManyAtOnce: SendFailure = {
  kind: 'retriable',
  cause: 'BufferFull',
  message:
    'one turn of the event loop made more events than fit into an eighth of the heap. svc sends nothing until the turn ends: in long loops, await setImmediate of node:timers/promises now and then',
};
