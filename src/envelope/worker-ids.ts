import type { Clock } from '../clock.ts';
import type { WorkerIdGrant } from './worker-id-lease.ts';

/** How a worker id was come by. `derived`: another process may have the same one. */
export type WorkerIdSource = 'configured' | 'kafka' | 'host' | 'derived';

export interface WorkerId {
  readonly workerId: number;
  readonly source: WorkerIdSource;
}

/** Which worker id the ids of this process carry at the moment. */
export interface WorkerIds {
  /** For an id made now. Costs a comparison within a millisecond; looks at the lease in each new one. */
  current(): WorkerId;
  grant(grant: WorkerIdGrant | undefined): void;
}

/**
 * The one that is leased as long as the lease runs by the clocks of this process, looked at when an id is made: a process that
 * was stopped for a minute has no timer that would have told it. Otherwise `own`.
 */
export function createWorkerIds(own: WorkerId, source: WorkerIdSource, clock: Clock): WorkerIds {
  let granted: WorkerIdGrant | undefined;
  let leased: WorkerId | undefined;
  let now = own;
  let checkedMs = Number.NaN;
  let latestMs = Number.NEGATIVE_INFINITY;

  /** Ids count on from the latest time where the clock steps back, so it is this one that must be within the lease. */
  function isLeased({ from, until }: WorkerIdGrant, wallMs: number): boolean {
    if (latestMs >= until.wallMs || wallMs < from.wallMs) return false;
    const monotonicMs = clock.monotonic();
    return monotonicMs >= from.monotonicMs && monotonicMs < until.monotonicMs;
  }

  return {
    current() {
      const wallMs = clock.now();
      if (wallMs === checkedMs) return now;
      checkedMs = wallMs;
      if (wallMs > latestMs) latestMs = wallMs;
      now = granted !== undefined && leased !== undefined && isLeased(granted, wallMs) ? leased : own;
      return now;
    },
    grant(grant) {
      granted = grant;
      if (grant?.workerId !== leased?.workerId) leased = grant && { workerId: grant.workerId, source };
      checkedMs = Number.NaN;
    },
  };
}
