import { backoffMs, type Clock } from '../../ground/clock.ts';
import type { Logger, QuietLog } from '../../observe/logger.ts';
import { shardCount } from '../outbox-row.ts';
import type { OutboxStore } from '../outbox-store.ts';
import { firstStorePauseMs, leaseMarginMs, standbyJitter, standbyMs } from './relay-settings.ts';
import { createSignal, reasonOf } from './signal.ts';

/** The shards whose rows this relay may send, and until when. */
export interface ShardLease {
  /** Empty where the lease may have ended. */
  shards(): readonly number[];
  /** A fencing token: changes with each time that the shard is taken; `undefined`: it is not held. What was read under another is not sent. */
  epochOf(shard: number): number | undefined;
  /** Whether it lasts for so long, by the monotonic clock. */
  lasts(ms: number): boolean;
  /** The table says that it is not held: nothing is sent of it before the next claim. */
  lost(shard: number): void;
  /** When the table last answered a claim, by the monotonic clock, or `run` began; `undefined`: before. */
  readonly claimedAtMs: number | undefined;
  /** As many relays as there are shards have them all: this one is not among them, and looks again from time to time. */
  readonly standsBy: boolean;
  /** The last claim was answered, and gave it no shard. */
  readonly hasNone: boolean;
  /** Why the last claim failed, until one succeeds. */
  readonly failure: string | undefined;
  /** Claims and renews until `stop`. */
  run(): Promise<void>;
  stop(): void;
}

export interface ShardLeaseOptions {
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

export function createShardLease(options: ShardLeaseOptions): ShardLease {
  const { store, owner, leaseMs, clock, say, logger, withoutSends, onClaim, listen } = options;
  const renewMs = leaseMs / 3;
  const epochs = new Map<number, number>();
  const pause = createSignal();
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
          ? `outbox: ${shardCount} relays send the rows already: this one stands by, and looks every ${standbyMs / 1_000} s whether it is needed`
          : 'outbox: the relay is needed, and stands by no longer',
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
    shards: () => (lasts(0) ? [...epochs.keys()] : []),
    epochOf: (shard) => (lasts(0) ? epochs.get(shard) : undefined),
    lasts,
    lost: (shard) => void epochs.delete(shard),
    get claimedAtMs() {
      return claimedAtMs;
    },
    get standsBy() {
      return standsBy;
    },
    get hasNone() {
      return hasNone;
    },
    get failure() {
      return failure;
    },
    async run() {
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
    stop() {
      isStopped = true;
      pause.raise();
    },
  };
}
