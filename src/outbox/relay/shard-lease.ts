import { backoffMs, type Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { QuietLog } from '../../observe/quiet-log.ts';
import type { OutboxStore } from '../outbox-store.ts';
import { firstStorePauseMs, leaseMarginMs } from './relay-settings.ts';
import { createSignal, reasonOf } from './signal.ts';

/** The shards whose rows this relay may send, and until when. */
export interface ShardLease {
  /** Empty where the lease may have ended. */
  shards(): readonly number[];
  /** Changes with each time that the shard is taken; `undefined`: it is not held. What was read under another is not sent. */
  holdOf(shard: number): number | undefined;
  /** Whether it lasts for so long, by the monotonic clock. */
  lasts(ms: number): boolean;
  /** The table says that it is not held: nothing is sent of it before the next claim. */
  doubt(shard: number): void;
  /** When the table last answered a claim, by the monotonic clock, or `run` began; `undefined`: before. */
  readonly claimedAtMs: number | undefined;
  /** Why the last claim failed, until one succeeds. */
  readonly failure: string | undefined;
  /** Claims and renews until `stop`. */
  run(): Promise<void>;
  stop(): void;
}

export interface ShardLeaseOptions {
  readonly store: Pick<OutboxStore, 'claim'>;
  readonly owner: string;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly say: QuietLog;
  readonly logger: Logger;
  /** Runs a claim while nothing is being sent: shards that it gives back have no rows under way, as far as sends end in time. */
  readonly between: <T>(claim: () => Promise<T>, patienceMs: number) => Promise<T>;
  /** The shards are others now, or can be used again. */
  readonly onChange: () => void;
}

export function createShardLease(options: ShardLeaseOptions): ShardLease {
  const { store, owner, leaseMs, clock, say, logger, between, onChange } = options;
  const renewMs = leaseMs / 3;
  const holds = new Map<number, number>();
  const pause = createSignal();
  let lastHold = 0;
  let untilMs = Number.NEGATIVE_INFINITY;
  let failures = 0;
  let claimedAtMs: number | undefined;
  let failure: string | undefined;
  let isStopped = false;

  const lasts = (ms: number): boolean => clock.monotonic() + ms < untilMs;

  async function claim(): Promise<void> {
    const askedAtMs = clock.monotonic();
    const shards = await store.claim(owner, leaseMs);
    claimedAtMs = clock.monotonic();
    // Somebody else may have had them meanwhile.
    if (!lasts(0)) holds.clear();
    untilMs = askedAtMs + leaseMs - leaseMarginMs(leaseMs);
    const held = new Set(shards);
    let isChanged = false;
    for (const shard of holds.keys()) if (!held.has(shard)) isChanged = holds.delete(shard);
    for (const shard of held) {
      if (holds.has(shard)) continue;
      holds.set(shard, ++lastHold);
      isChanged = true;
    }
    if (isChanged) onChange();
  }

  return {
    shards: () => (lasts(0) ? [...holds.keys()] : []),
    holdOf: (shard) => (lasts(0) ? holds.get(shard) : undefined),
    lasts,
    doubt: (shard) => void holds.delete(shard),
    get claimedAtMs() {
      return claimedAtMs;
    },
    get failure() {
      return failure;
    },
    async run() {
      claimedAtMs = clock.monotonic();
      while (!isStopped) {
        try {
          await between(claim, leaseMs / 6);
          if (failures > 0) logger.info('outbox: the shards are claimed again');
          failures = 0;
          failure = undefined;
          await pause.wait(renewMs);
        } catch (error) {
          failures++;
          failure = `the shards cannot be claimed: ${reasonOf(error)}`;
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
