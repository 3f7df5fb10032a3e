import { backoffMs, type Clock } from '../../ground/clock.ts';
import type { Logger, QuietLog } from '../../observe/logger.ts';
import { shardCount } from '../outbox-row.ts';
import type { Aggregate, OutboxStore, StoredRow } from '../outbox-store.ts';

/** The most that a timer of Node takes. */
const longestMs = 2 ** 31 - 1;

/** Lets one loop sleep until something happens. Its timer does not keep the process alive. */
export function createWakeup() {
  let isRaised = false;
  let end: (() => void) | undefined;
  return {
    /** Ends the present wait, or the next one at once. */
    raise(): void {
      isRaised = true;
      end?.();
    },
    /** Waits for `raise`, `ms` at most. One caller waits at a time. */
    async wait(ms: number): Promise<void> {
      if (!isRaised && ms > 0) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, Math.min(Math.ceil(ms), longestMs)).unref();
          end = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        end = undefined;
      }
      isRaised = false;
    },
  };
}

/** Of an error of a store, the line for the log: its promise is that it holds no value. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error';
}

interface Place {
  readonly untilMs: number;
  readonly failures: number;
}

/** Places that are remembered; topic names can come from application data. */
const maxPlaces = 10_000;

export type Pauses = ReturnType<typeof createPauses>;

