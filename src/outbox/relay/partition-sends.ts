import { backoffMs, type Clock, inTime } from '../../ground/clock.ts';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../publish/broker.ts';
import { halvesOf } from '../../publish/cut-batches.ts';
import { notMadeFailure, passingOf } from '../../publish/fault.ts';
import { brokenPromise } from '../../publish/main/queued-event.ts';
import { createSendSlots } from '../../publish/memory-limits.ts';
import type { Aggregate, StoredRow } from '../outbox-store.ts';
import { maxBlocked, maxSendBytes, maxSendRecords, maxSends } from './relay-settings.ts';

/** One partition of a topic: one send at a time. */
export interface TopicPartition {
  readonly topic: string;
  /** `undefined`: the client chooses, for one record at a time; or the row is none. */
  readonly partition: number | undefined;
  /** Of its topic and partition, for `Pauses`. */
  readonly key: string;
}

interface PartitionQueue extends TopicPartition {
  entries: QueueEntry[];
  /** Of a batch that was too large: to be sent before the queue. */
  pieces: QueueEntry[][];
  isBusy: boolean;
  /** A send took too long, and may yet write its records: until it ends, nothing is sent behind its back. */
  isLate: boolean;
}

export interface PartitionSendsOptions {
  readonly broker: Pick<Broker, 'send'>;
  readonly sendTimeoutMs: number;
  readonly clock: Clock;
  /** What is to be done with the next row of a partition. `wait`: nothing for now. */
  readonly decide: (
    entry: QueueEntry,
    partition: TopicPartition,
  ) => 'send' | 'wait' | Exclude<RowEnd, 'sent'>;
  readonly predecessorOf: (entry: QueueEntry) => QueueEntry | undefined;
  readonly settle: (entry: QueueEntry, end: RowEnd) => void;
  /** Ends the rows of a send. `split`: they are to be sent in halves. */
  readonly onResult: (
    partition: TopicPartition,
    entries: readonly QueueEntry[],
    result: SendResult,
    tookMs: number,
  ) => Promise<'split' | 'ended'>;
  /** After each send. */
  readonly onSent: () => void;
}

/** Sends rows: several partitions at once, each in its order. */
interface PartitionSends {
  put(entry: QueueEntry, partition: number | undefined): void;
  /** Sends what can be sent. */
  pump(): void;
  /** Lets what is under way end, and starts nothing, until `resume`. */
  suspend(): void;
  resume(): void;
  /** Everything that is not in a send is deferred. */
  drop(): void;
  readonly underWay: number;
  /** Those that were under way at `suspend` have ended, as far as they are worth waiting for. */
  readonly isQuiet: boolean;
}

/** The last batch of a partition, of which nobody knows whether it is stored: sent again as it was, a broker knows it. */
interface Unended {
  readonly ids: readonly string[];
  readonly records: readonly BrokerRecord[];
}

/** Partitions for which it is kept. */
const maxUnended = 100;

/** A send that takes longer has no company in `suspend`: one partition that hangs holds up no others. */
const promptMs = 500;

