import assert from 'node:assert/strict';
import { isStream } from '../../../../src/adapters/local-backup/local-backup.ts';

describe('events that wait for company on their way to the disk', () => {
  for (const [written, waiting, isOne] of [
    [1, 0, false],
    [2, 0, true],
    [2, 199, true],
    [2, 200, false],
  ] as const)
    it(`${isOne ? 'do' : 'do not'} where ${written} were written last, and ${waiting} are there`, () => {
      assert.equal(isStream(written, waiting), isOne);
    });
});
