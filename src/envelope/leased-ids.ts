import type { Clock } from '../ground/clock.ts';
import { createSnowflake } from './snowflake.ts';
import type { WorkerIdGrant } from './worker-id-lease.ts';

/** How a worker id was come by. `derived`: another process may have the same one. */
export type WorkerIdSource = 'configured' | 'kafka' | 'host' | 'derived';

export interface WorkerId {
  readonly workerId: number;
  readonly source: WorkerIdSource;
}

export interface LeasedIds {
  /** As `Snowflake.next`. */
  next(): string;
  /** Of an id that is made now. */
  worker(): WorkerId;
  grant(grant: WorkerIdGrant | undefined): void;
}

export interface LeasedIdsOptions {
  /** Without a lease, and whenever there is none. */
  readonly own: WorkerId;
  /** Of the worker ids that are granted. */
  readonly source: WorkerIdSource;
  readonly clock: Clock;
}

/**
 * Ids with the worker id that is leased, as long as the lease runs by the clocks of this process; they are looked at in every
 * millisecond in which an id is made, because the timers of a process that was stopped for a minute come too late. The time in
 * an id is the one that was looked at: being stopped right after that does no harm.
 */
export function createLeasedIds({ own, source, clock }: LeasedIdsOptions): LeasedIds {
  let nowMs = Number.NaN;
  let checkedMs = Number.NaN;
  /** Ids count on from here where the clock steps back, so it is this time that must be within the lease. */
  let latestMs = Number.NEGATIVE_INFINITY;
  let granted: WorkerIdGrant | undefined;
  let leased = own;
  let current = own;
  const snowflake = createSnowflake({
    workerId: own.workerId,
    clock: { now: () => nowMs, monotonic: clock.monotonic },
  });

  function look(): void {
    nowMs = clock.now();
    if (nowMs === checkedMs) return;
    checkedMs = nowMs;
    if (nowMs > latestMs) latestMs = nowMs;
    current = granted !== undefined && isRunning(granted) ? leased : own;
  }

  function isRunning({ from, until }: WorkerIdGrant): boolean {
    if (nowMs < from.wallMs || latestMs >= until.wallMs) return false;
    const monotonicMs = clock.monotonic();
    return monotonicMs >= from.monotonicMs && monotonicMs < until.monotonicMs;
  }

  return {
    next() {
      look();
      const { workerId } = current;
      if (workerId !== snowflake.workerId) snowflake.useWorkerId(workerId);
      return snowflake.next();
    },
    worker() {
      look();
      return current;
    },
    grant(grant) {
      granted = grant;
      if (grant !== undefined && (leased === own || grant.workerId !== leased.workerId))
        leased = { workerId: grant.workerId, source };
      checkedMs = Number.NaN;
    },
  };
}
