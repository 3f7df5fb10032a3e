import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { sortNames } from '../../../src/adapters/local-backup/local-source.ts';

describe('the names of event files', function () {
  this.timeout(30_000);
  const idAt = (index: number): string => String(382_448_737_393_414_144n + BigInt(index) * 4_194_304n);

  it('are sorted by their ids, those without one first', async () => {
    const sorted = [
      '1700000000000.json',
      '1700000000001.json',
      `${idAt(1)}.json`,
      `${idAt(1)}-1.json`,
      `${idAt(2)}.json`,
    ];
    for (const names of [sorted, sorted.toReversed(), [], sorted.slice(0, 1)])
      assert.deepEqual(await sortNames(names), names.length === 5 ? sorted : names);
  });

  for (const [what, nameOf] of [
    ['ids', (index: number) => `${idAt((index * 7_919) % 100_003)}.json`],
    ['times', (index: number) => `${1_700_000_000_000 + ((index * 7_919) % 100_003)}.json`],
  ] as const)
    it(`of a hundred thousand ${what} are sorted in turns: the application goes on meanwhile`, async () => {
      const names = Array.from({ length: 100_000 }, (_, index) => nameOf(index));
      const expected = names.toSorted();
      const delay = monitorEventLoopDelay({ resolution: 1 });
      let turns = 0;
      let isSorting = true;
      const turn = (): void => {
        turns++;
        if (isSorting) setImmediate(turn);
      };
      turn();
      delay.enable();
      const sorted = await sortNames(names);
      isSorting = false;
      delay.disable();
      assert.deepEqual(sorted, expected);
      assert.ok(turns > 300, `${turns} turns`);
      assert.ok(delay.percentile(90) < 50e6, `${delay.percentile(90) / 1e6} ms`);
    });
});
