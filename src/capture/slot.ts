import { join } from 'node:path';
import { shared } from '../ground/lifecycle.ts';
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

/** What the wrappers of an earlier start hold. A module is loaded once, and its wrappers stay. */
export interface RestingSlot {
  readonly slot: CaptureSlot;
  readonly parameterNames: readonly string[] | undefined;
  /** Builds of a package without such a wrapper, and why. */
  readonly failedIn: ReadonlyMap<string, string>;
}

interface Place {
  readonly module: string;
  readonly functionPath: string;
}

const resting = shared('resting-slots', () => new Map<string, RestingSlot>());

/** At the end of a capture, keeps the slot for the next one of this process. */
export function layDown(place: Place, baseDir: string, slot: RestingSlot): void {
  resting.set(keyOf(place, baseDir), slot);
}

export function pickUp(place: Place, baseDir: string): RestingSlot | undefined {
  const key = keyOf(place, baseDir);
  const found = resting.get(key);
  resting.delete(key);
  return found;
}

function keyOf({ module, functionPath }: Place, baseDir: string): string {
  return `${join(baseDir, module)}#${functionPath}`;
}
