import { AsyncResource } from 'node:async_hooks';
import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { Broker, SendFailure, SendFailureKind, SendResult } from '../broker.ts';
import { doubtsCount, faultOf } from '../fault.ts';
import { createSendSlots } from '../memory-limits.ts';
import { type KeyOrder, type OrderState, spilled, spilledUnlessFull } from '../order/backup-order.ts';
import { partitionOfKey } from '../partition-of-key.ts';
import { brokenPromise, createLane, newBatch, nextTry } from '../sender/sender.ts';
import {
  type Batch,
  type BatchSettings,
  endBatch,
  lingerFor,
  triedBetween,
  UnsentBatches,
  WaitingEvents,
  worthwhileBytes,
  worthwhileEvents,
} from './batch.ts';
import { type Breaker, breakerOpen, type RetryPolicy } from './breaker.ts';
import type { ClusterWatch } from './cluster-watch.ts';
import { type EventOutcomes, type QueuedEvent, timedOut } from './queued-event.ts';
import { toRecord } from './record.ts';
import type { PartitionCounts, TopicRefusals } from './topic-refusals.ts';

interface PartitionQueueOptions {
  readonly topic: string;
  /** `undefined`: the client chooses. */
  readonly partition: number | undefined;
  readonly batch: BatchSettings;
  readonly sender: BatchSender;
  readonly outcomes: Pick<EventOutcomes, 'settle' | 'free'>;
  /** Both are of the topic, and hear of the batches of all its partitions. */
  readonly stagger: SendStagger;
  readonly partitioner: Pick<ReturnType<typeof createPartitioner>, 'batchTaken'>;
  /** The topic has refused a batch for good, and with it all that wait here. */
  readonly onTopicRefused: (failure: SendFailure) => void;
  readonly onIdle: () => void;
  /** False: its events may belong elsewhere. `moved` says when that is known. */
  readonly mayStart: () => boolean;
  /** The topic may have another number of partitions than it had. */
  readonly onDoubt: (failure: SendFailure) => void;
  /** A batch is in a topic that was made anew. */
  readonly onRecreated: () => void;
  /** A send has ended, and what follows from it was done. */
  readonly onSent: () => void;
}

/**
 * The events of one partition, in their order: what `createLane` promises, and what failed is sent again before anything else.
 * - The first event of a partition that has rested for a while goes at the end of this turn of the event loop. Others
 *   wait for the send under way, then until the batch is worth a send or its first event has waited long enough (`lingerFor`):
 *   a steady stream is sent a few milliseconds at a time, for a send costs far more than an event in it. Where nobody waits
 *   for them, small batches of several partitions leave one after the other.
 */
export interface PartitionQueue {
  push(event: QueuedEvent): void;
  /** As that of its `OrderGate`. */
  spillHeldEvents(): boolean;
  /** An event was to go behind others in the backup, and found it full. It waits here in its place. */
  putBack(event: QueuedEvent): void;
  /** As {@link OrderGate.isBackupFull}. */
  isBackupFull(): boolean;
  /** As {@link OrderGate.tryRoom}. */
  tryRoom(): boolean;
  /** Sends what is waiting for company. */
  flush(): void;
  /** Ends all events past their deadline. Returns the next deadline. */
  expire(nowMs: number, deliveryTimeoutMs: number): number | undefined;
  /** Ends all events that are neither in a send nor held, or all of them. */
  abandon(reason: SendFailure, alsoInFlight: boolean): void;
  isIdle(): boolean;
  /** Whether events without an outcome are here that are not held. */
  holds(): boolean;
  /** The first of those that are. */
  firstHeld(): QueuedEvent | undefined;
  /** The cluster is back: what waits for its retry is tried at once. Where that fails, it waits on as before. */
  wake(): void;
  /** Others of this partition have left for the backup, or what became of them is known, or it may have room: looks what that means here. */
  orderChanged(): void;
  readonly isSending: boolean;
  /** Gives up its events, in their order: they belong to other partitions. `alsoMaybeStored` false: but those that may be stored here. */
  takeAll(alsoMaybeStored: boolean): QueuedEvent[];
  /** Where its events belong is known. */
  placed(): void;
}

