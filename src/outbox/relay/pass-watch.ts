import type { OutboxStore } from '../outbox-store.ts';
import type { Pipeline } from './pipeline.ts';

/** Sees, by what a relay asks and takes in, when it has looked at all of its rows once. */
export interface PassWatch {
  /** To be used instead of those that are watched. */
  readonly store: Pick<OutboxStore, 'isFull' | 'claim' | 'pending' | 'failedAggregates'>;
  readonly add: Pipeline['add'];
  /**
   * Resolves with true when a pass that begins from now on has taken in its last row, or there are no shards to read; with
   * false where the database fails.
   *
   * @param again begins a pass at once
   */
  next(again: () => void): Promise<boolean>;
  /** There will be no pass: ends the wait. */
  giveUp(): void;
}

export function watchPasses(
  store: Pick<OutboxStore, 'isFull' | 'claim' | 'pending' | 'failedAggregates'>,
  add: Pipeline['add'],
): PassWatch {
  let waiting: { readonly again: () => void; readonly end: (isSeen: boolean) => void } | undefined;
  let shardCount: number | undefined;
  let isFailing = false;
  /** A pass that began after `next`. */
  let isCounted = false;
  let isLast = false;

  function end(isSeen: boolean): void {
    waiting?.end(isSeen);
    waiting = undefined;
    isCounted = false;
  }

  function claimed(count: number): void {
    shardCount = count;
    if (count === 0) end(true);
  }

  async function orFail<T>(asked: Promise<T>): Promise<T> {
    try {
      const answer = await asked;
      isFailing = false;
      return answer;
    } catch (error) {
      isFailing = true;
      end(false);
      throw error;
    }
  }

  return {
    store: {
      async isFull(owner) {
        const is = await orFail(store.isFull(owner));
        if (is) claimed(0);
        return is;
      },
      async claim(...asked) {
        const shards = await orFail(store.claim(...asked));
        claimed(shards.length);
        return shards;
      },
      failedAggregates: (shards) => orFail(store.failedAggregates(shards)),
      async pending(shards, except, limit) {
        if (except.upToId === 0) isCounted = waiting !== undefined;
        const rows = await orFail(store.pending(shards, except, limit));
        isLast = rows.length < limit;
        return rows;
      },
    },
    async add(rows, epochs) {
      const taken = await add(rows, epochs);
      if (isCounted && isLast) end(true);
      // When the reader is done with this one, which it was at before.
      else if (waiting !== undefined && !isCounted) setImmediate(waiting.again);
      return taken;
    },
    next(again) {
      if (isFailing) return Promise.resolve(false);
      if (shardCount === 0) return Promise.resolve(true);
      return new Promise((resolve) => {
        waiting = { again, end: resolve };
        again();
      });
    },
    giveUp: () => end(false),
  };
}
