import type { Scope } from '../transaction/transaction.ts';
import type { CapturePlan, OnCall } from './call.ts';

/** Counts of the calls of one captured function. The rest of `calls` became events. */
export interface CallCounts {
  /** Captured calls that have ended: returned, resolved, thrown or rejected. */
  calls: number;
  /** Of these, the ones that threw or rejected and made no event in their phase. */
  failed: number;
  skipped: number;
}

/** What a wrapper reads on each call. Mutable, so that a target can take over, or capture stop, without another wrapper. */
export interface CaptureSlot extends CallCounts {
  plan: CapturePlan;
  /** `null` while capture is off: the wrapper only calls the function. */
  onCall: OnCall | null;
  /** How many of its next calls svc watches for calls of other captured functions. */
  toWatch: number;
  /** Counts a rejection and rethrows it. Shared by all calls, which saves a closure per promise. */
  readonly passOn: (error: unknown) => never;
}

/** How many calls show which captured functions call each other. Later calls have no cost. */
const watchedCalls = 64;

export function createSlot(plan: CapturePlan, onCall: OnCall | null): CaptureSlot {
  const slot: CaptureSlot = {
    plan,
    onCall,
    toWatch: watchedCalls,
    calls: 0,
    failed: 0,
    skipped: 0,
    passOn(error) {
      countFailure(slot);
      throw error;
    },
  };
  return slot;
}

/** Counts a call that threw or rejected and makes no event in its phase. */
export function countFailure(slot: CaptureSlot, scope?: Scope): void {
  if (slot.onCall === null) return;
  if (scope !== undefined) {
    scope.beforeCommit = undefined;
    if (scope.hasEvent) return;
  }
  slot.calls++;
  slot.failed++;
}
