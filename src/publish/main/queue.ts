// main/: the main topic: admission, topic, partition, sender, outcome.

import { AsyncResource } from 'node:async_hooks';
import { clock, within } from '../../ground/clock.ts';
import { orderOf } from '../../ground/event-fields.ts';
import { logger, throttledLog } from '../../observe/logger.ts';
import { isolate } from '../../observe/otel-api.ts';
import type { Outcome } from '../../observe/outcomes.ts';
import type { EventForm, EventValue, SerializedEvent } from '../../serialize/serializer.ts';
import {
  type Broker,
  type BrokerRecord,
  createSendSlots,
  doubtsCount,
  faultOf,
  nameOf,
  partitionOfKey,
  passingOf,
  type SendFailure,
  type SendFailureKind,
  type SendResult,
} from '../broker.ts';
import { isSpilled, type KeyOrder } from '../order/backup-order.ts';
import type { Publisher } from '../publisher.ts';
import {
  type BatchLimits,
  type Batch as BatchOf,
  brokenPromise,
  createLane,
  createMemory,
  type MemoryLimits,
  newBatch,
} from '../sender/sender.ts';
import type { FailedEvent } from '../tier.ts';
import {
  afterRetries,
  breakerOpen,
  type ClusterState,
  createPartitionCounts,
  type createRetryPolicy,
  createTopicRefusals,
  type PartitionCounts,
  timedOut,
} from './cluster-state.ts';

export interface QueueOptions {
  readonly broker: Pick<Broker, 'send' | 'partitionsFor' | 'unref' | 'heldBack'>;
  /** Topic of events that name none. */
  readonly topic: string;
  readonly batch: BatchSettings;
  /** Over all topics. Events beyond it go to the next tier. */
  readonly buffer: MemoryLimits;
  /**
   * For events that wait because earlier ones of their partition are in the backup. Beyond it they spill to the backup; if that is
   * full, the new event is lost.
   */
  readonly behindBackup?: MemoryLimits | undefined;
  /** Concurrent sends over all partitions. */
  readonly maxInFlight: number;
  /** An event without acknowledgment after this time goes to the next tier. */
  readonly deliveryTimeoutMs: number;
  readonly retry: ReturnType<typeof createRetryPolicy>;
  readonly cluster: ClusterState;
  /**
   * Gives an event that was not published to the tiers in their order. Called in the context of the event's call. Resolves with
   * where it ended; never rejects.
   */
  readonly next: (failed: FailedEvent) => Promise<Outcome>;
  readonly onPublished: () => void;
  /** Keeps events in order with those in the backup. Default: no order. */
  readonly order?: KeyOrder | undefined;
  /** An event that does not fit into memory, not even on its way to the next tier. */
  readonly onLost: (event: SerializedEvent, topic: string, failure: SendFailure) => void;
  /** A send failed, with any number of events. */
  readonly onSendFailed: (kind: SendFailureKind) => void;
  readonly onRetried: (eventType: string) => void;
}

