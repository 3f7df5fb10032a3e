// tiers/: where events go that their topic did not take: dead letters, then backups, then the alert.

import { systemClock } from '../../ground/clock.ts';
import { faultOf } from '../fault.ts';
import { isBehindBackup } from '../order/key-order.ts';
import type { FailedEvent, NextTier, Tier } from '../tier.ts';
import { createEntrance } from './entrance.ts';

export interface TierChainOptions {
  /** In the order in which they are tried; those that are not configured are left out. */
  readonly tiers: readonly Tier[];
  /** A tier took it. */
  readonly onKept: (name: Tier['name'], failed: FailedEvent) => void;
  readonly onDlqFailed: (failed: FailedEvent) => void;
  /** No tier took it: the alert. */
  readonly onLost: (failed: FailedEvent) => void;
}

/** The tiers behind the main topic: dead letter topic, backup, lost. Each event ends in exactly one of them. */
export interface TierChain {
  readonly next: NextTier;
  /** Events without an answer of a tier yet: what the end of the process has to save. */
  underWay(): Iterable<FailedEvent>;
  close(deadlineMs: number): Promise<void>;
}

export function createTierChain(options: TierChainOptions): TierChain {
  const underWay = new Set<FailedEvent>();
  const entrance = createEntrance();

  async function firstThatStores(failed: FailedEvent): Promise<Tier['name'] | 'lost'> {
    const { endedBy } = failed.failure;
    const isBehind = isBehindBackup(failed.failure);
    // Behind others in the backup, and nowhere else, unless it would be lost.
    for (const tier of isBehind ? options.tiers.toReversed() : options.tiers) {
      // A process that ends has no time for a topic: what it does not send now is sent from the backup.
      // Nor is a letter any good for an event that is sent as it is once the clock is right, or the schema registry answers.
      const fault = faultOf(failed.failure);
      const isNoLetter = endedBy === 'shutdown' || fault === 'clock' || fault === 'registry';
      if (tier.name === 'dlq' && isNoLetter && options.tiers.length > 1) continue;
      if (await isStored(tier, failed)) {
        options.onKept(tier.name, failed);
        return tier.name;
      }
      if (tier.name === 'dlq') options.onDlqFailed(failed);
    }
    if (endedBy !== 'behind-unless-full') options.onLost(failed);
    return 'lost';
  }

  /** Not by `catch`, a call that fails at the end of a stack: what is awaited is handled without one. */
  async function isStored(tier: Tier, failed: FailedEvent): Promise<boolean> {
    try {
      return await tier.store(failed);
    } catch {
      return false;
    }
  }

  return {
    async next(failed) {
      underWay.add(failed);
      // From here on a stack of its own: that of the application may be used up.
      await entrance.enter(failed.record.value.length);
      try {
        return await firstThatStores(failed);
      } finally {
        entrance.leave();
        underWay.delete(failed);
      }
    },
    underWay: () => underWay,
    async close(deadlineMs) {
      const end = systemClock.monotonic() + deadlineMs;
      entrance.open();
      // Those that may begin do so first.
      await undefined;
      // One after the other: what the dead letter topic gives back goes to the backup.
      for (const tier of options.tiers) await tier.close(Math.max(0, end - systemClock.monotonic()));
    },
  };
}