export function createPartitionSends(options: PartitionSendsOptions): PartitionSends {
  const { broker, sendTimeoutMs, clock, decide, predecessorOf, settle, onResult, onSent } = options;
  const queues = new Map<string, PartitionQueue>();
  const slots = createSendSlots(maxSends);
  /** With the time of their start. */
  const underWay = new Map<QueueEntry, number>();
  const awaited = new Set<QueueEntry>();
  const unended = new Map<string, Unended>();
  let isSuspended = false;

  function queueOf(topic: string, partition: number | undefined): PartitionQueue {
    const key = `${topic}\n${partition}`;
    let queue = queues.get(key);
    if (queue === undefined) {
      queue = { topic, partition, key, entries: [], pieces: [], isBusy: false, isLate: false };
      queues.set(key, queue);
    }
    return queue;
  }

  function pump(): void {
    for (const queue of [...queues.values()]) pumpOne(queue);
  }

  function pumpOne(queue: PartitionQueue): void {
    if (queue.isBusy || isSuspended) return;
    queue.isBusy = true;
    slots.take(() => start(queue));
  }

  function start(queue: PartitionQueue): void {
    const entries = isSuspended ? [] : take(queue);
    if (entries.length > 0) {
      void send(queue, entries);
      return;
    }
    queue.isBusy = false;
    slots.give();
    if (queue.entries.length + queue.pieces.length === 0 && !queue.isLate) queues.delete(queue.key);
  }

  /** The next rows for one send. Those that cannot be sent in this pass end here. */
  function take(queue: PartitionQueue): QueueEntry[] {
    for (;;) {
      const source = queue.pieces[0] ?? queue.entries;
      const { entries, examined } = choose(queue, source);
      source.splice(0, examined);
      if (source.length === 0 && queue.pieces.length > 0) queue.pieces.shift();
      else if (examined === 0 || source === queue.entries) return entries;
      if (entries.length > 0) return entries;
    }
  }

  function choose(
    queue: PartitionQueue,
    source: readonly QueueEntry[],
  ): { entries: QueueEntry[]; examined: number } {
    const entries: QueueEntry[] = [];
    const chosen = new Set<QueueEntry>();
    let most = queue.partition === undefined ? 1 : maxSendRecords;
    const again = unended.get(queue.key)?.ids;
    let bytes = 0;
    let examined = 0;
    for (; examined < source.length && entries.length < most; examined++) {
      const entry = source[examined] as QueueEntry;
      if (entry.end !== undefined) continue;
      const decision = queue.isLate ? 'deferred' : decide(entry, queue);
      if (decision === 'wait') break;
      if (decision !== 'send') {
        settle(entry, decision);
        continue;
      }
      const first = predecessorOf(entry);
      if (first !== undefined && !chosen.has(first)) break;
      if (again !== undefined && idOf(entry) === again[0]) {
        // It begins a batch, and is followed by those that followed it.
        if (entries.length > 0) break;
        most = again.length;
      }
      bytes += entry.row.payload.length;
      if (entries.length > 0 && bytes > maxSendBytes) break;
      entries.push(entry);
      chosen.add(entry);
    }
    return { entries, examined };
  }

  async function send(queue: PartitionQueue, entries: readonly QueueEntry[]): Promise<void> {
    const first = entries[0] as QueueEntry;
    const sinceMs = clock.monotonic();
    underWay.set(first, sinceMs);
    const timestamp = clock.now();
    const before = unended.get(queue.key);
    const ids = entries.map(idOf);
    const isAgain = before?.ids.length === ids.length && ids.every((id, index) => id === before.ids[index]);
    const records: readonly BrokerRecord[] = isAgain
      ? before.records
      : entries.map(({ row }) => ({
          ...{ key: row.key, value: row.payload, headers: row.headers, timestamp },
        }));
    const { fault } = first.row;
    const sending: Promise<SendResult> =
      fault !== undefined
        ? Promise.resolve({ ok: false, failure: notMadeFailure(fault) })
        : Promise.resolve()
            .then(() => broker.send(queue.topic, queue.partition, records))
            .catch(brokenPromise);
    const late = (): SendResult => {
      queue.isLate = true;
      void sending.then(() => {
        queue.isLate = false;
        pumpOne(queue);
      });
      return { ok: false, failure: tooLate(sendTimeoutMs) };
    };
    const result = await inTime(sending, { limitMs: sendTimeoutMs, keepsAlive: false, late });
    if (result.ok) unended.delete(queue.key);
    else if (mayBeStored(result.failure)) {
      unended.set(queue.key, { ids, records });
      if (unended.size > maxUnended) unended.delete(unended.keys().next().value as string);
    }
    const end = await onResult(queue, entries, result, clock.monotonic() - sinceMs);
    if (end === 'split') queue.pieces.unshift(...halvesOf(entries));
    underWay.delete(first);
    awaited.delete(first);
    queue.isBusy = false;
    slots.give();
    pump();
    onSent();
  }

  return {
    put(entry, partition) {
      queueOf(entry.row.topic, partition).entries.push(entry);
    },
    pump,
    suspend() {
      isSuspended = true;
      const promptSinceMs = clock.monotonic() - promptMs;
      for (const [entry, sinceMs] of underWay) if (sinceMs > promptSinceMs) awaited.add(entry);
    },
    resume() {
      isSuspended = false;
      awaited.clear();
      pump();
    },
    drop() {
      for (const { pieces, entries } of queues.values())
        for (const entry of [...pieces.flat(), ...entries])
          if (entry.end === undefined) settle(entry, 'deferred');
    },
    get underWay() {
      return underWay.size;
    },
    get isQuiet() {
      return awaited.size === 0;
    },
  };
}

const idOf = ({ row }: QueueEntry): string => row.eventId;

const mayBeStored = ({ kind, cause }: SendFailure): boolean =>
  kind === 'unknown_outcome' || passingOf(cause) === 'moved';

function tooLate(sendTimeoutMs: number): SendFailure {
  return {
    kind: 'unknown_outcome',
    cause: 'TimeoutException',
    message: `not acknowledged within ${sendTimeoutMs} ms (svc.outbox.send-timeout-seconds)`,
  };
}

interface Place {
  readonly untilMs: number;
  readonly failures: number;
}

/** Topics or partitions that take nothing for a while, each time twice as long. */
export interface Pauses {
  /** True: it was not paused before, nor has it been resumed since. */
  pause(key: string): boolean;
  /**
   * Until the next pass begins, which reads the rows that were left out: in the middle of one, later rows would be sent
   * before them.
   */
  has(key: string): boolean;
  /** It took something. True: it was paused before. */
  resume(key: string): boolean;
  /** All are tried again from the next pass on, as if they never had been paused. */
  forget(): void;
  /** A pass begins: what has waited long enough is tried again. */
  newPass(): void;
  /** Milliseconds until the next one is tried again; `Infinity`: there is none. */
  nextMs(): number;
}

