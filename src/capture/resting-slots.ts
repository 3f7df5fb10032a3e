import { join } from 'node:path';
import { shared } from '../ground/lifecycle.ts';
import type { CaptureSlot } from './slot.ts';

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
