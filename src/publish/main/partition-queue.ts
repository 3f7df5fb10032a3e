import type { SendFailure } from '../broker.ts';
import { countForBatch } from '../cut-batches.ts';
import { faultOf } from '../fault.ts';
import { behindBackup, type OrderState } from '../order/key-order.ts';
import {
  type Batch,
  type BatchSettings,
  finalFailure,
  lingerFor,
  newBatch,
  nextTry,
  splitBatch,
  triedBetween,
  unsettled,
  withFailure,
  worthwhileBytes,
  worthwhileEvents,
} from './batch.ts';
import type { BatchSender } from './batch-sender.ts';
import type { EventOutcomes } from './event-outcomes.ts';
import { timedOut } from './failures.ts';
import type { PartitionTurns } from './partition-turns.ts';
import type { Partitioner } from './partitioner.ts';
import type { QueuedEvent } from './queued-event.ts';

export interface PartitionQueueOptions {
  readonly topic: string;
  /** `undefined`: the client chooses. */
  readonly partition: number | undefined;
  readonly batch: BatchSettings;
  readonly sender: BatchSender;
  readonly outcomes: Pick<EventOutcomes, 'settle'>;
  /** Both are of the topic, and hear of the batches of all its partitions. */
  readonly turns: PartitionTurns;
  readonly partitioner: Pick<Partitioner, 'batchTaken'>;
  /** The topic has refused a batch for good, and with it all that wait here. */
  readonly onTopicRefused: (failure: SendFailure) => void;
  readonly onIdle: () => void;
}

/**
 * The events of one partition, in their order: one send at a time, and what failed is sent again before anything else.
 * - The first event of a partition that has rested for a while goes at the end of this turn of the event loop. Others
 *   wait for the send under way, then until the batch is worth a send or its first event has waited long enough (`lingerFor`):
 *   a steady stream is sent a few milliseconds at a time, for a send costs far more than an event in it. Where nobody waits
 *   for them, small batches of several partitions leave one after the other.
 * - A batch that is too large, or holds what is no record, is halved; a single event that is either fails.
 */
export interface PartitionQueue {
  push(event: QueuedEvent): void;
  /** Sends what is waiting for company. */
  flush(): void;
  /** Ends all events past their deadline. Returns the next deadline. */
  expire(nowMs: number, deliveryTimeoutMs: number): number | undefined;
  /** Ends all events that are not in a send, or all of them. */
  abandon(reason: SendFailure, alsoInFlight: boolean): void;
  isIdle(): boolean;
  /** Whether events without an outcome are here. */
  holds(): boolean;
  /** The cluster is back: what waits for its retry is tried at once. Where that fails, it waits on as before. */
  wake(): void;
  /** Others of this partition have left for the backup, or what became of them is known: looks what that means here. */
  heed(): void;
}

/**
 * | It is | and waits for | then it is |
 * |---|---|---|
 * | idle | an event | lingering; leaving, where it has rested; waiting for a slot, where the batch is full or svc ends |
 * | lingering | company for its first event, `lingerFor`, and the turn of this partition | leaving: the batch is worth a send; waiting for a slot: the time is over, the batch full, or `flush` |
 * | leaving | the end of this turn of the event loop | waiting for a slot |
 * | waiting for a slot | one of the sends at once (`SendSlots`) | sending; held, where its order is not `open`; else as from idle, where nothing is left to send |
 * | sending | the answer of the broker | pausing, where it failed and is tried again; else as from idle |
 * | pausing | the retry, or the cluster's return (`wake`) | waiting for a slot |
 * | held | what becomes of earlier events (`heed`) | waiting for a slot: `open`; idle: `behind`, and all go to the backup |
 */
type State = 'idle' | 'lingering' | 'leaving' | 'waiting for a slot' | 'sending' | 'pausing' | 'held';

