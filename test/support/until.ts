import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Waiting {
  /** Default: 8 s, less than mocha gives a test: the failure then tells what did not come. */
  readonly limitMs?: number;
  /** Default: 20 ms. */
  readonly everyMs?: number;
  /** What else a failure tells. */
  readonly say?: () => unknown;
}

/** Asks again and again until it is so, as most of what is waited for tells nobody; fails after `limitMs`. */
export async function until(
  isSo: () => unknown,
  { limitMs = 8_000, everyMs = 20, say = () => '' }: Waiting = {},
): Promise<void> {
  for (const endMs = performance.now() + limitMs; !(await isSo()); await sleep(everyMs))
    if (performance.now() > endMs) assert.fail(`not within ${limitMs} ms: ${isSo}\n${await say()}`);
}