interface PausesOptions {
  readonly firstMs: number;
  readonly longestMs: number;
  readonly clock: Clock;
}

/** Places that are remembered; topic names can come from application data. */
const maxPlaces = 10_000;

export function createPauses({ firstMs, longestMs, clock }: PausesOptions): Pauses {
  const places = new Map<string, Place>();
  const paused = new Set<string>();
  return {
    pause(key) {
      const failures = (places.get(key)?.failures ?? 0) + 1;
      if (failures === 1 && places.size >= maxPlaces) places.delete(places.keys().next().value as string);
      places.set(key, { failures, untilMs: clock.monotonic() + backoffMs(failures, firstMs, longestMs) });
      paused.add(key);
      return failures === 1;
    },
    has: (key) => paused.has(key),
    resume(key) {
      return places.size > 0 && !paused.has(key) && places.delete(key);
    },
    forget: () => places.clear(),
    newPass() {
      const nowMs = clock.monotonic();
      for (const key of paused) if ((places.get(key)?.untilMs ?? 0) <= nowMs) paused.delete(key);
    },
    nextMs() {
      let nextMs = Number.POSITIVE_INFINITY;
      for (const key of paused) nextMs = Math.min(nextMs, places.get(key)?.untilMs ?? 0);
      return Math.max(0, nextMs - clock.monotonic());
    },
  };
}

/**
 * How a row leaves the relay's memory: `sent`; `deferred`, and so do the later rows of its aggregate in this pass; `paused`,
 * with its topic, which holds up no rows of other topics.
 */
export type RowEnd = 'sent' | 'deferred' | 'paused';

/** A row in memory, in the queue of its partition. */
export interface QueueEntry {
  readonly row: StoredRow;
  /** Of its shard, when it was read. */
  readonly epoch: number;
  /** What was read together; `remaining`: rows of it that have not ended. */
  readonly page: { remaining: number };
  /** When it was taken in, and when the broker had it, by the monotonic clock. */
  readonly takenMs: number;
  sentMs?: number;
  /** Its neighbours in its aggregate, as long as they matter. */
  previous: QueueEntry | undefined;
  next: QueueEntry | undefined;
  end: RowEnd | undefined;
}

/** The rows of each aggregate in their order: one that is deferred keeps back those behind it, and no others. */
interface AggregateOrder {
  /** `undefined`: an earlier row of its aggregate is deferred in this pass, and so is this one. */
  add(read: Pick<QueueEntry, 'row' | 'epoch' | 'page' | 'takenMs'>): QueueEntry | undefined;
  /** A row that is not in memory is deferred, and what comes after it. */
  block(row: Aggregate): void;
  /** Returns the rows that have ended by it, itself the first: those behind one that is deferred are so too. */
  end(entry: QueueEntry, end: RowEnd): readonly QueueEntry[];
  /** The row that has to be sent first, or with it. */
  predecessorOf(entry: QueueEntry): QueueEntry | undefined;
  /** Everything is read again from the first row: nothing is blocked. */
  newPass(): void;
  readonly blocked: number;
  /** No more aggregates can be remembered. */
  readonly isFull: boolean;
}

export function createAggregateOrder(): AggregateOrder {
  /** The last row in memory of each aggregate. */
  const last = new Map<string, QueueEntry>();
  const blocked = new Set<string>();

  function block(key: string): void {
    blocked.add(key);
    last.delete(key);
  }

  function predecessorOf(entry: QueueEntry): QueueEntry | undefined {
    let previous = entry.previous;
    while (previous?.end !== undefined) previous = previous.previous;
    return previous;
  }

  return {
    add(read) {
      const key = keyOf(read.row);
      if (blocked.has(key)) return undefined;
      const previous = last.get(key);
      const entry: QueueEntry = { ...read, previous, next: undefined, end: undefined };
      if (previous !== undefined) previous.next = entry;
      last.set(key, entry);
      return entry;
    },
    block: (row) => block(keyOf(row)),
    end(entry, end) {
      const key = keyOf(entry.row);
      if (end !== 'deferred') {
        entry.end = end;
        const first = end === 'sent' ? undefined : predecessorOf(entry);
        // What is paused stays a link: what is before it still counts for what is behind it.
        if (end === 'sent' && entry.next !== undefined) entry.next.previous = undefined;
        if (last.get(key) !== entry) return [entry];
        if (first === undefined) last.delete(key);
        else last.set(key, first);
        return [entry];
      }
      const ended: QueueEntry[] = [];
      for (let each: QueueEntry | undefined = entry; each !== undefined; each = each.next) {
        if (each.end !== undefined) continue;
        each.end = 'deferred';
        ended.push(each);
      }
      block(key);
      return ended;
    },
    predecessorOf,
    newPass: () => blocked.clear(),
    get blocked() {
      return blocked.size;
    },
    get isFull() {
      return blocked.size >= maxBlocked;
    },
  };
}

/** Tells one aggregate from all others. */
export const keyOf = ({ aggregateType, aggregateId }: Aggregate): string =>
  `${aggregateType}\n${aggregateId}`;
