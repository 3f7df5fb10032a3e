import assert from 'node:assert/strict';
import { clock } from '../../src/ground/clock.ts';
import { useClock } from './fake-time.ts';

describe('the clock of a test', () => {
  const isReal = (): boolean => Math.abs(clock.now() - Date.now()) < 1_000 && clock.monotonic() > 0;

  it('is the one that it uses, and real in what that leaves out', () => {
    useClock({ monotonic: () => -1 });
    assert.deepEqual([clock.monotonic(), Math.abs(clock.now() - Date.now()) < 1_000], [-1, true]);
    useClock({ now: () => 7 });
    assert.deepEqual([clock.now(), clock.monotonic() > 0], [7, true]);
  });

  it('is the real one again in the next test', () => assert.ok(isReal()));
});
