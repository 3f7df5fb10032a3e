import type { Aggregate, StoredRow } from '../outbox-store.ts';
import { maxBlocked } from './relay-settings.ts';

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
export interface AggregateOrder {
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
