// sender/: the one sender by partition, under the queue, the dead letter topic, recovery and the relay.

import { clock, inTime } from '../../ground/clock.ts';
import {
  type BrokerRecord,
  createSendSlots,
  faultOf,
  nameOf,
  passingOf,
  type SendFailure,
  type SendResult,
} from '../broker.ts';

export interface BatchLimits {
  /** Events in one send. */
  readonly maxEvents: number;
  /** Bytes in one send. A larger event is sent alone. */
  readonly maxBytes: number;
}

/** Events of one partition that are sent, retried and stored together. */
export interface Batch<T> {
  readonly events: readonly T[];
  /** Tries so far, including the one in flight. */
  readonly sends: number;
  /** Of the last try. */
  readonly failure: SendFailure | undefined;
  /** A try had an unknown outcome: the events may be stored already. */
  readonly maybeStored: boolean;
}

export function newBatch<T>(events: readonly T[]): Batch<T> {
  return { events, sends: 0, failure: undefined, maybeStored: false };
}

/** Two halves in order, each with new tries. */
function splitBatch<T>({ events, maybeStored }: Batch<T>): Batch<T>[] {
  const middle = Math.ceil(events.length / 2);
  const halves = [events.slice(0, middle), events.slice(middle)];
  return halves.map((half) => ({ ...newBatch(half), maybeStored }));
}

/** The leader may have stored it and lost its partition before the replicas confirmed. */
const mayBeStored = ({ kind, cause }: SendFailure): boolean =>
  kind === 'unknown_outcome' || passingOf(cause) === 'moved';

/** An adapter that throws violates its port's contract. Its events still get an outcome. */
export function brokenPromise(error: unknown): SendResult {
  const message = 'the broker adapter failed';
  return { ok: false, failure: { kind: 'unknown_outcome', cause: nameOf(error), message } };
}

/**
 * After a failed batch:
 * - `ended`: the lane does nothing more with its events;
 * - `resend`: the same batch is sent again at once, in the same slot;
 * - `rebuild`: its events are sent as a new batch, with new records.
 */
type AfterFailure = 'ended' | 'resend' | 'rebuild';

interface LaneOptions<T, B extends Batch<T>> {
  readonly slots: ReturnType<typeof createSendSlots>;
  /** The batch to send now, with its try counted. `undefined`: nothing to send; the slot goes to another partition. */
  readonly next: () => B | undefined;
  /** Never rejects. */
  readonly send: (batch: B) => Promise<SendResult>;
  /** Puts these batches before all others. */
  readonly putFirst: (batches: readonly Batch<T>[]) => void;
  readonly onStored: (batch: B) => void;
  /** Called once for each failed send. `isSplit`: the batch is sent in halves, whatever this returns. */
  readonly onFailed: (
    batch: B,
    failure: SendFailure,
    isSplit: boolean,
  ) => AfterFailure | Promise<AfterFailure>;
  /** After each send, when its result has been handled. */
  readonly onSent: (batch: B, result: SendResult) => void;
  /** Also splits a batch that may be stored. Default: it stays whole. */
  readonly splitsMaybeStored?: boolean;
}

/**
 * Sends the batches of one partition one at a time, in the order in which `next` gives them.
 * - A batch that is too large, or that holds an invalid record, is sent in halves, down to the event at fault. That event never
 *   counts as a failure of the cluster.
 * - A batch that may be stored keeps its events, because a broker recognizes it by them.
 */
