import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { setImmediate as turn } from 'node:timers/promises';
import sinon from 'sinon';
import { backupEvent, backupIn, freshPath } from '../backup-folder.ts';

/** Writes of `count` events, and of two more: one comes before the writer's next turn, one right after it. */
async function writesOf(count: number): Promise<number> {
  const file = await open(import.meta.filename);
  const writes = sinon.spy(Object.getPrototypeOf(file), 'datasync');
  await file.close();
  const backup = backupIn(freshPath(), { isJournal: true });
  try {
    const stored = Array.from({ length: count }, (_, index) => backup.store(backupEvent(String(index))));
    await stored[0];
    stored.push(turn().then(() => backup.store(backupEvent('first'))));
    // Until the writer waits for its turn.
    for (let step = 0; step < 100; step++) await undefined;
    stored.push(turn().then(() => backup.store(backupEvent('second'))));
    await Promise.all(stored);
    return writes.callCount;
  } finally {
    writes.restore();
    await backup.close(1_000);
  }
}

describe('events that wait for company on their way to the disk', () => {
  for (const [written, waiting, isOne] of [
    [1, 0, false],
    [2, 0, true],
    [1_000, 199, true],
    [1_000, 200, false],
  ] as const)
    it(`${isOne ? 'do' : 'do not'} where ${written} were written last, and ${waiting} are there`, async () => {
      assert.equal(await writesOf(written + waiting), isOne ? 2 : 3);
    });
});