/** Topics or partitions that get no sends for a while, each time for twice as long. */
export function createPauses(options: {
  readonly firstMs: number;
  readonly longestMs: number;
  readonly clock: Clock;
}) {
  const { firstMs, longestMs, clock } = options;
  const places = new Map<string, Place>();
  const paused = new Set<string>();
  return {
    /** True: it was not paused before, nor has it been resumed since. */
    pause(key: string): boolean {
      const failures = (places.get(key)?.failures ?? 0) + 1;
      if (failures === 1 && places.size >= maxPlaces) places.delete(places.keys().next().value as string);
      places.set(key, { failures, untilMs: clock.monotonic() + backoffMs(failures, firstMs, longestMs) });
      paused.add(key);
      return failures === 1;
    },
    /**
     * Until the next pass begins, which reads the rows that were left out. In the middle of a pass, later rows would be sent
     * before them.
     */
    has: (key: string): boolean => paused.has(key),
    /** It accepted something. True: it was paused before. */
    resume(key: string): boolean {
      return places.size > 0 && !paused.has(key) && places.delete(key);
    },
    /** All are tried again from the next pass on, as if they had never been paused. */
    forget: (): void => places.clear(),
    /** A pass begins: everything that has waited long enough is tried again. */
    newPass(): void {
      const nowMs = clock.monotonic();
      for (const key of paused) if ((places.get(key)?.untilMs ?? 0) <= nowMs) paused.delete(key);
    },
    /** Milliseconds until the next one is tried again; `Infinity` if nothing is paused. */
    nextMs(): number {
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
  /** Its neighbors in its aggregate, as long as they matter. */
  previous: QueueEntry | undefined;
  next: QueueEntry | undefined;
  end: RowEnd | undefined;
}

/** The rows of each aggregate in their order. A deferred row holds back only the rows behind it. */
export function createAggregateOrder() {
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
    /** `undefined`: an earlier row of its aggregate is deferred in this pass, and so is this one. */
    add(read: Pick<QueueEntry, 'row' | 'epoch' | 'page' | 'takenMs'>): QueueEntry | undefined {
      const key = keyOf(read.row);
      if (blocked.has(key)) return undefined;
      const previous = last.get(key);
      const entry: QueueEntry = { ...read, previous, next: undefined, end: undefined };
      if (previous !== undefined) previous.next = entry;
      last.set(key, entry);
      return entry;
    },
    /** A row that is not in memory is deferred, and everything behind it. */
    block: (row: Aggregate): void => block(keyOf(row)),
    /** Returns the rows that ended, `entry` first. Rows behind a deferred row are deferred as well. */
    end(entry: QueueEntry, end: RowEnd): readonly QueueEntry[] {
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
    /** The row that must be sent first, or in the same batch. */
    predecessorOf,
    /** Everything is read again from the first row: nothing is blocked. */
    newPass: (): void => blocked.clear(),
    get blocked(): number {
      return blocked.size;
    },
    /** No more aggregates can be remembered. */
    get isFull(): boolean {
      return blocked.size >= maxBlocked;
    },
  };
}

/** Tells one aggregate from all others. */
export const keyOf = ({ aggregateType, aggregateId }: Aggregate): string =>
  `${aggregateType}\n${aggregateId}`;

/** As configured under `svc.outbox.`. */
export interface RelaySettings {
  /** Rows read at once while few wait. */
  readonly batchSize: number;
  /** Longest time without a look at the table: the safety net behind `wake`. */
  readonly pollIntervalMs: number;
  /** Tries of a row after the first one, before it is FAILED. */
  readonly maxRetries: number;
  /** Whether a FAILED row lets the later ones of its aggregate pass. Default: skip. */
  readonly onFailed?: 'skip' | 'block';
  readonly sendTimeoutMs: number;
  /** Age at which PUBLISHED rows are deleted; 0: at once, when they are acknowledged. */
  readonly retentionDays: number;
  /** The same of FAILED rows; 0: they stay. */
  readonly failedRetentionDays: number;
  readonly cleanupEnabled: boolean;
  /** Batches grow while many rows wait. */
  readonly dynamicBatching: boolean;
  /** Sending stops while the broker is away. */
  readonly circuitBreaker: boolean;
  /** How long a lease of shards lasts, and another relay waits after a crash. Default: what the longest send needs. */
  readonly leaseMs?: number;
}

/** The shortest lease of shards: what another relay waits for after a crash. */
const shortestLeaseMs = 10_000;
/** A lease is taken for over this much earlier than the database says, for no clock is exact; of a short one, a tenth. */
const marginMs = 1_000;
/** What a renewal may take. */
const renewalMs = 1_000;

/** Renewed every third, a lease has to last for a send at any time. */
export function leaseMsFor({
  sendTimeoutMs,
  leaseMs,
}: Pick<RelaySettings, 'sendTimeoutMs' | 'leaseMs'>): number {
  return leaseMs ?? Math.max(shortestLeaseMs, Math.ceil(1.5 * (sendTimeoutMs + marginMs + renewalMs)));
}

const leaseMarginMs = (leaseMs: number): number => Math.min(marginMs, leaseMs / 10);

/** A relay that stands by looks again after so long, give or take a fifth: thousands of them do not come at once. */
export const standbyMs = 60_000;
const standbyJitter = 0.2;

/** How often a pass begins again at the first row, so that rows of late commits and retries are seen. */
export const restartMs = 1_000;
/** A pass over many rows that cannot be sent now is not repeated for so many times its length. */
export const restFactor = 4;
export const longestRestMs = 60_000;
/** After `wake`, others may come: looks are so far apart. */
export const wakeDebounceMs = 10;
/** After a failure of the database, doubling. */
export const firstStorePauseMs = 500;
export const longestStorePauseMs = 30_000;
/** Pages of rows in memory, read and not yet acknowledged, and their bytes. */
export const maxPages = 4;
export const maxBytes = 32 * 1024 * 1024;
/** Sends to several partitions at once. */
export const maxSends = 8;
/** A send that ends so much later than its time-out: the process stood still, and heard no answer meanwhile. */
export const stallMs = 1_000;
/** In one send. */
export const maxSendRecords = 500;
export const maxSendBytes = 512 * 1024;
/** Rows of the one batch that tests the cluster. */
export const probeRows = 10;
/** Rows that are deferred, which each reading leaves out by their ids. */
export const maxDeferred = 5_000;
/** Blocked aggregates that one pass remembers; with more, it ends there. */
const maxBlocked = 200_000;

/** Waits of 1 s, 2 s, 4 s ... of a row that failed by its own fault. */
export const firstRetryMs = 1_000;
export const longestRetryMs = 60_000;
/** A topic that refuses, doubling. */
export const topicPauses = { firstMs: 5_000, longestMs: 60_000 };
/** A partition that fails, doubling. */
export const partitionPauses = { firstMs: 1_000, longestMs: 10_000 };

interface ShardLeaseOptions {
  readonly store: Pick<OutboxStore, 'isFull' | 'claim' | 'release'>;
  readonly owner: string;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly say: QuietLog;
  readonly logger: Logger;
  /** Runs a claim while nothing is being sent: shards that it gives back have no rows under way, as far as sends end in time. */
  readonly withoutSends: <T>(claim: () => Promise<T>, maxWaitMs: number) => Promise<T>;
  /** A claim was answered, or has failed. */
  readonly onClaim: () => void;
  /** Whether to hear of rows, said again with each claim: one that stands by has no use for it. */
  readonly listen: (is: boolean) => void;
}

export type ShardLease = ReturnType<typeof createShardLease>;

/** The shards whose rows this relay may send, and until when. */
export function createShardLease(options: ShardLeaseOptions) {
  const { store, owner, leaseMs, clock, say, logger, withoutSends, onClaim, listen } = options;
  const renewMs = leaseMs / 3;
  const epochs = new Map<number, number>();
  const pause = createWakeup();
  let lastEpoch = 0;
  let untilMs = Number.NEGATIVE_INFINITY;
  let failures = 0;
  let claimedAtMs: number | undefined;
  let failure: string | undefined;
  let isStopped = false;
  let isAlive = false;
  let standsBy = false;
  let hasNone = false;

  const lasts = (ms: number): boolean => clock.monotonic() + ms < untilMs;

  /** Whether there is nothing to be had: whoever holds nothing is then no relay that others count, and costs the table a look. */
  async function isFull(): Promise<boolean> {
    if (epochs.size > 0 || !(await store.isFull(owner))) return false;
    if (isAlive) await store.release(owner);
    isAlive = false;
    return true;
  }

  function stand(by: boolean): void {
    if (by !== standsBy)
      logger.info(
        by
          ? `outbox: ${shardCount} relays already send the rows. This relay stands by, and checks every ${standbyMs / 1_000} s whether it is needed`
          : 'outbox: this relay is needed, and starts',
      );
    standsBy = by;
    listen(!by);
  }

  async function claim(): Promise<void> {
    if (await isFull()) {
      claimedAtMs = clock.monotonic();
      hasNone = true;
      stand(true);
      return;
    }
    const askedAtMs = clock.monotonic();
    const shards = await store.claim(owner, leaseMs);
    claimedAtMs = clock.monotonic();
    isAlive = true;
    stand(false);
    // Somebody else may have had them meanwhile.
    if (!lasts(0)) epochs.clear();
    untilMs = askedAtMs + leaseMs - leaseMarginMs(leaseMs);
    const held = new Set(shards);
    for (const shard of epochs.keys()) if (!held.has(shard)) epochs.delete(shard);
    for (const shard of held) if (!epochs.has(shard)) epochs.set(shard, ++lastEpoch);
    hasNone = held.size === 0;
  }

  return {
    /** Empty if the lease may have ended. */
    shards: (): readonly number[] => (lasts(0) ? [...epochs.keys()] : []),
    /** A fencing token: changes each time the shard is claimed; `undefined`: not held. Rows read under another epoch are not sent. */
    epochOf: (shard: number): number | undefined => (lasts(0) ? epochs.get(shard) : undefined),
    /** Whether it lasts for so long, by the monotonic clock. */
    lasts,
    /** The table says that it is not held: nothing of it is sent before the next claim. */
    lost: (shard: number): void => void epochs.delete(shard),
    /** When the table last answered a claim, by the monotonic clock, or `run` began; `undefined`: before. */
    get claimedAtMs(): number | undefined {
      return claimedAtMs;
    },
    /** As many relays as there are shards have them all. This one stands by, and looks again from time to time. */
    get standsBy(): boolean {
      return standsBy;
    },
    /** The last claim was answered, and gave it no shard. */
    get hasNone(): boolean {
      return hasNone;
    },
    /** Why the last claim failed, until one succeeds. */
    get failure(): string | undefined {
      return failure;
    },
    /** Claims and renews until `stop`. */
    async run(): Promise<void> {
      claimedAtMs = clock.monotonic();
      while (!isStopped) {
        try {
          await withoutSends(claim, leaseMs / 6);
          if (failures > 0) logger.info('outbox: the shards are claimed again');
          failures = 0;
          failure = undefined;
          onClaim();
          await pause.wait(standsBy ? standbyMs * (1 + standbyJitter * (2 * Math.random() - 1)) : renewMs);
        } catch (error) {
          failures++;
          failure = `the shards cannot be claimed: ${reasonOf(error)}`;
          hasNone = false;
          onClaim();
          say('claim', `outbox: ${failure}`);
          await pause.wait(backoffMs(failures, firstStorePauseMs, renewMs));
        }
      }
    },
    stop(): void {
      isStopped = true;
      pause.raise();
    },
  };
}
