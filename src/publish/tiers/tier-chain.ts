// tiers/: where events go that their topic did not take: dead letters, then backups, then the alert.

import { type Clock, systemClock } from '../../ground/clock.ts';
import { type Logger, throttledLog } from '../../observe/logger.ts';
import { maxRecentDlqEvents, type RecentDlqEvent } from '../../observe/metrics.ts';
import { faultOf } from '../fault.ts';
import { createMemory, type MemoryLimits } from '../memory-limits.ts';
import { isSpilled } from '../order/backup-order.ts';
import type { FailedEvent, NextTier, Tier } from '../tier.ts';

interface TierChainOptions {
  /** In the order in which they are tried; those that are not configured are left out. */
  readonly tiers: readonly Tier[];
  /** A tier took it. */
  readonly onKept: (name: Tier['name'], failed: FailedEvent) => void;
  readonly onDlqFailed: (failed: FailedEvent) => void;
  /** No tier took it: the alert. */
  readonly onLost: (failed: FailedEvent) => void;
}

/** The tiers behind the main topic: dead letter topic, backup, lost. Each event ends in exactly one of them. */
interface TierChain {
  readonly next: NextTier;
  /** Events without an answer of a tier yet: what the end of the process has to save. */
  inFlight(): Iterable<FailedEvent>;
  close(deadlineMs: number): Promise<void>;
}

export function createTierChain(options: TierChainOptions): TierChain {
  const inFlight = new Set<FailedEvent>();
  const entrance = createEntrance();

  async function firstThatStores(failed: FailedEvent): Promise<Tier['name'] | 'lost'> {
    const { endedBy } = failed.failure;
    const isBehind = isSpilled(failed.failure);
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
      inFlight.add(failed);
      // From here on a stack of its own: that of the application may be used up.
      await entrance.acquire(failed.record.value.length);
      try {
        return await firstThatStores(failed);
      } finally {
        entrance.release();
        inFlight.delete(failed);
      }
    },
    inFlight: () => inFlight,
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

/** Where events begin their way through the tiers, in their order: an outage sends thousands in one turn. */
interface ConcurrencyLimiter {
  /** Resolves when an event of this size may begin. */
  acquire(bytes: number): Promise<void>;
  /** One that has entered has its outcome. */
  release(): void;
  /** Nobody waits any more. */
  open(): void;
}

interface ConcurrencyLimits {
  /** Events on their way at once. There one takes some 9 KB of promises and closures, and 3 KB before (measured). */
  readonly maxOnTheWay: number;
  /** Of those that wait. One more, and the first of them begins: the tiers have bounds of their own. */
  readonly waiting: MemoryLimits;
}

export const usualLimits: ConcurrencyLimits = {
  maxOnTheWay: 1_000,
  waiting: { maxEvents: 10_000, maxBytes: 32 * 1024 * 1024 },
};

export function createEntrance(limits = usualLimits): ConcurrencyLimiter {
  const memory = createMemory(limits.waiting);
  const waiting: (() => void)[] = [];
  let { maxOnTheWay } = limits;
  let onTheWay = 0;

  const beginFirst = (): void => waiting.shift()?.();

  return {
    acquire(bytes) {
      while (onTheWay >= maxOnTheWay || waiting.length > 0) {
        if (memory.reserve(bytes)) {
          return new Promise((resolve) => {
            waiting.push(() => {
              memory.release(bytes);
              onTheWay++;
              resolve();
            });
          });
        }
        if (waiting.length === 0) break;
        beginFirst();
      }
      onTheWay++;
      return Promise.resolve();
    },
    release() {
      onTheWay--;
      if (onTheWay < maxOnTheWay) beginFirst();
    },
    open() {
      maxOnTheWay = Number.POSITIVE_INFINITY;
      while (waiting.length > 0) beginFirst();
    },
  };
}

const places: Readonly<Record<Tier['name'], string>> = { dlq: 'dead letter topic', backup: 'backup' };

/** What is told of events that did not get to their topic: never a payload. */
export interface TierLog {
  /** Says where it is: in a few lines, however many events there are. */
  kept(tier: Tier['name'], failed: FailedEvent): void;
  /** The last ones that went to the dead letter topic, the newest first. */
  recentDlq(): readonly RecentDlqEvent[];
}

export function createKeptEvents(logger: Logger, clock: Clock): TierLog {
  const warn = throttledLog(logger, clock, { level: 'warn' });
  const sayError = throttledLog(logger, clock);
  let recent: readonly RecentDlqEvent[] = [];
  return {
    kept(tier, { event: { eventId, eventType }, topic, failure }) {
      const { cause, message } = failure;
      // Nothing of this machine gets through until somebody sets it.
      const say = faultOf(failure) === 'clock' ? sayError : warn;
      const fields = { eventId, eventType, topic, cause };
      say(`${tier} ${cause}`, `event kept in the ${places[tier]}: ${message}`, fields);
      if (tier !== 'dlq') return;
      const one = { eventType, failureReason: `${cause}: ${message}`, timestampMs: clock.now() };
      recent = [one, ...recent].slice(0, maxRecentDlqEvents);
    },
    recentDlq: () => recent,
  };
}
