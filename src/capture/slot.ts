import { join } from 'node:path';
import { shared } from '../ground/lifecycle.ts';
import type { Scope } from '../transaction/transaction.ts';
import type { CapturePlan, OnCall } from './call.ts';

/** What became of the calls of one captured function. The rest of `calls` went on as events. */
export interface CallCounts {
  /** Captured calls that have ended: returned, resolved, thrown or rejected. */
  calls: number;
  /** Of these, the ones that threw or rejected and made no event, because of their phase. */
  failed: number;
  /** Of these, the ones that `when` made no event of. */
  skipped: number;
}

/**
 * What a wrapper looks at on each call. Mutable on purpose: a configured target takes over from a decorator, and capture is
 * switched off, without wrapping again.
 */
export interface CaptureSlot extends CallCounts {
  plan: CapturePlan;
  /** `null` while capture is off: the wrapper then only calls the function. */
  onCall: OnCall | null;
  /** The number of its next calls in which svc looks for calls of other captured functions. */
  toWatch: number;
  /** Counts a rejection and passes it on. One for all calls: a promise costs no closure more. */
  readonly passOn: (error: unknown) => never;
}

/** The first calls show which captured functions call each other. Later calls pay nothing for it. */
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

/** A call that threw or rejected, where its phase makes no event of that. */
export function countFailure(slot: CaptureSlot, scope?: Scope): void {
  if (slot.onCall === null) return;
  if (scope !== undefined) {
    scope.beforeCommit = undefined;
    if (scope.hasEvent) return;
  }
  slot.calls++;
  slot.failed++;
}

/** What the wrappers of an earlier start hold: a module is loaded once, and its wrappers stay what they are. */
export interface RestingSlot {
  readonly slot: CaptureSlot;
  readonly parameterNames: readonly string[] | undefined;
  /** Builds of a package that have no such wrapper, and why. */
  readonly failedIn: ReadonlyMap<string, string>;
}

interface Place {
  /** A path relative to the configuration, a package, or a `#import`. */
  readonly module: string;
  readonly functionPath: string;
}

/** By file or package, and function. */
const resting = shared('resting-slots', () => new Map<string, RestingSlot>());

/** At the end of a capture: for the next one of this process. */
export function layDown(place: Place, baseDir: string, slot: RestingSlot): void {
  resting.set(keyOf(place, baseDir), slot);
}

/** The slot that wrappers of an earlier start hold; `undefined` where there was none. */
export function pickUp(place: Place, baseDir: string): RestingSlot | undefined {
  const key = keyOf(place, baseDir);
  const found = resting.get(key);
  resting.delete(key);
  return found;
}

function keyOf({ module, functionPath }: Place, baseDir: string): string {
  return `${join(baseDir, module)}#${functionPath}`;
}