interface Queue extends Publisher {
  /** Sends batches at once that wait for more events. */
  flush(): void;
  state(): {
    /** In memory: waiting, in flight, or waiting for a retry. */
    readonly events: number;
    readonly bytes: number;
    /** Events that did not fit. */
    readonly overflows: number;
  };
  /** One line about topics that refuse their events. */
  refusals(): string | undefined;
  /**
   * Flushes and waits until each event has its outcome. Near the end of `deadlineMs` unacknowledged events, also those in flight,
   * go to the next tier, unless `isWanted` returns false then. Admission continues.
   */
  finish(deadlineMs: number, isWanted?: () => boolean): Promise<boolean>;
  /**
   * For the end of the process, when promises no longer resolve. Returns all unacknowledged events that no tier has received; the
   * caller must store them. `late` receives each later event, and returns whether it stored it.
   */
  takeOver(late: (failed: FailedEvent) => boolean): readonly FailedEvent[];
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
  const { broker, cluster, deliveryTimeoutMs, order = noOrder } = options;
  const admission = createAdmission({
    ...{ ...options, onProbeFailed: giveUpWaiting },
    onFirst: () => sender.outside(cluster.waiting),
  });
  const { memory } = admission;
  const outcomes = createEventOutcomes({ ...options, admission, order, putBack, onStored });
  const counts = createPartitionCounts((topic) => isolate(() => broker.partitionsFor(topic)));
  cluster.attach({
    isWaiting: () => memory.events > 0,
    onAway: giveUpWaiting,
    onBack: () => sender.outside(wake),
  });
  const refusals = createTopicRefusals();
  const sender = createBatchSender({ ...options, counts, order, refusals });
  const topics = new Map<string, TopicQueue>();
  order.attach({
    countOf: counts.known,
    holds: (topic, partition) => topics.get(topic)?.holds(partition) === true,
    firstBehindBackup: (topic, partition) => topics.get(topic)?.firstBehindBackup(partition),
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
    if (memory.events === 0 && cluster.isAway) broker.unref?.();
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
    if (memory.events < before && !cluster.hasStoredSince(nowMs - deliveryTimeoutMs))
      cluster.failed(timedOut(deliveryTimeoutMs), true);
    // An event behind the backup may get its deadline by then.
    if (next !== undefined) expireAfter(Math.max(1, Math.ceil(Math.min(next - nowMs, deliveryTimeoutMs))));
    else if (cluster.isAway) broker.unref?.();
  }

  function take(event: SerializedEvent, topic: string): QueuedEvent | SendFailure {
    if (sender.isClosed) return stopped;
    const isBehindBackup = order.isGuarding && order.stateOfKey(topic, event.key) !== 'open';
    const taken = admission.admit(event, topic, isBehindBackup);
    if (!(taken instanceof QueuedEvent)) return taken;
    if (isBehindBackup) tick.add(taken.bytes);
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
    state: () => ({ events: memory.events, bytes: memory.bytes, overflows: memory.overflows }),
    refusals: refusals.state,
    takeOver(late) {
      sender.close();
      storeLate = late;
      const left = outcomes.takeOver();
      abandon(shutDown, true);
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
      cluster.close();
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

// One topic: its partitions, and one sender for each.

interface Batch extends BatchOf<QueuedEvent> {
  /** It waits for its next try, or was tried during the wait. */
  readonly pause?: Pause | undefined;
}

interface Pause {
  /** On the monotonic clock. */
  readonly untilMs: number;
  /** It was tried early because the cluster is back: once per wait, not counted as a retry. */
  readonly isTried: boolean;
}

interface BatchSettings extends BatchLimits {
  /** How long the first event of a batch lingers at most, if its partition is busy or was just sent to. */
  readonly lingerMs: number;
  /** Callers wait for the outcome of their events. Default: false. */
  readonly isAwaited?: boolean;
}

/** A larger send hardly lowers the cost of each event, so a batch lingers no longer. */
const worthwhileEvents = 100;
const worthwhileBytes = 131_072;
/** The longest linger after a batch of one event. */
const aloneLingerMs = 5;

/** Awaited events linger only where this many callers share a partition, because that serves them all sooner. */
const crowdEvents = 10;
const crowdLingerMs = 2;

/**
 * How long the first event lingers. After a batch of one event, a caller probably publishes and awaits events one by one: no other
 * event would come.
 */
function lingerFor(lastBatchEvents: number, { lingerMs, isAwaited }: BatchSettings): number {
  if (isAwaited) return lastBatchEvents >= crowdEvents ? Math.min(lingerMs, crowdLingerMs) : 0;
  return lastBatchEvents > 1 ? lingerMs : Math.min(lingerMs, aloneLingerMs);
}

function nextTry(batch: Batch): Batch {
  return { ...batch, sends: batch.sends + 1 };
}

/** A try during the wait for the next one, or else the next one. */
function triedBetween(batch: Batch): Batch {
  return batch.pause === undefined ? nextTry(batch) : { ...batch, pause: { ...batch.pause, isTried: true } };
}

/** A batch that was sent keeps its events, because a broker recognizes it by them. All expire with the first one. */
const isWhole = ({ sends }: Batch): boolean => sends > 0;

/** Without settled events; `undefined`: all are settled. */
function unsettled(batch: Batch): Batch | undefined {
  if (!batch.events.some((event) => event.isSettled)) return batch;
  const events = batch.events.filter((event) => !event.isSettled);
  return events.length === 0 ? undefined : { ...batch, events };
}

/** The failure for the next tier: the batch's own, or `reason` followed by it. */
function finalFailure(batch: Batch, reason?: SendFailure): SendFailure {
  const own = batch.failure === undefined ? undefined : afterRetries(batch.failure, batch.sends - 1);
  const kind = (otherwise: SendFailureKind): SendFailureKind =>
    batch.maybeStored ? 'unknown_outcome' : otherwise;
  if (reason === undefined) {
    const last = own as SendFailure;
    return { ...last, kind: kind(last.kind) };
  }
  if (own === undefined) return { ...reason, kind: kind(reason.kind) };
  const message = `${reason.message}; last: ${own.message}`;
  return { ...reason, kind: kind(reason.kind), cause: own.cause, message };
}

type Settle = (event: QueuedEvent, failure: SendFailure) => void;

/** Failed batches of one partition and their halves, in order. They are sent before anything else. */
class UnsentBatches {
  private batches: Batch[] = [];

  /** The first event without an outcome. */
  get firstOpen(): QueuedEvent | undefined {
    for (const { events } of this.batches) {
      const found = events.find(({ isSettled }) => !isSettled);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** The first batch waits for its retry, and was not tried meanwhile. */
  get isPausing(): boolean {
    return this.batches[0]?.pause?.isTried === false;
  }

  putFirst(batches: readonly Batch[]): void {
    this.batches.unshift(...batches);
  }

  /** The first batch with unsettled events. */
  take(): Batch | undefined {
    let found: Batch | undefined;
    while (found === undefined && this.batches.length > 0) found = unsettled(this.batches.shift() as Batch);
    return found;
  }

  /** All events, or those of batches that are certainly not stored. The rest keeps its order. */
  takeEvents(alsoMaybeStored: boolean): QueuedEvent[] {
    const isTaken = (batch: Batch): boolean => alsoMaybeStored || !batch.maybeStored;
    const taken = this.batches.filter(isTaken);
    this.batches = this.batches.filter((batch) => !isTaken(batch));
    return taken.flatMap(({ events }) => events.filter(({ isSettled }) => !isSettled));
  }

  end(reason: SendFailure, settle: Settle, isWanted?: (event: QueuedEvent) => boolean): void {
    for (const batch of this.batches) endBatch(batch, reason, settle, isWanted);
    this.batches = this.batches.map(unsettled).filter((batch) => batch !== undefined);
  }
}

/** Settles a batch, or the wanted events of it. A batch that was sent before ends as a whole if any of them is wanted. */
function endBatch(
  batch: Batch,
  reason: SendFailure | undefined,
  settle: Settle,
  isWanted: (event: QueuedEvent) => boolean = () => true,
): void {
  const why = finalFailure(batch, reason);
  const isOne = isWhole(batch) && batch.events.some((event) => !event.isSettled && isWanted(event));
  for (const event of batch.events) if (isOne || isWanted(event)) settle(event, why);
}

/** How many of these events, at least one, go into the next batch. */
function countForBatch(events: readonly QueuedEvent[], { maxEvents, maxBytes }: BatchLimits): number {
  const max = Math.min(events.length, maxEvents);
  let bytes = 0;
  for (let count = 0; count < max; count++) {
    bytes += (events[count] as QueuedEvent).bytes;
    if (bytes > maxBytes) return Math.max(count, 1);
  }
  return max;
}

/** Unsettled events that are in no batch yet, in order. */
class WaitingEvents {
  private events: QueuedEvent[] = [];
  private behindBackupCount = 0;
  bytes = 0;

  get count(): number {
    return this.events.length;
  }

  get hasBehindBackup(): boolean {
    return this.behindBackupCount > 0;
  }

  get first(): QueuedEvent | undefined {
    return this.events[0];
  }

  get firstBehindBackup(): QueuedEvent | undefined {
    return this.hasBehindBackup ? this.events.find(({ isBehindBackup }) => isBehindBackup) : undefined;
  }

  push(event: QueuedEvent): void {
    this.insert(event, this.events.length);
  }

  /** Inserts it after all earlier events. It searches from the end, because most come back in order. */
  putBack(event: QueuedEvent): void {
    const order = orderOf(event.event.eventId);
    const before = this.events.findLastIndex((one) => orderOf(one.event.eventId) <= order);
    this.insert(event, before + 1);
  }

  /** As many as fit into a send. */
  takeBatch(limits: BatchLimits): QueuedEvent[] {
    const count = this.count && countForBatch(this.events, limits);
    return this.taken(this.events.splice(0, count));
  }

  take(isWanted: (event: QueuedEvent) => boolean): QueuedEvent[] {
    const wanted = this.events.filter(isWanted);
    this.events = this.events.filter((event) => !isWanted(event));
    return this.taken(wanted);
  }

  freeAll(free: (event: QueuedEvent) => void): void {
    for (const event of this.events) if (event.isBehindBackup) free(event);
    this.behindBackupCount = 0;
  }

  private insert(event: QueuedEvent, at: number): void {
    this.events.splice(at, 0, event);
    this.bytes += event.bytes;
    if (event.isBehindBackup) this.behindBackupCount++;
  }

  private taken(events: QueuedEvent[]): QueuedEvent[] {
    for (const { bytes, isBehindBackup } of events) {
      this.bytes -= bytes;
      if (isBehindBackup) this.behindBackupCount--;
    }
    return events;
  }
}

interface PartitionQueueOptions {
  readonly topic: string;
  /** `undefined`: the client chooses. */
  readonly partition: number | undefined;
  readonly batch: BatchSettings;
  readonly sender: BatchSender;
  readonly outcomes: Pick<EventOutcomes, 'settle' | 'free'>;
  /** Shared by all partitions of the topic. */
  readonly stagger: SendStagger;
  readonly partitioner: Pick<ReturnType<typeof createPartitioner>, 'batchTaken'>;
  /** The topic has refused a batch for good, and so all events that wait here. */
  readonly onTopicRefused: (failure: SendFailure) => void;
  readonly onIdle: () => void;
  /** False: its events may belong elsewhere, until `placed`. */
  readonly mayStart: () => boolean;
  /** The topic's number of partitions may have changed. */
  readonly onDoubt: (failure: SendFailure) => void;
  /** The topic was created again since the last batch. */
  readonly onRecreated: () => void;
  /** A send has ended, and its result was handled. */
  readonly onSent: () => void;
}

type PartitionQueue = ReturnType<typeof createPartitionQueue>;

/**
 * - `idle` waits for an event. Next: `lingering`; `leaving` after a pause, or if callers wait and its linger time is over; `waiting
 *   for a slot` if the batch is full or svc ends.
 * - `lingering` waits for more events (`lingerFor`) and its stagger. Next: `leaving` if the batch is worth a send; `waiting for a
 *   slot` if it is full or due, or on `flush`.
 * - `leaving` waits for the end of this turn of the event loop. Next: `waiting for a slot`.
 * - `waiting for a slot` (`SendSlots`). Next: `sending`; `unplaced` if its topic may have another number of partitions now;
 *   `throttled` by a quota. Without events: as from `idle`.
 * - `unplaced` waits for the number of partitions. Next: as from `idle`.
 * - `throttled` waits for the end of the broker's throttling. Next: `waiting for a slot`.
 * - `sending` waits for the broker's answer. Next: `pausing` before a retry; else as from `idle`.
 * - `pausing` waits for the retry, or for the cluster's return (`wake`). Next: `waiting for a slot`.
 * - `behind the backup` is the next state, before a slot is requested or used, if its order is not `open`. It waits for the outcome
 *   of earlier events (`orderChanged`). Next: as from `idle` when `open`; `idle` when `behind` and all events spill to the backup. It
 *   stays in this state if the backup is full.
 */
type State =
  | 'idle'
  | 'lingering'
  | 'leaving'
  | 'waiting for a slot'
  | 'unplaced'
  | 'throttled'
  | 'sending'
  | 'pausing'
  | 'behind the backup';

/**
 * The events of one partition, in order, as in `createLane`. Failed batches are sent again before anything else.
 *
 * After a pause, the first event of a partition is sent at the end of this turn of the event loop. Others wait for the send in
 * flight, then until the batch is worth a send or its first event has lingered long enough (`lingerFor`). A steady stream is sent a
 * few milliseconds at a time, because a send costs far more than an event in it. Unless callers wait, small batches of several
 * partitions are staggered.
 */
function createPartitionQueue(options: PartitionQueueOptions) {
  const { topic, partition, batch: settings, sender, outcomes } = options;
  const waiting = new WaitingEvents();
  const gate = createOrderGate({ topic, partition, waiting, sender, outcomes });
  const batches = new UnsentBatches();
  const lane = createLane<QueuedEvent, Batch>({
    slots: sender.slots,
    next,
    send: (batch) => sender.send(topic, partition, batch),
    putFirst: (halves) => batches.putFirst(halves),
    onStored({ events }) {
      for (const event of events) outcomes.settle(event, undefined);
    },
    onFailed,
    onSent(_, result) {
      if (state === 'sending') proceed(false);
      if (!result.ok && doubtsCount(result.failure)) options.onDoubt(result.failure);
      else if (result.ok && result.isRecreated) options.onRecreated();
      options.onSent();
    },
  });
  let state: State = 'idle';
  let cancelTimer = (): void => {};
  let lastSendAtMs = Number.NEGATIVE_INFINITY;
  let lastBatchEvents = 0;
  let isWoken = false;

  const enoughEvents = Math.min(settings.maxEvents, worthwhileEvents);
  const enoughBytes = Math.min(settings.maxBytes, worthwhileBytes);
  const isFull = (): boolean => waiting.count >= settings.maxEvents || waiting.bytes >= settings.maxBytes;
  const isWorthwhile = (): boolean => waiting.count >= enoughEvents || waiting.bytes >= enoughBytes;

  /** The first event without an outcome. */
  function firstOpen(): QueuedEvent | undefined {
    const sent = lane.inFlight?.events.find((event) => !event.isSettled);
    return sent ?? batches.firstOpen ?? waiting.first;
  }

  const isGathering = (): boolean => state === 'lingering' || state === 'leaving';

  /** Chooses the next state; nothing is in flight. */
  function proceed(wasIdle: boolean): void {
    cancelTimer();
    const { first } = waiting;
    const isRetry = batches.firstOpen !== undefined;
    if (!isRetry && first === undefined) {
      state = 'idle';
      options.onIdle();
      return;
    }
    if (!gate.isOpen()) return void hold();
    const nowMs = sender.nowMs();
    const ageMs = first === undefined ? 0 : nowMs - first.acceptedAtMs;
    const lingerMs = lingerFor(lastBatchEvents, settings);
    const isDue = isRetry || isFull() || sender.isClosed;
    // Callers whose events were just stored publish again in this turn: their next events join the batch.
    const isJoined = settings.isAwaited && ageMs >= lingerMs;
    if (isDue || (!wasIdle && isWorthwhile())) {
      askForSlot();
    } else if (isWorthwhile() || isJoined || (wasIdle && nowMs - lastSendAtMs >= lingerMs)) {
      leave();
    } else {
      state = 'lingering';
      if (ageMs >= lingerMs) takeTurn(lingerMs);
      else cancelTimer = onTimeout(() => takeTurn(lingerMs), lingerMs - ageMs);
    }
  }

  function takeTurn(lingerMs: number): void {
    const waitMs = settings.isAwaited ? 0 : options.stagger(sender.nowMs(), lingerMs);
    if (waitMs > 0) cancelTimer = onTimeout(askForSlot, waitMs);
    else askForSlot();
  }

  /** Later events of this turn join the batch, and nothing is sent within the application's call. */
  function leave(): void {
    cancelTimer();
    state = 'leaving';
    const immediate = setImmediate(askForSlot);
    cancelTimer = () => clearImmediate(immediate);
  }

  function askForSlot(): void {
    cancelTimer();
    state = 'waiting for a slot';
    lane.ask();
  }

  function hold(): void {
    cancelTimer();
    state = 'behind the backup';
    spillToBackup();
  }

  function spillToBackup(): void {
    if (gate.state !== 'behind') return;
    batches.end(spilled, outcomes.settle);
    gate.spillToBackup();
    if (waiting.count === 0) resume();
  }

  function next(): Batch | undefined {
    const isBetween = isWoken;
    isWoken = false;
    if (!gate.isOpen()) {
      hold();
      return undefined;
    }
    if (!options.mayStart()) {
      state = 'unplaced';
      return undefined;
    }
    // Events that come meanwhile join the batch.
    const heldMs = sender.heldUntilMs(topic, partition) - sender.nowMs();
    if (heldMs > 0) {
      state = 'throttled';
      cancelTimer = onTimeout(askForSlot, Math.ceil(heldMs));
      return undefined;
    }
    const batch = batches.take() ?? newFromWaiting();
    if (batch === undefined) {
      proceed(false);
      return undefined;
    }
    state = 'sending';
    lastSendAtMs = sender.nowMs();
    return isBetween ? triedBetween(batch) : { ...nextTry(batch), pause: undefined };
  }

  function newFromWaiting(): Batch | undefined {
    if (waiting.count === 0) return undefined;
    const events = waiting.takeBatch(settings);
    lastBatchEvents = events.length;
    options.partitioner.batchTaken(partition);
    return newBatch(events);
  }

  function onFailed(tried: Batch, failure: SendFailure, isSplit: boolean): 'ended' {
    const nowMs = sender.nowMs();
    const leftMs = tried.pause === undefined ? 0 : tried.pause.untilMs - nowMs;
    // An early try that took as long as the wait counts as the next one.
    const batch = tried.pause !== undefined && leftMs <= 0 ? { ...nextTry(tried), pause: undefined } : tried;
    const wait = sender.afterFailure(topic, batch, failure);
    const isBehind = wait !== undefined && gate.state === 'behind';
    const waitMs = isBehind ? undefined : wait;
    if (isSplit) return 'ended';
    if (waitMs === undefined) {
      endBatch(batch, isBehind ? spilled : undefined, outcomes.settle);
      if (faultOf(failure) === 'topic') {
        abandon(failure, false);
        options.onTopicRefused(failure);
      }
    } else if (leftMs > 0) {
      pauseFor(leftMs, batch);
    } else {
      pauseFor(waitMs, { ...batch, pause: { untilMs: nowMs + waitMs, isTried: false } });
      const told = batch.events.find((event) => !event.isSettled);
      told?.retrying({ failure, retry: batch.sends, waitMs, batchEvents: batch.events.length });
      sender.pausing(waitMs);
    }
    return 'ended';
  }

  function pauseFor(waitMs: number, batch: Batch): void {
    batches.putFirst([batch]);
    state = 'pausing';
    cancelTimer = onTimeout(askForSlot, waitMs);
  }

  function wake(): void {
    if (state !== 'pausing' || !batches.isPausing) return;
    isWoken = true;
    askForSlot();
  }

  function resume(): void {
    const isWaiting = isGathering() || state === 'unplaced' || state === 'throttled' || state === 'pausing';
    if (isWaiting || state === 'behind the backup') proceed(false);
  }

  function abandon(reason: SendFailure, alsoInFlight: boolean): void {
    end(reason, alsoInFlight, ({ isBehindBackup }) => alsoInFlight || !isBehindBackup);
    resume();
  }

  function end(reason: SendFailure, alsoInFlight: boolean, isWanted: (event: QueuedEvent) => boolean): void {
    if (alsoInFlight && lane.inFlight !== undefined)
      endBatch({ ...lane.inFlight, maybeStored: true }, reason, outcomes.settle, isWanted);
    batches.end(reason, outcomes.settle, isWanted);
    const told = sender.explain(topic, reason);
    for (const event of waiting.take(isWanted)) outcomes.settle(event, event.isBehindBackup ? spilled : told);
  }

  return {
    push(event: QueuedEvent): void {
      waiting.push(event);
      if (event.isBehindBackup) sender.outside(spillToBackup);
      if (state === 'idle') sender.outside(() => proceed(true));
      else if (isGathering() && isFull()) sender.outside(askForSlot);
      else if (state === 'lingering' && isWorthwhile()) sender.outside(leave);
    },

    spillHeldEvents: gate.spillHeldEvents,
    isBackupFull: (): boolean => gate.isBackupFull,
    tryRoom(): boolean {
      const isTried = gate.tryRoom();
      if (isTried && waiting.count === 0) resume();
      return isTried;
    },
    /** Inserts an event that found the backup full. */
    putBack(event: QueuedEvent): void {
      gate.putBack(event);
      if (state === 'idle') sender.outside(() => proceed(true));
    },
    /** Sends at once what lingers. */
    flush(): void {
      if (isGathering()) askForSlot();
    },

    /** Ends all events past their deadline. Returns the next deadline. */
    expire(nowMs: number, deliveryTimeoutMs: number): number | undefined {
      // Delivery time does not run while the broker throttles; it starts again afterwards.
      const earliestMs = sender.heldUntilMs(topic, partition) + deliveryTimeoutMs;
      const first = firstOpen();
      if (first !== undefined && nowMs < earliestMs) return Math.max(first.deadlineAtMs, earliestMs);
      end(timedOut(deliveryTimeoutMs), true, ({ deadlineAtMs }) => deadlineAtMs <= nowMs);
      return firstOpen()?.deadlineAtMs;
    },

    /** Ends all events that are neither in a send nor behind the backup. `alsoInFlight`: all events. */
    abandon,
    /** The state of the order has changed, or the backup may have space. */
    orderChanged(): void {
      gate.mayHaveRoom();
      spillToBackup();
      if (gate.isOpen() && state === 'behind the backup') proceed(false);
    },
    /** The cluster is back: retries at once. If that fails, the batch waits for the rest of its time. */
    wake,
    get isSending(): boolean {
      return lane.inFlight !== undefined;
    },
    /**
     * Removes its events, in order, because they belong to other partitions. `alsoMaybeStored` false: keeps those that may be
     * stored here.
     */
    takeAll(alsoMaybeStored: boolean): QueuedEvent[] {
      const taken = [...batches.takeEvents(alsoMaybeStored), ...waiting.take(() => true)];
      resume();
      return taken;
    },
    /** The partition of its events is known. */
    placed(): void {
      if (state === 'unplaced') proceed(false);
    },
    isIdle: (): boolean => state === 'idle',
    /** Whether it has unsettled events that are not behind the backup. */
    holds: (): boolean => firstOpen()?.isBehindBackup === false,
    /** The first event behind the backup. */
    firstBehindBackup: (): QueuedEvent | undefined => waiting.firstBehindBackup,
  };
}

function onTimeout(work: () => void, delayMs: number): () => void {
  const timer = setTimeout(work, delayMs);
  return () => clearTimeout(timer);
}

interface BatchSenderOptions {
  readonly broker: Pick<Broker, 'send' | 'heldBack'>;
  readonly maxInFlight: number;
  readonly order: KeyOrder;
  readonly counts: PartitionCounts;
  readonly cluster: ClusterState;
  readonly retry: ReturnType<typeof createRetryPolicy>;
  readonly refusals: ReturnType<typeof createTopicRefusals>;
  readonly onSendFailed: (kind: SendFailureKind) => void;
  readonly onRetried: (eventType: string) => void;
}

export type BatchSender = ReturnType<typeof createBatchSender>;

/** Sends the batches of all partitions of all topics. */
function createBatchSender(options: BatchSenderOptions) {
  const { broker, counts, cluster, retry, onSendFailed, onRetried } = options;
  const { refusals } = options;
  const context = new AsyncResource('svc.queue');
  let isClosed = false;

  return {
    slots: createSendSlots(options.maxInFlight),
    order: options.order,
    /** Batches must not linger. */
    get isClosed() {
      return isClosed;
    },
    /** The cluster is away, as far as is known. */
    get isAway() {
      return cluster.isAway;
    },
    nowMs: clock.monotonic,
    /** Until when the brokers of a partition throttle, on the monotonic clock; `-Infinity`: never did. */
    heldUntilMs: (topic: string, partition: number | undefined) =>
      broker.heldBack?.(topic, partition)?.untilMs ?? Number.NEGATIVE_INFINITY,

    /** Never rejects. */
    async send(topic: string, partition: number | undefined, batch: Batch): Promise<SendResult> {
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
      cluster.ended(result);
      if (result.ok && refusals.taken(topic)) logger.info(`topic "${topic}" takes events again`);
      return result;
    },

    /** Milliseconds until the batch is retried; `undefined`: no retry. Call it once for each failed send. */
    afterFailure(topic: string, batch: Batch, failure: SendFailure): number | undefined {
      onSendFailed(failure.kind);
      if (doubtsCount(failure)) void counts.ask(topic);
      const retryMs = retry.waitMs(batch.sends - 1, failure);
      const isOfTopic = faultOf(failure) === 'topic';
      const isKnown = isOfTopic && refusals.of(topic)?.isFinal === true;
      const waitMs = isKnown ? undefined : retryMs;
      // Without a retry, the next tier logs it.
      if (isOfTopic && refusals.refused(topic, failure, waitMs === undefined) && waitMs !== undefined)
        logger.warn(`events wait for their topic, and will go to the next tier soon: ${failure.message}`, {
          ...{ topic, cause: failure.cause },
        });
      cluster.failed(failure, waitMs === undefined);
      return cluster.isAway ? undefined : waitMs;
    },

    /** For an event that was never sent: why others of its topic were refused. */
    explain: refusals.explain,
    pausing: cluster.pausing,
    /** Runs work for many events outside the context of any call. */
    outside: (work: () => void): void => context.runInAsyncScope(work),
    close() {
      isClosed = true;
    },
  };
}

/** Milliseconds until a batch may leave that has lingered for `lingerMs`. Call it once for each. */
type SendStagger = (nowMs: number, lingerMs: number) => number;

/**
 * Spreads the sends of a topic's partitions evenly over their linger time. All at once would block the application for the sum of
 * their sends, and load all threads of the broker at the same moment.
 */
export function createSendStagger(partitions: { readonly size: number }): SendStagger {
  let nextAtMs = Number.NEGATIVE_INFINITY;
  return (nowMs, lingerMs) => {
    const atMs = Math.max(nowMs, nextAtMs);
    nextAtMs = atMs + lingerMs / partitions.size;
    return atMs - nowMs;
  };
}

/**
 * Chooses partitions of one topic. Events without a key stay on one partition until its batch is sent: one full batch instead of
 * many small ones.
 */
export function createPartitioner(random: () => number = Math.random) {
  let sticky: number | undefined;
  return {
    partitionOf(key: string | null, partitionCount: number): number {
      if (key !== null) return partitionOfKey(key, partitionCount);
      sticky = (sticky ?? Math.floor(random() * partitionCount)) % partitionCount;
      return sticky;
    },
    /** Moves events without a key on to the next partition. */
    batchTaken(partition: number | undefined): void {
      if (partition !== undefined && partition === sticky) sticky++;
    },
  };
}

interface OrderGateOptions {
  readonly topic: string;
  readonly partition: number | undefined;
  readonly waiting: WaitingEvents;
  readonly sender: Pick<BatchSender, 'order' | 'isAway' | 'explain'>;
  readonly outcomes: Pick<EventOutcomes, 'settle' | 'free'>;
}

/** Whether the events of a queue may be sent while earlier ones of their partition are in the backup, or on their way there. */
function createOrderGate(options: OrderGateOptions) {
  const { topic, partition, waiting, sender, outcomes } = options;
  let isBackupFull = false;

  function settle(failure: SendFailure, isWanted: (event: QueuedEvent) => boolean): void {
    for (const event of waiting.take(isWanted)) outcomes.settle(event, failure);
  }

  const gate = {
    get state() {
      return sender.order.isGuarding ? sender.order.stateOf(topic, partition) : 'open';
    },
    /** Events behind the backup are freed; they go to the next tier if the cluster is away. */
    isOpen(): boolean {
      if (gate.state !== 'open') return false;
      if (waiting.hasBehindBackup && sender.isAway)
        settle(sender.explain(topic, breakerOpen), ({ isBehindBackup }) => isBehindBackup);
      if (waiting.hasBehindBackup) waiting.freeAll(outcomes.free);
      return true;
    },
    /** In state `behind`, all events spill to the backup. Events that find it full come back, and wait for `mayHaveRoom`. */
    spillToBackup(): void {
      if (gate.state === 'behind' && !isBackupFull) settle(spilledUnlessFull, () => true);
    },
    /** Memory is full: events behind the backup spill first. False: the backup is full, too. */
    spillHeldEvents(): boolean {
      if (!isBackupFull) settle(spilledUnlessFull, ({ isBehindBackup }) => isBehindBackup);
      return !isBackupFull;
    },
    putBack(event: QueuedEvent): void {
      waiting.putBack(event);
      isBackupFull = true;
    },
    mayHaveRoom(): void {
      isBackupFull = false;
    },
    /** Events found the backup full. Later ones wait behind them. */
    get isBackupFull(): boolean {
      return isBackupFull;
    },
    /** The first waiting event tries the backup again. False: no event to try. */
    tryRoom(): boolean {
      const { first } = waiting;
      if (!isBackupFull || first === undefined || gate.state !== 'behind') return false;
      settle(spilledUnlessFull, (event) => event === first);
      return true;
    },
  };
  return gate;
}

/** Minimum interval between requests for the number of partitions when answers say that the topic was created again. */
const recreatedEveryMs = 1_000;

interface TopicQueueOptions {
  readonly topic: string;
  readonly batch: BatchSettings;
  readonly counts: PartitionCounts;
  readonly sender: BatchSender;
  readonly outcomes: Pick<EventOutcomes, 'settle' | 'free'>;
  /** The queue may be empty: check `isIdle`. */
  readonly onIdle: () => void;
}

type TopicQueue = ReturnType<typeof createTopicQueue>;

/**
 * Finds the partition of each event of one topic, and has a queue for each.
 *
 * While the number of partitions is unknown (the topic is being created, or the cluster is away), events wait here. They are sent
 * one by one, the client chooses the partition, and the number is requested before each.
 *
 * When the number changes, all waiting events are placed again: after the sends in flight have ended, in their order, and before
 * any later event.
 */
export function createTopicQueue(options: TopicQueueOptions) {
  const { topic, batch, counts, sender, outcomes } = options;
  const oneByOne = { ...batch, maxEvents: 1, maxBytes: 1 };
  const partitioner = createPartitioner();
  const partitions = new Map<number | undefined, PartitionQueue>();
  const stagger = createSendStagger(partitions);
  const unplaced = new WaitingEvents();
  const gate = createOrderGate({ topic, partition: undefined, waiting: unplaced, sender, outcomes });
  let isAsking = false;
  /** The number of partitions by which the queues were filled. */
  let placedBy: number | undefined;
  /** A send found no such topic or partition: no send begins until the number is known. */
  let isInDoubt = false;
  /** Waits for the sends in flight, to place the waiting events again. */
  let isMoving = false;
  let wasMissing = false;
  let recreatedAtMs = Number.NEGATIVE_INFINITY;

  function queueOf(partition: number | undefined): PartitionQueue {
    let queue = partitions.get(partition);
    if (queue === undefined) {
      queue = createPartitionQueue({
        topic,
        partition,
        batch: partition === undefined ? oneByOne : batch,
        sender,
        outcomes,
        stagger,
        partitioner,
        // A refusal of one partition says nothing about the others.
        onTopicRefused: (failure) => partition === undefined && settle(unplaced.take(isFree), failure),
        onIdle: () => left(partition),
        mayStart: () => !isInDoubt && !isMoving,
        onDoubt: ({ cause, isRecreated }) =>
          void doubt(isRecreated === true || passingOf(cause) === 'unknown'),
        onRecreated,
        onSent: () => isMoving && move(),
      });
      partitions.set(partition, queue);
    }
    return queue;
  }

  function left(partition: number | undefined): void {
    if (partition === undefined && unplaced.count > 0) void place();
    else options.onIdle();
  }

  const queueFor = ({ event: { key } }: QueuedEvent, count: number | undefined): PartitionQueue =>
    queueOf(count === undefined ? undefined : partitioner.partitionOf(key, count));

  /** Reported by one batch of each partition, or by every batch if the broker has wrong offsets. */
  function onRecreated(): void {
    const nowMs = sender.nowMs();
    if (nowMs - recreatedAtMs < recreatedEveryMs) return;
    recreatedAtMs = nowMs;
    void doubt(true);
  }

  async function doubt(isMissing: boolean): Promise<void> {
    wasMissing ||= isMissing;
    if (isInDoubt) return;
    isInDoubt = true;
    const count = await counts.ask(topic);
    isInDoubt = false;
    notice(count);
    if (count !== undefined && !isMoving) wasMissing = false;
    if (!isMoving) for (const queue of partitions.values()) queue.placed();
  }

  /** Handles the current number of partitions, if known. */
  function notice(count: number | undefined): void {
    if (count === undefined || isMoving) return;
    const isOther = placedBy !== undefined && count !== placedBy;
    if (!isOther) placedBy = count;
    else {
      isMoving = true;
      move();
    }
  }

  function move(): void {
    if ([...partitions.values()].some((queue) => queue.isSending)) return;
    const count = counts.known(topic) ?? placedBy;
    // Only a recreated topic cannot contain events that may be stored.
    const isRecreated = wasMissing || (count ?? 0) < (placedBy ?? 0);
    const first = [...partitions.values()].flatMap((queue) => queue.takeAll(isRecreated));
    const later = isAsking ? [] : unplaced.take(() => true);
    placedBy = count;
    for (const event of [...first, ...later]) queueFor(event, count).push(event);
    isMoving = false;
    wasMissing = false;
    for (const queue of [...partitions.values()]) queue.placed();
    if (isIdle()) options.onIdle();
  }

  async function place(): Promise<void> {
    isAsking = true;
    const count = await counts.ask(topic);
    isAsking = false;
    notice(count);
    // `move` places these events as well.
    if (isMoving) return;
    // Events that have come back meanwhile go first.
    if (partitions.get(undefined)?.isIdle() === false) return;
    const placed = count === undefined ? unplaced.takeBatch(oneByOne) : unplaced.take(() => true);
    for (const event of placed) queueFor(event, count).push(event);
    // All of them may have ended during the request.
    if (isIdle()) options.onIdle();
  }

  /** The queues in which its events may be. */
  const queuesOf = (partition: number | undefined): (PartitionQueue | undefined)[] =>
    partition === undefined
      ? [...partitions.values()]
      : [partitions.get(partition), partitions.get(undefined)];

  const isPlacing = (): boolean =>
    isMoving || isAsking || unplaced.count > 0 || partitions.get(undefined)?.isIdle() === false;

  const isIdle = (): boolean => !isPlacing() && [...partitions.values()].every((queue) => queue.isIdle());

  return {
    push(event: QueuedEvent) {
      const count = counts.known(topic);
      notice(count);
      const isWaiting = isPlacing();
      if (count !== undefined && !isWaiting) return queueFor(event, count).push(event);
      unplaced.push(event);
      // Earlier events found the backup full.
      if (![...partitions.values()].some((queue) => queue.isBackupFull())) gate.spillToBackup();
      if (isIdle()) options.onIdle();
      else if (!isWaiting) sender.outside(() => void place());
    },

    putBack(event: QueuedEvent): void {
      const isBehind = unplaced.first !== undefined && timeOf(unplaced.first) < timeOf(event);
      (isBehind ? gate : queueFor(event, counts.known(topic))).putBack(event);
    },

    /** For an event of this key. */
    spillHeldEvents(key: string): boolean {
      const count = counts.known(topic);
      const partition = count === undefined ? undefined : partitioner.partitionOf(key, count);
      const isFull = queuesOf(partition).some((queue) => queue?.spillHeldEvents() === false);
      return gate.spillHeldEvents() && !isFull;
    },

    isBackupFull: (): boolean =>
      gate.isBackupFull || [...partitions.values()].some((queue) => queue.isBackupFull()),

    tryRoom: (): boolean => [...partitions.values()].some((queue) => queue.tryRoom()) || gate.tryRoom(),

    flush(): void {
      for (const queue of partitions.values()) queue.flush();
    },

    expire(nowMs: number, deliveryTimeoutMs: number): number | undefined {
      const deadlines = [...partitions.values()].map((queue) => queue.expire(nowMs, deliveryTimeoutMs));
      const late = sender.explain(topic, timedOut(deliveryTimeoutMs));
      const heldMs = sender.heldUntilMs(topic, undefined) + deliveryTimeoutMs;
      if (unplaced.first !== undefined && nowMs < heldMs) return earliest([...deadlines, heldMs]);
      settle(
        unplaced.take(({ deadlineAtMs }) => deadlineAtMs <= nowMs),
        late,
      );
      return earliest([...deadlines, unplaced.first?.deadlineAtMs]);
    },

    abandon,

    wake(): void {
      for (const queue of partitions.values()) queue.wake();
    },

    /** `undefined`: any partition. */
    orderChanged(partition: number | undefined): void {
      for (const queue of queuesOf(partition)) queue?.orderChanged();
      gate.mayHaveRoom();
      gate.spillToBackup();
      gate.isOpen();
    },

    /** `undefined`: any partition. */
    holds(partition: number | undefined): boolean {
      return (
        unplaced.first?.isBehindBackup === false ||
        queuesOf(partition).some((queue) => queue?.holds() === true)
      );
    },

    /** Position in time of the first event behind the backup in this partition; `undefined`: in any. */
    firstBehindBackup(partition: number | undefined): bigint | undefined {
      const first = [
        ...queuesOf(partition).map((queue) => queue?.firstBehindBackup()),
        unplaced.firstBehindBackup,
      ];
      return earliest(first.map((one) => one && timeOf(one)));
    },

    isIdle,
  };

  function settle(events: readonly QueuedEvent[], reason: SendFailure): void {
    for (const event of events) outcomes.settle(event, event.isBehindBackup ? spilled : reason);
  }

  function abandon(reason: SendFailure, alsoInFlight: boolean): void {
    // Unplaced events are the latest ones.
    const last = unplaced.take((event) => alsoInFlight || isFree(event));
    for (const queue of partitions.values()) queue.abandon(reason, alsoInFlight);
    settle(last, sender.explain(topic, reason));
  }
}

const timeOf = ({ event: { eventId } }: QueuedEvent): bigint => orderOf(eventId);

const isFree = ({ isBehindBackup }: QueuedEvent): boolean => !isBehindBackup;

function earliest<Time extends number | bigint>(times: readonly (Time | undefined)[]): Time | undefined {
  return times.reduce(
    (first, time) => (time === undefined || (first !== undefined && first < time) ? first : time),
    undefined,
  );
}

// An event from admission to outcome.

/** A failed send that is retried. Its result is in `next`. */
interface EventRetry {
  readonly failure: SendFailure;
  /** Number of the retry, from 1. */
  readonly retry: number;
  readonly waitMs: number;
  /** Events in the same send. */
  readonly batchEvents: number;
  readonly event: QueuedEvent;
  readonly next: Promise<EventUpdate>;
}

/** The event leaves the queue for the next tier. */
interface Leave {
  readonly failed: FailedEvent;
  readonly event: QueuedEvent;
}

/** Update for the caller's side: published (`undefined`), not published, or a retry before either. */
type EventUpdate = undefined | Leave | { readonly notice: EventRetry };

interface Admitted {
  /** On the monotonic clock. */
  readonly atMs: number;
  /** `Infinity`: it is behind the backup. */
  readonly deliveryTimeoutMs: number;
  readonly isProbe: boolean;
}

/**
 * One event in memory. Its caller's side awaits `signal`. So all work for the event runs in the AsyncLocalStorage context of its
 * call, and no context is stored per event.
 */
export class QueuedEvent {
  readonly event: SerializedEvent;
  readonly topic: string;
  readonly bytes: number;
  /** It tests the cluster for the breaker. */
  readonly isProbe: boolean;
  /** Both on the monotonic clock. */
  acceptedAtMs: number;
  deadlineAtMs: number;
  signal: Promise<EventUpdate>;
  record: BrokerRecord | undefined;
  attempts = 0;
  private resolve!: (signal: EventUpdate) => void;
  private settled = false;

  constructor(event: SerializedEvent, topic: string, bytes: number, admitted: Admitted) {
    this.event = event;
    this.topic = topic;
    this.bytes = bytes;
    this.isProbe = admitted.isProbe;
    this.acceptedAtMs = admitted.atMs;
    this.deadlineAtMs = admitted.atMs + admitted.deliveryTimeoutMs;
    this.signal = this.nextUpdate();
  }

  get isSettled(): boolean {
    return this.settled;
  }

  /** Waits because earlier events of its partition are in the backup or on their way there. Its delivery time has not begun. */
  get isBehindBackup(): boolean {
    return this.deadlineAtMs === Number.POSITIVE_INFINITY;
  }

  /** It may be sent: its delivery time begins. */
  free(nowMs: number, deliveryTimeoutMs: number): void {
    this.acceptedAtMs = nowMs;
    this.deadlineAtMs = nowMs + deliveryTimeoutMs;
  }

  /** The backup was full: it waits again. */
  comeBack(): void {
    this.deadlineAtMs = Number.POSITIVE_INFINITY;
    this.settled = false;
    // A record whose value was read has its own buffer. It is made again later.
    this.record = undefined;
    this.signal = this.nextUpdate();
  }

  /** The first end counts. */
  published(): void {
    this.settle(undefined);
  }

  failed(failed: FailedEvent): void {
    this.settle({ failed, event: this });
  }

  /** Later updates are dropped. */
  silenced(): void {
    this.settled = true;
  }

  /** Requires `record`. */
  toFailed(failure: SendFailure): FailedEvent {
    const { event, topic, attempts, deadlineAtMs } = this;
    return { event, topic, attempts, failure, record: this.record as BrokerRecord, deadlineAtMs };
  }

  retrying(notice: Omit<EventRetry, 'event' | 'next'>): void {
    if (this.settled) return;
    const { resolve } = this;
    resolve({ notice: { ...notice, event: this, next: this.nextUpdate() } });
  }

  private settle(signal: EventUpdate): void {
    if (this.settled) return;
    this.settled = true;
    this.resolve(signal);
  }

  private nextUpdate(): Promise<EventUpdate> {
    return new Promise((resolve) => {
      this.resolve = resolve;
    });
  }
}

interface EventOutcomesOptions {
  readonly admission: Pick<Admission, 'release' | 'free'>;
  readonly next: QueueOptions['next'];
  readonly order: Pick<KeyOrder, 'leaving' | 'decided'>;
  readonly onPublished: () => void;
  /** Puts an event that found the backup full back into its queue. False: no space; the event is lost. */
  readonly putBack: (queued: QueuedEvent) => boolean;
  /** The backup has stored an event. */
  readonly onStored: () => void;
  readonly onLost: (event: SerializedEvent, topic: string, failure: SendFailure) => void;
}

type EventOutcomes = ReturnType<typeof createEventOutcomes>;

/** From the end of an event in the queue to its outcome: published, or the tier that stored it. */
function createEventOutcomes(options: EventOutcomesOptions) {
  const { admission, next, order, onPublished } = options;
  const onTheirWay = new Set<FailedEvent>();
  let takenOver: FailedEvent[] | undefined;
  /** In the queue, or with the next tier. */
  let pending = 0;
  const onIdle: (() => void)[] = [];

  function end(): void {
    if (--pending === 0) for (const resolve of onIdle.splice(0)) resolve();
  }

  /** One function for all events, because a closure per event is most of the cost here. */
  function follow(signal: EventUpdate): Outcome | Promise<Outcome> {
    if (signal === undefined) {
      onPublished();
      end();
      return 'published';
    }
    if ('failed' in signal) {
      const { failed, event } = signal;
      return onTheirWay.delete(failed) ? toNextTier(failed, event) : new Promise(() => {});
    }
    sayRetry(signal.notice);
    return signal.notice.next.then(follow);
  }

  async function toNextTier(failed: FailedEvent, queued?: QueuedEvent): Promise<Outcome> {
    let outcome: Outcome = 'lost';
    try {
      outcome = await next(failed);
    } catch (error) {
      logger.error('a tier violated its contract', { error: nameOf(error) });
    }
    const isUndecided = outcome === 'lost' && failed.failure.endedBy === 'behind-unless-full';
    // It must wait again before later events can arrive.
    const isBack = isUndecided && queued !== undefined && options.putBack(queued);
    order.decided(failed);
    if (isBack) return queued.signal.then(follow);
    if (outcome === 'backup') options.onStored();
    if (isUndecided) options.onLost(failed.event, failed.topic, failed.failure);
    end();
    return outcome;
  }

  /** Runs in the context of the event that it names. */
  function sayRetry({ failure, retry: number, waitMs, batchEvents, event: queued }: EventRetry): void {
    const { event, topic } = queued;
    const fields = { eventId: event.eventId, topic, cause: failure.cause, events: batchEvents };
    logger.debug(`send failed, retry ${number} in ${Math.round(waitMs)} ms: ${failure.message}`, fields);
  }

  function fail(queued: QueuedEvent, failure: SendFailure): void {
    queued.record ??= toRecord(queued.event, clock.now());
    const failed = queued.toFailed(failure);
    if (takenOver === undefined) {
      onTheirWay.add(failed);
      order.leaving(failed);
      queued.failed(failed);
    } else {
      queued.silenced();
      takenOver.push(failed);
    }
  }

  return {
    /** Resolves with where the event ended; never rejects. Its work runs in the AsyncLocalStorage context of its call. */
    outcomeOf(queued: QueuedEvent): Promise<Outcome> {
      pending++;
      return queued.signal.then(follow);
    },
    /** The same for an event that was not admitted. */
    outcomeOfRefused(failed: FailedEvent): Promise<Outcome> {
      pending++;
      order.leaving(failed);
      return toNextTier(failed);
    },
    /** An event behind the backup may be sent. */
    free: admission.free,
    /** Ends an event in the queue: published, or failed and passed to the next tier. The first end counts. */
    settle(queued: QueuedEvent, failure: SendFailure | undefined): void {
      if (queued.isSettled) return;
      if (failure === undefined) queued.published();
      else fail(queued, failure);
      admission.release(queued);
    },
    /** Resolves when each event so far has its outcome. */
    idle: (): Promise<void> =>
      pending === 0 ? Promise.resolve() : new Promise((resolve) => onIdle.push(resolve)),
    /**
     * For the end of the process, when promises no longer resolve. Returns the failed events that the next tier has not received
     * yet. Events that fail later are appended to it.
     */
    takeOver(): readonly FailedEvent[] {
      takenOver = [...onTheirWay];
      onTheirWay.clear();
      return takenOver;
    },
  };
}

/** The failure of an event that spills to the backup because earlier events of its partition are there. */
const spilled: SendFailure = {
  kind: 'retriable',
  cause: 'BehindBackup',
  message: 'earlier events of its partition wait in the backup',
  endedBy: 'behind',
};

/** The same for an event that returns to its queue if no tier has space for it. */
const spilledUnlessFull: SendFailure = { ...spilled, endedBy: 'behind-unless-full' };

/** No order between backup and queue: `svc.broker.backup.drain.order: none`, or no drain. */
const noOrder: KeyOrder = {
  isGuarding: false,
  stateOf: () => 'open',
  stateOfKey: () => 'open',
  leaving() {},
  decided() {},
  attach() {},
};

const shutDown: SendFailure = {
  kind: 'retriable',
  cause: 'Shutdown',
  message: 'svc had to stop before the event was acknowledged',
  endedBy: 'shutdown',
};

interface AdmissionOptions {
  readonly buffer: MemoryLimits;
  /** For events behind the backup, over all topics; others have their own limits. Default: 5,000 events, 16 MiB. */
  readonly behindBackup?: MemoryLimits | undefined;
  readonly deliveryTimeoutMs: number;
  readonly cluster: Pick<ClusterState, 'admit' | 'probeGone' | 'isAway'>;
  /** The probe has ended, and the cluster is still away. */
  readonly onProbeFailed: () => void;
  /** The first event to send, after none. */
  readonly onFirst: () => void;
}

const never = Number.POSITIVE_INFINITY;
const usualBehindBackup: MemoryLimits = { maxEvents: 5_000, maxBytes: 16 * 1024 * 1024 };

type Admission = ReturnType<typeof createAdmission>;

/** Admits or refuses events, by memory and the state of the cluster. */
export function createAdmission(options: AdmissionOptions) {
  const { deliveryTimeoutMs, cluster, onProbeFailed, onFirst } = options;
  const memory = createMemory(options.buffer);
  const behindBackup = createMemory(options.behindBackup ?? usualBehindBackup);
  const warnFull = throttledLog({ level: 'warn', saysLeftOut: false });
  /** The event that tests the cluster now. */
  let probe: QueuedEvent | undefined;

  /** It must not overtake the probe, which has the same key. */
  function isBehindProbe({ key }: SerializedEvent, topic: string): boolean {
    return probe !== undefined && probe.event.key === key && probe.topic === topic;
  }

  function afterProbe(): void {
    probe = undefined;
    if (cluster.isAway) onProbeFailed();
  }

  function bufferFull(): SendFailure {
    const { maxEvents, maxBytes } = options.buffer;
    const message = `${memory.events} events of ${memory.bytes} bytes are in memory (at most ${maxEvents} events of ${maxBytes} bytes: svc.broker.buffer)`;
    warnFull('', `events go to the next tier, because ${message}`);
    return { kind: 'retriable', cause: 'BufferFull', message };
  }

  return {
    /** Without events behind the backup. */
    memory,
    /** Admits the event, or returns why not. `isHeld`: the cluster's state counts when it may be sent. */
    admit(event: SerializedEvent, topic: string, isBehindBackup: boolean): QueuedEvent | SendFailure {
      const bytes = bytesOf(event);
      const atMs = clock.monotonic();
      if (isBehindBackup && !behindBackup.reserve(bytes)) return spilled;
      if (isBehindBackup)
        return new QueuedEvent(event, topic, bytes, { atMs, deliveryTimeoutMs: never, isProbe: false });
      // Memory first: a probe that does not fit would leave the breaker HALF-OPEN.
      if (!memory.reserve(bytes)) return bufferFull();
      const admission = cluster.admit();
      if (admission === 'refused' && !isBehindProbe(event, topic)) {
        memory.release(bytes);
        return breakerOpen;
      }
      const isProbe = admission === 'probe';
      const queued = new QueuedEvent(event, topic, bytes, { atMs, deliveryTimeoutMs, isProbe });
      if (isProbe) probe = queued;
      if (memory.events === 1) onFirst();
      return queued;
    },
    /** An event behind the backup may be sent. */
    free(queued: QueuedEvent): void {
      behindBackup.release(queued.bytes);
      memory.reserveAnyway(queued.bytes);
      queued.free(clock.monotonic(), deliveryTimeoutMs);
      if (memory.events === 1) onFirst();
    },
    /** Admits an event behind the backup that found it full. False: no space here, either. */
    takeBack(queued: QueuedEvent): boolean {
      const hasSpace = behindBackup.reserve(queued.bytes);
      if (hasSpace) queued.comeBack();
      return hasSpace;
    },
    /** Called once for each admitted event, when it ends. */
    release(queued: QueuedEvent): void {
      (queued.isBehindBackup ? behindBackup : memory).release(queued.bytes);
      if (queued.isProbe) cluster.probeGone();
      // Settle the whole batch first, then the events that wait behind the probe.
      if (queued === probe) void Promise.resolve().then(afterProbe);
    },
  };
}

/** Promises and closures of an event on its way through the tiers, beside its bytes (measured: 9 KB; 3 KB while it waits). */
const bytesOnTheWay = 8 * 1024;

/**
 * Counts what one turn of the event loop sends to the next tiers. None of that can end before the turn does.
 *
 * @param maxBytes called in each turn that adds something; default: an eighth of the heap limit
 */
export function createTickBudget(
  maxBytes: () => number = () => process.getBuiltinModule('node:v8').getHeapStatistics().heap_size_limit / 8,
) {
  let bytes = 0;
  let limit = 0;
  return {
    add(size: number): void {
      if (bytes === 0) {
        limit = maxBytes();
        setImmediate(() => {
          bytes = 0;
        });
      }
      bytes += size + bytesOnTheWay;
    },
    /** From the event that exceeds the budget until the end of the turn. */
    get isFull(): boolean {
      return bytes > limit;
    },
  };
}

/** The record of an event that is sent or stored now: `publishedAt` and the record's timestamp are equal. */
export function toRecord(event: SerializedEvent, nowMs: number): BrokerRecord {
  return new EventRecord(event, nowMs);
}

function headersAt({ headers, value: { form } }: SerializedEvent, nowMs: number): SerializedEvent['headers'] {
  const { publishedAtHeader: name } = form;
  return name === undefined ? headers : { ...headers, [name]: form.publishedAt(nowMs) };
}

function bytesAt(value: EventValue, publishedAt: string): Buffer {
  const bytes = Buffer.allocUnsafe(value.length + publishedAt.length);
  value.write(bytes, 0, publishedAt);
  return bytes;
}

/** The value gets its own buffer only when read. A client that writes many records copies the bytes to their destination. */
class EventRecord implements BrokerRecord {
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timestamp: number;
  private readonly source: EventValue;
  private readonly publishedAt: string;
  private bytes: Buffer | undefined = undefined;

  constructor(event: SerializedEvent, nowMs: number) {
    this.key = event.key;
    this.headers = headersAt(event, nowMs);
    this.timestamp = nowMs;
    this.source = event.value;
    this.publishedAt = publishedAtIn(event.value.form, nowMs);
  }

  get valueBytes(): number {
    return this.source.length + this.publishedAt.length;
  }

  get value(): Buffer {
    this.bytes ??= bytesAt(this.source, this.publishedAt);
    return this.bytes;
  }

  writeValue(to: Buffer, start: number): void {
    this.source.write(to, start, this.publishedAt);
  }
}

let lastForm: EventForm | undefined;
let lastMs = Number.NaN;
let lastText = '';

/** The text between the two parts of a value. It is the same for all records of a batch. */
function publishedAtIn(form: EventForm, nowMs: number): string {
  if (form.publishedAtHeader !== undefined) return '';
  if (form !== lastForm || nowMs !== lastMs) {
    lastText = form.publishedAt(nowMs);
    lastForm = form;
    lastMs = nowMs;
  }
  return lastText;
}

const publishedAtBytes = 24;
/** Upper bound of a record's lengths, offsets and timestamp. */
const recordBytes = 40;
/** Upper bound of a header's lengths. */
const headerBytes = 6;

/** Size in bytes of the event's record, a few bytes too high. */
export function bytesOf({ value, key, headers }: SerializedEvent): number {
  let bytes = recordBytes + publishedAtBytes + utf8Length(key) + value.length;
  const { publishedAtHeader } = value.form;
  if (publishedAtHeader !== undefined) bytes += headerBytes + publishedAtHeader.length;
  for (const name of Object.keys(headers)) {
    bytes += headerBytes + utf8Length(name) + utf8Length(headers[name] as string);
  }
  return bytes;
}

/** Keys and headers are short and mostly ASCII: a loop is faster than a call of Node. */
function utf8Length(text: string): number {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return Buffer.byteLength(text);
  return text.length;
}