/**
 * | It is | and waits for | then it is |
 * |---|---|---|
 * | idle | an event | lingering; leaving, where it has rested; waiting for a slot, where the batch is full or svc ends; held, where its order is not `open` |
 * | lingering | company for its first event, `lingerFor`, and the turn of this partition | leaving: the batch is worth a send; waiting for a slot: the time is over, the batch full, or `flush` |
 * | leaving | the end of this turn of the event loop | waiting for a slot |
 * | waiting for a slot | one of the sends at once (`SendSlots`) | sending; unplaced, where its topic may have another number of partitions now; throttled, where its broker wants nothing now; held, where its order is not `open`; else as from idle, where nothing is left to send |
 * | unplaced | the number of partitions | as from idle |
 * | throttled | the end of what a quota of the broker makes it wait | waiting for a slot |
 * | sending | the answer of the broker | pausing, where it failed and is tried again; else as from idle |
 * | pausing | the retry, or the cluster's return (`wake`) | waiting for a slot |
 * | held | what becomes of earlier events (`orderChanged`) | as from idle: `open`; idle: `behind`, and all go to the backup; held, where that is full |
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
  | 'held';

export function createPartitionQueue(options: PartitionQueueOptions): PartitionQueue {
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

  /** The first one without an outcome. */
  function firstOpen(): QueuedEvent | undefined {
    const sent = lane.inFlight?.events.find((event) => !event.isSettled);
    return sent ?? batches.firstOpen ?? waiting.first;
  }

  const isGathering = (): boolean => state === 'lingering' || state === 'leaving';

  /** Decides what comes next; nothing is in flight. */
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
    if (isDue || (!wasIdle && isWorthwhile())) {
      askForSlot();
    } else if (isWorthwhile() || (wasIdle && nowMs - lastSendAtMs >= lingerMs)) {
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

  /** What comes in this turn comes along, and nothing is sent within the call of the application. */
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
    state = 'held';
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
    // What comes meanwhile comes along.
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
    // A try in between that took as long as the wait was the next one.
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

  /** What it waited for has gone. */
  function resume(): void {
    const isWaiting = isGathering() || state === 'unplaced' || state === 'throttled' || state === 'pausing';
    if (isWaiting || state === 'held') proceed(false);
  }

  function abandon(reason: SendFailure, alsoInFlight: boolean): void {
    end(reason, alsoInFlight, ({ isHeld }) => alsoInFlight || !isHeld);
    resume();
  }

  function end(reason: SendFailure, alsoInFlight: boolean, isWanted: (event: QueuedEvent) => boolean): void {
    if (alsoInFlight && lane.inFlight !== undefined)
      endBatch({ ...lane.inFlight, maybeStored: true }, reason, outcomes.settle, isWanted);
    batches.end(reason, outcomes.settle, isWanted);
    const told = sender.explain(topic, reason);
    for (const event of waiting.take(isWanted)) outcomes.settle(event, event.isHeld ? spilled : told);
  }

  return {
    push(event) {
      waiting.push(event);
      if (event.isHeld) sender.outside(spillToBackup);
      if (state === 'idle') sender.outside(() => proceed(true));
      else if (isGathering() && isFull()) sender.outside(askForSlot);
      else if (state === 'lingering' && isWorthwhile()) sender.outside(leave);
    },

    spillHeldEvents: gate.spillHeldEvents,
    isBackupFull: () => gate.isBackupFull,
    tryRoom() {
      const isTried = gate.tryRoom();
      if (isTried && waiting.count === 0) resume();
      return isTried;
    },
    putBack(event) {
      gate.putBack(event);
      if (state === 'idle') sender.outside(() => proceed(true));
    },
    flush() {
      if (isGathering()) askForSlot();
    },

    expire(nowMs, deliveryTimeoutMs) {
      // While the broker holds events back no time runs, and it begins anew then.
      const earliestMs = sender.heldUntilMs(topic, partition) + deliveryTimeoutMs;
      const first = firstOpen();
      if (first !== undefined && nowMs < earliestMs) return Math.max(first.deadlineAtMs, earliestMs);
      end(timedOut(deliveryTimeoutMs), true, ({ deadlineAtMs }) => deadlineAtMs <= nowMs);
      return firstOpen()?.deadlineAtMs;
    },

    abandon,
    orderChanged() {
      gate.mayHaveRoom();
      spillToBackup();
      if (gate.isOpen() && state === 'held') proceed(false);
    },
    wake,
    get isSending() {
      return lane.inFlight !== undefined;
    },
    takeAll(alsoMaybeStored) {
      const taken = [...batches.takeEvents(alsoMaybeStored), ...waiting.take(() => true)];
      resume();
      return taken;
    },
    placed() {
      if (state === 'unplaced') proceed(false);
    },
    isIdle: () => state === 'idle',
    holds: () => firstOpen()?.isHeld === false,
    firstHeld: () => waiting.firstHeld,
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

export type BatchSender = ReturnType<typeof createBatchSender>;

/** Hands the batches of all partitions of all topics to the broker. */
export function createBatchSender(options: BatchSenderOptions) {
  const { broker, counts, breaker, watch, retry, clock, isolate, onSendFailed, onRetried } = options;
  const { refusals, logger } = options;
  const context = new AsyncResource('svc.queue');
  let storedAtMs = Number.NEGATIVE_INFINITY;
  let lastStoredMs: number | null = null;
  let isClosed = false;

  return {
    slots: createSendSlots(options.maxInFlight),
    /** What must not be sent yet, or not from here. */
    order: options.order,
    /** Nothing may wait for company any more. */
    get isClosed() {
      return isClosed;
    },
    /** The cluster is away, as far as is known. */
    get isAway() {
      return breaker.state !== 'CLOSED';
    },
    nowMs: clock.monotonic,
    /** Until when the brokers of a partition want nothing written, by a quota, on the monotonic clock; `-Infinity`: they never said so. */
    heldUntilMs: (topic: string, partition: number | undefined) =>
      broker.heldBack?.(topic, partition)?.untilMs ?? Number.NEGATIVE_INFINITY,

    /** Hands a batch to the client. Resolves in every case. */
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
      watch.heard(result.ok);
      if (result.ok) {
        storedAtMs = clock.monotonic();
        lastStoredMs = clock.now();
        breaker.answered();
        if (refusals.taken(topic)) logger.info(`topic "${topic}" takes events again`);
      }
      return result;
    },

    /** Milliseconds until the batch is tried again; `undefined`: never. Called once for each failed send. */
    afterFailure(topic: string, batch: Batch, failure: SendFailure): number | undefined {
      onSendFailed(failure.kind);
      if (doubtsCount(failure)) void counts.ask(topic);
      const retryMs = retry.waitMs(batch.sends - 1, failure);
      const isOfTopic = faultOf(failure) === 'topic';
      const isKnown = isOfTopic && refusals.of(topic)?.isFinal === true;
      const waitMs = isKnown ? undefined : retryMs;
      // What is not tried again is said where it goes.
      if (isOfTopic && refusals.refused(topic, failure, waitMs === undefined) && waitMs !== undefined)
        logger.warn(`events wait for their topic, and will go to the next tier soon: ${failure.message}`, {
          ...{ topic, cause: failure.cause },
        });
      breaker.failed(failure, waitMs === undefined);
      return breaker.state === 'CLOSED' ? waitMs : undefined;
    },

    /** For an event that was never sent: why others of its topic were refused. */
    explain: refusals.explain,
    /** A batch waits so long for its retry. */
    pausing: watch.pausing,
    /** Whether the cluster has taken a batch since `atMs`, on the monotonic clock. */
    hasStoredSince: (atMs: number) => storedAtMs >= atMs,
    /** When it has last taken one, as Unix time in milliseconds; `null`: it has taken none. */
    lastStoredMs: () => lastStoredMs,
    /** Runs work outside of the context of any call: it is for many. */
    outside: (work: () => void): void => context.runInAsyncScope(work),
    close() {
      isClosed = true;
    },
  };
}

/** Milliseconds until a batch may leave that waited `lingerMs` for company. Asked once for each. */
type SendStagger = (nowMs: number, lingerMs: number) => number;

/**
 * Lets the partitions of a topic send one after the other, evenly over the time that they wait for company anyway. All at
 * once they would hold up the application for the length of all their sends, and set all threads of the broker to work at
 * the same moment.
 */
export function createSendStagger(partitions: { readonly size: number }): SendStagger {
  let nextAtMs = Number.NEGATIVE_INFINITY;
  return (nowMs, lingerMs) => {
    const atMs = Math.max(nowMs, nextAtMs);
    nextAtMs = atMs + lingerMs / partitions.size;
    return atMs - nowMs;
  };
}

/** Chooses partitions of one topic. Without a key, events stay on one until a batch of it is sent: one full batch instead of many small ones. */
export function createPartitioner(random: () => number = Math.random) {
  let sticky: number | undefined;
  return {
    partitionOf(key: string | null, partitionCount: number): number {
      if (key !== null) return partitionOfKey(key, partitionCount);
      sticky = (sticky ?? Math.floor(random() * partitionCount)) % partitionCount;
      return sticky;
    },
    /** A batch was taken from this partition: events without a key go to another one from now on. */
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

/** Whether the events that wait in a queue may be sent, while earlier ones of their partition are in the backup, or on their way. */
export function createOrderGate(options: OrderGateOptions) {
  const { topic, partition, waiting, sender, outcomes } = options;
  let isBackupFull = false;

  function settle(failure: SendFailure, isWanted: (event: QueuedEvent) => boolean): void {
    for (const event of waiting.take(isWanted)) outcomes.settle(event, failure);
  }

  const gate = {
    get state(): OrderState {
      return sender.order.isGuarding ? sender.order.stateOf(topic, partition) : 'open';
    },
    /** They may. Those that were held are so no more from now on, or go to the next tier where the cluster is away. */
    isOpen(): boolean {
      if (gate.state !== 'open') return false;
      if (waiting.hasHeld && sender.isAway)
        settle(sender.explain(topic, breakerOpen), ({ isHeld }) => isHeld);
      if (waiting.hasHeld) waiting.freeAll(outcomes.free);
      return true;
    },
    /** Where its state is `behind`, they go to the backup, too. Those for which there is no room come back, and wait for `mayHaveRoom`. */
    spillToBackup(): void {
      if (gate.state === 'behind' && !isBackupFull) settle(spilledUnlessFull, () => true);
    },
    /** There is no room in memory for one more: those that are held go to the backup before it. False: they have found it full. */
    spillHeldEvents(): boolean {
      if (!isBackupFull) settle(spilledUnlessFull, ({ isHeld }) => isHeld);
      return !isBackupFull;
    },
    putBack(event: QueuedEvent): void {
      waiting.putBack(event);
      isBackupFull = true;
    },
    mayHaveRoom(): void {
      isBackupFull = false;
    },
    /** Events have found the backup full: what comes later waits behind them. */
    get isBackupFull(): boolean {
      return isBackupFull;
    },
    /** The first of those that wait for room tries the backup again. False: there is none. */
    tryRoom(): boolean {
      const { first } = waiting;
      if (!isBackupFull || first === undefined || gate.state !== 'behind') return false;
      settle(spilledUnlessFull, (event) => event === first);
      return true;
    },
  };
  return gate;
}
