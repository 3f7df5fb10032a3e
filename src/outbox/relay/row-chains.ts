import type { Aggregate, StoredRow } from '../outbox-store.ts';
import { maxBlocked } from './relay-settings.ts';

/**
 * How a row leaves the relay's memory: `sent`; `deferred`, and so do the later rows of its aggregate in this pass; `paused`,
 * with its topic, which holds up no rows of other topics.
 */
export type RowEnd = 'sent' | 'deferred' | 'paused';

/** A row in memory. */
export interface Entry {
  readonly row: StoredRow;
  /** Of its shard, when it was read. */
  readonly epoch: number;
  /** What was read together; `left`: rows of it that have not ended. */
  readonly page: { left: number };
  /** When it was taken in, and when the broker had it, by the monotonic clock. */
  readonly takenMs: number;
  sentMs?: number;
  /** Its neighbours in its aggregate, as long as they matter. */
  before: Entry | undefined;
  after: Entry | undefined;
  end: RowEnd | undefined;
}

/** The rows of each aggregate in their order: one that is deferred keeps back those behind it, and no others. */
export interface RowChains {
  /** `undefined`: an earlier row of its aggregate is deferred in this pass, and so is this one. */
  add(read: Pick<Entry, 'row' | 'epoch' | 'page' | 'takenMs'>): Entry | undefined;
  /** A row that is not in memory is deferred, and what comes after it. */
  block(row: Aggregate): void;
  /** Returns the rows that have ended by it, itself the first: those behind one that is deferred are so too. */
  end(entry: Entry, end: RowEnd): readonly Entry[];
  /** The row that has to be sent first, or with it. */
  waitsFor(entry: Entry): Entry | undefined;
  /** Everything is read again from the first row: nothing is blocked. */
  newPass(): void;
  readonly blocked: number;
  /** No more aggregates can be remembered. */
  readonly isFull: boolean;
}

export function createRowChains(): RowChains {
  /** The last row in memory of each aggregate. */
  const last = new Map<string, Entry>();
  const blocked = new Set<string>();

  function block(key: string): void {
    blocked.add(key);
    last.delete(key);
  }

  function waitsFor(entry: Entry): Entry | undefined {
    let before = entry.before;
    while (before?.end !== undefined) before = before.before;
    return before;
  }

  return {
    add(read) {
      const key = keyOf(read.row);
      if (blocked.has(key)) return undefined;
      const before = last.get(key);
      const entry: Entry = { ...read, before, after: undefined, end: undefined };
      if (before !== undefined) before.after = entry;
      last.set(key, entry);
      return entry;
    },
    block: (row) => block(keyOf(row)),
    end(entry, end) {
      const key = keyOf(entry.row);
      if (end !== 'deferred') {
        entry.end = end;
        const first = end === 'sent' ? undefined : waitsFor(entry);
        // What is paused stays a link: what is before it still counts for what is behind it.
        if (end === 'sent' && entry.after !== undefined) entry.after.before = undefined;
        if (last.get(key) !== entry) return [entry];
        if (first === undefined) last.delete(key);
        else last.set(key, first);
        return [entry];
      }
      const ended: Entry[] = [];
      for (let each: Entry | undefined = entry; each !== undefined; each = each.after) {
        if (each.end !== undefined) continue;
        each.end = 'deferred';
        ended.push(each);
      }
      block(key);
      return ended;
    },
    waitsFor,
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
