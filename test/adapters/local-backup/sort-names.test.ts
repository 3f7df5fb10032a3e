import assert from 'node:assert/strict';
import { mkdirSync, promises, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import sinon from 'sinon';
import { createLocalSource } from '../../../src/adapters/local-backup/local-source.ts';
import { eventsIn, freshPath } from './backup-folder.ts';

/** Files of these names, in the order in which they are read. */
async function read(names: readonly string[]): Promise<string[]> {
  const directory = freshPath();
  mkdirSync(directory, { mode: 0o700 });
  for (const name of names) writeFileSync(join(directory, name), '{"eventId":"1","eventType":"T"}');
  return (await eventsIn(directory)).map(({ place }) => place);
}

describe('the names of event files', function () {
  this.timeout(30_000);
  const idAt = (index: number): string => String(382_448_737_393_414_144n + BigInt(index) * 4_194_304n);
  const kinds = [
    ['ids', (index: number) => `${idAt((index * 7_919) % 100_003)}.json`],
    ['times', (index: number) => `${1_700_000_000_000 + ((index * 7_919) % 100_003)}.json`],
  ] as const;

  it('are sorted by their ids, those without one first', async () => {
    const sorted = [
      '1700000000000.json',
      '1700000000001.json',
      `${idAt(1)}.json`,
      `${idAt(1)}-1.json`,
      `${idAt(2)}.json`,
    ];
    for (const names of [sorted, sorted.toReversed(), [], sorted.slice(0, 1)])
      assert.deepEqual(await read(names), names.length === 5 ? sorted : names);
  });

  for (const [what, nameOf] of kinds) {
    for (const count of [500, 501, 1_000, 2_203])
      it(`${count} ${what} are sorted`, async () => {
        const names = Array.from({ length: count }, (_, index) => nameOf(index));
        assert.deepEqual(await read(names), names.toSorted());
      });

    it(`of a hundred thousand ${what} are sorted in turns: the application goes on meanwhile`, async () => {
      const directory = freshPath();
      mkdirSync(directory, { mode: 0o700 });
      const source = createLocalSource({ directory, now: Date.now });
      await source.open(false);
      // A folder that takes no turns itself.
      const names = Array.from({ length: 100_000 }, (_, index) => ({ name: nameOf(index) }));
      const listing = sinon.stub(promises, 'opendir').resolves(names as never);
      syncBuiltinESMExports();
      const delay = monitorEventLoopDelay({ resolution: 1 });
      let turns = 0;
      let isSorting = true;
      const turn = (): void => {
        turns++;
        if (isSorting) setImmediate(turn);
      };
      try {
        turn();
        delay.enable();
        assert.equal(await source.count(), 100_000);
      } finally {
        isSorting = false;
        delay.disable();
        listing.restore();
        syncBuiltinESMExports();
      }
      assert.ok(turns > 300, `${turns} turns`);
      assert.ok(delay.percentile(90) < 50e6, `${delay.percentile(90) / 1e6} ms`);
      await source.close();
    });
  }
});