export function createPartitionQueue(options: PartitionQueueOptions): PartitionQueue {
  const { topic, partition, batch: settings, sender, outcomes } = options;
  let waiting: QueuedEvent[] = [];
  let waitingBytes = 0;
  /** To be sent before what is waiting: retries and halves. */
  const batches: Batch[] = [];
  let inFlight: Batch | undefined;
  let state: State = 'idle';
  let cancelTimer = (): void => {};
  let lastSendAtMs = Number.NEGATIVE_INFINITY;
  let lastBatchEvents = 0;
  let isWoken = false;

  const enoughEvents = Math.min(settings.maxEvents, worthwhileEvents);
  const enoughBytes = Math.min(settings.maxBytes, worthwhileBytes);
  const isFull = (): boolean => waiting.length >= settings.maxEvents || waitingBytes >= settings.maxBytes;
  const isWorthwhile = (): boolean => waiting.length >= enoughEvents || waitingBytes >= enoughBytes;

  /** The first one without an outcome. */
  function firstOpen(): QueuedEvent | undefined {
    const all = [inFlight?.events, ...batches.map(({ events }) => events), waiting];
    const found = all.map((events) => events?.find((event) => !event.isSettled));
    return found.find((event) => event !== undefined);
  }

  const isGathering = (): boolean => state === 'lingering' || state === 'leaving';

  /** Decides what comes next; nothing is in flight. */
  function proceed(wasIdle: boolean): void {
    cancelTimer();
    const first = waiting[0];
    if (batches.length === 0 && first === undefined) {
      state = 'idle';
      options.onIdle();
      return;
    }
    const nowMs = sender.nowMs();
    const ageMs = first === undefined ? 0 : nowMs - first.acceptedAtMs;
    const lingerMs = lingerFor(lastBatchEvents, settings);
    const isDue = batches.length > 0 || isFull() || sender.isClosed;
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
    const waitMs = settings.isAwaited ? 0 : options.turns(sender.nowMs(), lingerMs);
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
    sender.slots.take(start);
  }

  const orderState = (): OrderState =>
    sender.order.isGuarding ? sender.order.stateOf(topic, partition) : 'open';

  function start(): void {
    const isBetween = isWoken;
    isWoken = false;
    if (orderState() !== 'open') {
      sender.slots.give();
      state = 'held';
      heed();
      return;
    }
    const next = nextBatch();
    if (next === undefined) {
      sender.slots.give();
      proceed(false);
      return;
    }
    const batch = isBetween ? triedBetween(next) : nextTry(next);
    state = 'sending';
    lastSendAtMs = sender.nowMs();
    inFlight = batch;
    void sender.send(topic, partition, batch).then((result) => {
      inFlight = undefined;
      sender.slots.give();
      if (result.ok) for (const event of batch.events) outcomes.settle(event, undefined);
      else onFailure(withFailure(batch, result.failure), result.failure);
      if (state === 'sending') proceed(false);
    });
  }

  function nextBatch(): Batch | undefined {
    while (batches.length > 0) {
      const batch = unsettled(batches.shift() as Batch);
      if (batch !== undefined) return batch;
    }
    if (waiting.length === 0) return undefined;
    const events = waiting.splice(
      0,
      countForBatch(waiting, ({ bytes }) => bytes, settings),
    );
    for (const { bytes } of events) waitingBytes -= bytes;
    lastBatchEvents = events.length;
    options.partitioner.batchTaken(partition);
    return newBatch(events);
  }

  function onFailure(tried: Batch, failure: SendFailure): void {
    const nowMs = sender.nowMs();
    const leftMs = tried.pause === undefined ? 0 : tried.pause.untilMs - nowMs;
    // A try in between that took as long as the wait was the next one.
    const batch = tried.pause !== undefined && leftMs <= 0 ? nextTry(tried) : tried;
    const wait = sender.afterFailure(topic, batch, failure);
    const isBehind = wait !== undefined && orderState() === 'behind';
    const waitMs = isBehind ? undefined : wait;
    if (faultOf(failure) === 'record' && batch.events.length > 1) {
      batches.unshift(...splitBatch(batch));
    } else if (waitMs === undefined) {
      const why = finalFailure(batch, isBehind ? behindBackup : undefined);
      for (const event of batch.events) outcomes.settle(event, why);
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
  }

  function pauseFor(waitMs: number, batch: Batch): void {
    batches.unshift(batch);
    state = 'pausing';
    cancelTimer = onTimeout(askForSlot, waitMs);
  }

  function wake(): void {
    if (state !== 'pausing' || batches[0]?.pause?.isTried !== false) return;
    isWoken = true;
    askForSlot();
  }

  function heed(): void {
    const now = orderState();
    if (now === 'behind') abandon(behindBackup, false);
    else if (now === 'open' && state === 'held') askForSlot();
  }

  function abandon(reason: SendFailure, alsoInFlight: boolean): void {
    if (alsoInFlight && inFlight !== undefined) {
      const why = finalFailure({ ...inFlight, maybeStored: true }, reason);
      for (const event of inFlight.events) outcomes.settle(event, why);
    }
    for (const batch of batches.splice(0)) {
      const why = finalFailure(batch, reason);
      for (const event of batch.events) outcomes.settle(event, why);
    }
    const left = waiting;
    waiting = [];
    waitingBytes = 0;
    const told = sender.explain(topic, reason);
    for (const event of left) outcomes.settle(event, told);
    if (isGathering() || state === 'pausing' || state === 'held') proceed(false);
  }

  return {
    push(event) {
      waiting.push(event);
      waitingBytes += event.bytes;
      if (state === 'idle') sender.outside(() => proceed(true));
      else if (isGathering() && isFull()) sender.outside(askForSlot);
      else if (state === 'lingering' && isWorthwhile()) sender.outside(leave);
    },

    flush() {
      if (isGathering()) askForSlot();
    },

    expire(nowMs, deliveryTimeoutMs) {
      const isDue = (event: QueuedEvent): boolean => event.deadlineAtMs <= nowMs;
      for (const batch of [...(inFlight ? [inFlight] : []), ...batches]) {
        const known = batch === inFlight ? { ...batch, maybeStored: true } : batch;
        const why = finalFailure(known, timedOut(deliveryTimeoutMs));
        for (const event of batch.events) if (isDue(event)) outcomes.settle(event, why);
      }
      const firstLater = waiting.findIndex((event) => !isDue(event));
      const due = waiting.splice(0, firstLater < 0 ? waiting.length : firstLater);
      for (const event of due) {
        waitingBytes -= event.bytes;
        outcomes.settle(event, sender.explain(topic, timedOut(deliveryTimeoutMs)));
      }
      return firstOpen()?.deadlineAtMs;
    },

    abandon,
    heed,
    wake,
    isIdle: () => state === 'idle',
    holds: () => firstOpen() !== undefined,
  };
}

function onTimeout(work: () => void, delayMs: number): () => void {
  const timer = setTimeout(work, delayMs);
  return () => clearTimeout(timer);
}
