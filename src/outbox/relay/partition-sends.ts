import { type Clock, inTime } from '../../ground/clock.ts';
import type { Broker, SendFailure, SendResult } from '../../publish/broker.ts';
import { halvesOf } from '../../publish/cut-batches.ts';
import { notMadeFailure } from '../../publish/fault.ts';
import { brokenPromise } from '../../publish/main/failures.ts';
import { createSendSlots } from '../../publish/memory-limits.ts';
import { maxSendBytes, maxSendRecords, maxSends } from './relay-settings.ts';
import type { Entry, RowEnd } from './row-chains.ts';

/** One partition of a topic: one send at a time. */
export interface TopicPartition {
  readonly topic: string;
  /** `undefined`: the client chooses, for one record at a time; or the row is none. */
  readonly partition: number | undefined;
  /** Of its topic and partition, for `Pauses`. */
  readonly key: string;
}

interface PartitionQueue extends TopicPartition {
  entries: Entry[];
  /** Of a batch that was too large: to be sent before the queue. */
  pieces: Entry[][];
  isBusy: boolean;
  /** A send took too long, and may yet write its records: until it ends, nothing is sent behind its back. */
  isLate: boolean;
}

export interface PartitionSendsOptions {
  readonly broker: Pick<Broker, 'send'>;
  readonly sendTimeoutMs: number;
  readonly clock: Clock;
  /** What is to be done with the next row of a partition. `wait`: nothing for now. */
  readonly judge: (entry: Entry, partition: TopicPartition) => 'send' | 'wait' | Exclude<RowEnd, 'sent'>;
  readonly waitsFor: (entry: Entry) => Entry | undefined;
  readonly settle: (entry: Entry, end: RowEnd) => void;
  /** Ends the rows of a send. `split`: they are to be sent in halves. */
  readonly onResult: (
    partition: TopicPartition,
    entries: readonly Entry[],
    result: SendResult,
    tookMs: number,
  ) => Promise<'split' | 'ended'>;
  /** After each send. */
  readonly onSent: () => void;
}

/** Sends rows: several partitions at once, each in its order. */
export interface PartitionSends {
  put(entry: Entry, partition: number | undefined): void;
  /** Sends what can be sent. */
  pump(): void;
  /** Lets what is under way end, and starts nothing, until `resume`. */
  hold(): void;
  resume(): void;
  /** Everything that is not in a send is deferred. */
  drop(): void;
  readonly underWay: number;
  /** Those that were under way at `hold` have ended, as far as they are worth waiting for. */
  readonly isQuiet: boolean;
}

/** A send that takes longer has no company in `hold`: one partition that hangs holds up no others. */
const promptMs = 500;

export function createPartitionSends(options: PartitionSendsOptions): PartitionSends {
  const { broker, sendTimeoutMs, clock, judge, waitsFor, settle, onResult, onSent } = options;
  const queues = new Map<string, PartitionQueue>();
  const slots = createSendSlots(maxSends);
  /** With the time of their start. */
  const underWay = new Map<Entry, number>();
  const awaited = new Set<Entry>();
  let isHeld = false;

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
    if (queue.isBusy || isHeld) return;
    queue.isBusy = true;
    slots.take(() => start(queue));
  }

  function start(queue: PartitionQueue): void {
    const entries = isHeld ? [] : take(queue);
    if (entries.length > 0) {
      void send(queue, entries);
      return;
    }
    queue.isBusy = false;
    slots.give();
    if (queue.entries.length + queue.pieces.length === 0 && !queue.isLate) queues.delete(queue.key);
  }

  /** The next rows for one send. Those that cannot be sent in this pass end here. */
  function take(queue: PartitionQueue): Entry[] {
    for (;;) {
      const source = queue.pieces[0] ?? queue.entries;
      const { entries, looked } = choose(queue, source);
      source.splice(0, looked);
      if (source.length === 0 && queue.pieces.length > 0) queue.pieces.shift();
      else if (looked === 0 || source === queue.entries) return entries;
      if (entries.length > 0) return entries;
    }
  }

  function choose(queue: PartitionQueue, source: readonly Entry[]): { entries: Entry[]; looked: number } {
    const entries: Entry[] = [];
    const chosen = new Set<Entry>();
    const most = queue.partition === undefined ? 1 : maxSendRecords;
    let bytes = 0;
    let looked = 0;
    for (; looked < source.length && entries.length < most; looked++) {
      const entry = source[looked] as Entry;
      if (entry.end !== undefined) continue;
      const verdict = queue.isLate ? 'deferred' : judge(entry, queue);
      if (verdict === 'wait') break;
      if (verdict !== 'send') {
        settle(entry, verdict);
        continue;
      }
      const first = waitsFor(entry);
      if (first !== undefined && !chosen.has(first)) break;
      bytes += entry.row.payload.length;
      if (entries.length > 0 && bytes > maxSendBytes) break;
      entries.push(entry);
      chosen.add(entry);
    }
    return { entries, looked };
  }

  async function send(queue: PartitionQueue, entries: readonly Entry[]): Promise<void> {
    const first = entries[0] as Entry;
    const sinceMs = clock.monotonic();
    underWay.set(first, sinceMs);
    const timestamp = clock.now();
    const records = entries.map(({ row }) => ({
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
    hold() {
      isHeld = true;
      const promptSinceMs = clock.monotonic() - promptMs;
      for (const [entry, sinceMs] of underWay) if (sinceMs > promptSinceMs) awaited.add(entry);
    },
    resume() {
      isHeld = false;
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

function tooLate(sendTimeoutMs: number): SendFailure {
  return {
    kind: 'unknown_outcome',
    cause: 'TimeoutException',
    message: `not acknowledged within ${sendTimeoutMs} ms (svc.outbox.send-timeout-seconds)`,
  };
}