export function createLane<T, B extends Batch<T>>(options: LaneOptions<T, B>) {
  let inFlight: B | undefined;

  function begin(): void {
    const batch = options.next();
    if (batch === undefined) options.slots.release();
    else void send(batch);
  }

  async function send(batch: B): Promise<void> {
    inFlight = batch;
    const result = await options.send(batch);
    inFlight = undefined;
    if (result.ok) options.onStored(batch);
    else {
      const { failure } = result;
      const tried = { ...batch, failure, maybeStored: batch.maybeStored || mayBeStored(failure) };
      const isWhole = tried.maybeStored && options.splitsMaybeStored !== true;
      const isSplit = faultOf(failure) === 'record' && tried.events.length > 1 && !isWhole;
      const answer = options.onFailed(tried, failure, isSplit);
      // A synchronous answer is acted upon at once. Otherwise a second send of this partition could start in between.
      const after = typeof answer === 'string' ? answer : await answer;
      if (isSplit) options.putFirst(splitBatch(tried));
      else if (after === 'resend') return send({ ...tried, sends: tried.sends + 1 });
      else if (after === 'rebuild') options.putFirst([newBatch([...tried.events])]);
    }
    options.slots.release();
    options.onSent(batch, result);
  }

  return {
    /** Sends what `next` gives, as soon as a slot is free. Call it again only after `next` was called or the send has ended. */
    ask: (): void => options.slots.acquire(begin),
    get inFlight(): B | undefined {
      return inFlight;
    },
  };
}

/** One partition of a topic. */
export interface TopicPartition {
  readonly topic: string;
  /** `undefined`: the client chooses, for one record at a time. */
  readonly partition: number | undefined;
  /** Key of topic and partition. */
  readonly key: string;
  /** A send exceeded its time limit and may still write its records. Nothing else is sent to the partition until it ends. */
  readonly isLate: boolean;
}

const keyOf = (topic: string, partition: number | undefined): string => `${topic}\n${partition}`;

interface WaitingPartition<T> extends TopicPartition {
  isLate: boolean;
  waiting: T[];
  /** Parts of split batches, which are sent before `waiting`. */
  pieces: T[][];
  isBusy: boolean;
  /** The records of its last batch. Each try sends the same ones. */
  sent: { readonly events: readonly T[]; readonly records: readonly BrokerRecord[] } | undefined;
  readonly lane: { ask(): void };
}

/** By `TopicPartition.key`: the last batch, if its outcome is unknown. A broker recognizes it if it is sent again unchanged. */
export type UncertainBatches = Map<string, UncertainBatch>;

interface UncertainBatch {
  readonly ids: readonly string[];
  readonly records: readonly BrokerRecord[];
}

/** At most so many partitions are remembered. */
const maxUncertain = 100;

interface SenderOptions<T> {
  /** Sends at once, over all partitions. */
  readonly maxInFlight: number;
  readonly limits: BatchLimits;
  readonly bytesOf: (event: T) => number;
  readonly toRecord: (event: T, nowMs: number) => BrokerRecord;
  /** Time of the records, in milliseconds since the epoch. Default: that of the clock. */
  readonly now?: () => number;
  readonly send: (
    to: TopicPartition,
    records: readonly BrokerRecord[],
    events: readonly T[],
  ) => Promise<SendResult>;
  /** Default: `send` has its own limit. */
  readonly timeLimit?: {
    readonly limitMs: (events: readonly T[]) => number;
    readonly keepsAlive: boolean;
    readonly late: () => SendFailure;
  };
  /**
   * Decides about the next event of a partition. `batch`: the events sent with it. `wait`: it and the events after it wait for the
   * next `pump`. `ended`: it already has its end.
   */
  readonly mayGo: (event: T, to: TopicPartition, batch: ReadonlySet<T>) => 'send' | 'wait' | 'ended';
  /** For events that leave with an unknown outcome and come back. Their batches are found by their ids. */
  readonly uncertain?: { readonly batches: UncertainBatches; readonly idOf: (event: T) => string };
  readonly splitsMaybeStored?: boolean;
  readonly onSend?: (events: readonly T[]) => void;
  readonly onStored: (to: TopicPartition, events: readonly T[]) => void;
  readonly onFailed: (
    to: TopicPartition,
    batch: Batch<T>,
    failure: SendFailure,
    about: { readonly isSplit: boolean; readonly tookMs: number },
  ) => AfterFailure | Promise<AfterFailure>;
  readonly onSent?: () => void;
}

