import assert from 'node:assert/strict';
import { clock } from '../../src/ground/clock.ts';
import { logger } from '../../src/observe/logger.ts';
import { useClock } from './fake-time.ts';
import { useLogger } from './log.ts';

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

describe('the log of a test', () => {
  const lines: string[] = [];

  it('is the one that it uses, and silent in what that leaves out', () => {
    useLogger({ warn: (line) => void lines.push(line) });
    logger.warn('away');
    logger.error('not heard');
    assert.deepEqual(lines, ['away']);
  });

  it('is silent again in the next test', () => {
    logger.warn('back');
    assert.deepEqual(lines, ['away']);
  });
});
