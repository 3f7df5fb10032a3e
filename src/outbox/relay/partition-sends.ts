import { type Clock, inTime } from '../../ground/clock.ts';
import type { Broker, BrokerRecord, SendFailure, SendResult } from '../../publish/broker.ts';
import { halvesOf } from '../../publish/cut-batches.ts';
import { notMadeFailure, passingOf } from '../../publish/fault.ts';
import { brokenPromise } from '../../publish/main/failures.ts';
import { createSendSlots } from '../../publish/memory-limits.ts';
import type { QueueEntry, RowEnd } from './aggregate-order.ts';
import { maxSendBytes, maxSendRecords, maxSends } from './relay-settings.ts';

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
export interface PartitionSends {
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