/**
 * Sends events to several partitions at once.
 * - Events of a partition are sent in the order in which they were put, one send at a time. Parts of a split batch go first.
 * - A send takes as much as its limits allow, or one record if the partition is unknown.
 * - A batch that may be stored, and comes back, is sent again with the same records.
 * - A send that outlasts its limit keeps its partition until it ends.
 * - Each event has one end: `onStored`, `onFailed`, `mayGo` or `takeAll`. An error that `send` throws is a failed send.
 */
export function createSender<T>(options: SenderOptions<T>) {
  const { limits, mayGo, uncertain, timeLimit, now = clock.now } = options;
  const slots = createSendSlots(options.maxInFlight);
  const partitions = new Map<string, WaitingPartition<T>>();
  const onIdle: (() => void)[] = [];
  /** Stored after their time limit. They may come again. */
  const storedLate = new WeakSet<readonly BrokerRecord[]>();

  function partitionOf(topic: string, partition: number | undefined): WaitingPartition<T> {
    const key = keyOf(topic, partition);
    let found = partitions.get(key);
    if (found === undefined) {
      const made: Omit<WaitingPartition<T>, 'lane'> = {
        ...{ topic, partition, key, isLate: false, waiting: [], pieces: [], isBusy: false, sent: undefined },
      };
      found = Object.assign(made, { lane: laneOf(made as WaitingPartition<T>) });
      partitions.set(key, found);
    }
    return found;
  }

  function laneOf(one: WaitingPartition<T>): WaitingPartition<T>['lane'] {
    let sinceMs = 0;
    return createLane<T, Batch<T>>({
      slots,
      next: () => next(one),
      send(batch) {
        sinceMs = clock.monotonic();
        options.onSend?.(batch.events);
        return send(one, batch);
      },
      putFirst: (batches) => one.pieces.unshift(...batches.map(({ events }) => [...events])),
      onStored({ events }) {
        uncertain?.batches.delete(one.key);
        options.onStored(one, events);
      },
      onFailed(batch, failure, isSplit) {
        if (uncertain !== undefined && mayBeStored(failure)) {
          const { batches, idOf } = uncertain;
          batches.set(one.key, { ids: batch.events.map(idOf), records: one.sent?.records ?? [] });
          if (batches.size > maxUncertain) batches.delete(batches.keys().next().value as string);
        }
        return options.onFailed(one, batch, failure, { isSplit, tookMs: clock.monotonic() - sinceMs });
      },
      onSent() {
        one.isBusy = false;
        one.sent = undefined;
        pump();
        options.onSent?.();
      },
      ...(options.splitsMaybeStored === true && { splitsMaybeStored: true }),
    });
  }

  function pump(): void {
    for (const one of [...partitions.values()]) {
      if (one.isBusy) continue;
      one.isBusy = true;
      one.lane.ask();
    }
    if (onIdle.length > 0 && [...partitions.values()].every(isIdle))
      for (const resolve of onIdle.splice(0)) resolve();
  }

  const isEmpty = ({ waiting, pieces }: WaitingPartition<T>): boolean => waiting.length + pieces.length === 0;
  const isIdle = (one: WaitingPartition<T>): boolean => !one.isBusy && isEmpty(one);

  function next(one: WaitingPartition<T>): Batch<T> | undefined {
    const events = take(one);
    if (events.length > 0) {
      const known = uncertain?.batches.get(one.key);
      const isAgain =
        known?.ids.length === events.length &&
        events.every((event, index) => uncertain?.idOf(event) === known.ids[index]);
      if (isAgain) one.sent = { events, records: known.records };
      return { ...newBatch(events), sends: 1, maybeStored: isAgain };
    }
    one.isBusy = false;
    if (isEmpty(one) && !one.isLate) partitions.delete(one.key);
    return undefined;
  }

  function take(one: WaitingPartition<T>): T[] {
    for (;;) {
      const source = one.pieces[0] ?? one.waiting;
      const { events, examined } = choose(one, source);
      source.splice(0, examined);
      if (source.length === 0 && one.pieces.length > 0) one.pieces.shift();
      else if (examined === 0 || source === one.waiting) return events;
      if (events.length > 0) return events;
    }
  }

  function choose(one: WaitingPartition<T>, source: readonly T[]): { events: T[]; examined: number } {
    const chosen = new Set<T>();
    const again = uncertain?.batches.get(one.key)?.ids;
    let max = one.partition === undefined ? 1 : limits.maxEvents;
    let bytes = 0;
    let examined = 0;
    for (; examined < source.length && chosen.size < max; examined++) {
      const event = source[examined] as T;
      const decision = mayGo(event, one, chosen);
      if (decision === 'ended') continue;
      if (decision === 'wait' || one.isLate) break;
      if (again !== undefined && uncertain?.idOf(event) === again[0]) {
        // It begins a remembered batch, with the events that followed it there.
        if (chosen.size > 0) break;
        max = again.length;
      }
      bytes += options.bytesOf(event);
      if (chosen.size > 0 && bytes > limits.maxBytes) break;
      chosen.add(event);
    }
    return { events: [...chosen], examined };
  }

  async function send(one: WaitingPartition<T>, { events }: Batch<T>): Promise<SendResult> {
    if (one.sent?.events !== events) {
      const nowMs = now();
      one.sent = { events, records: events.map((event) => options.toRecord(event, nowMs)) };
    }
    const { records } = one.sent;
    if (storedLate.has(records)) return { ok: true };
    const sending = Promise.resolve()
      .then(() => options.send(one, records, events))
      .catch(brokenPromise);
    if (timeLimit === undefined) return sending;
    return inTime(sending, {
      limitMs: timeLimit.limitMs(events),
      keepsAlive: timeLimit.keepsAlive,
      late() {
        one.isLate = true;
        void sending.then(({ ok }) => {
          if (ok) storedLate.add(records);
          one.isLate = false;
          pump();
        });
        return { ok: false, failure: timeLimit.late() } as const;
      },
    });
  }

  return {
    put(event: T, topic: string, partition: number | undefined): void {
      partitionOf(topic, partition).waiting.push(event);
    },
    /** Sends all that `mayGo` allows. */
    pump,
    /**
     * Returns and forgets the events that are not in a send, in the order of each partition. `topic`: only those of this topic.
     */
    takeAll(topic?: string): T[] {
      const wanted = [...partitions.values()].filter((one) => topic === undefined || one.topic === topic);
      return wanted.flatMap((one) => [...one.pieces.splice(0).flat(), ...one.waiting.splice(0)]);
    },
    /** Pumps. Resolves when nothing waits, and no send is in flight except those past their limit. */
    idle: (): Promise<void> =>
      new Promise((resolve) => {
        onIdle.push(resolve);
        pump();
      }),
  };
}

/** Limits over all topics: events that wait, are in flight, or wait for a retry. */
export interface MemoryLimits {
  readonly maxEvents: number;
  readonly maxBytes: number;
}

/** Counts events and bytes in memory. It refuses what does not fit, and never waits. */
export function createMemory({ maxEvents, maxBytes }: MemoryLimits) {
  let events = 0;
  let bytes = 0;
  let overflows = 0;
  return {
    reserve(size: number): boolean {
      if (events >= maxEvents || bytes + size > maxBytes) {
        overflows++;
        return false;
      }
      events++;
      bytes += size;
      return true;
    },
    /** Reserves past the limit, for events that were counted elsewhere before. */
    reserveAnyway(size: number): void {
      events++;
      bytes += size;
    },
    release(size: number): void {
      events--;
      bytes -= size;
    },
    get events() {
      return events;
    },
    get bytes() {
      return bytes;
    },
    /** Refused reservations so far. */
    get overflows() {
      return overflows;
    },
  };
}
