import assert from 'node:assert/strict';
import {
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { useFakeTimers } from 'sinon';
import { createLocalSource } from '../../../src/adapters/local-backup/local-source.ts';
import type { RecoverySource, Unreadable } from '../../../src/publish/recovery-source.ts';
import { useClock } from '../../support/fake-time.ts';
import { until } from '../../support/until.ts';
import { backupEvent, backupIn, freshPath, type LocalBackup, namesIn } from './backup-folder.ts';

const store = (backup: LocalBackup, ...ids: number[]): Promise<unknown> =>
  Promise.all(ids.map((id) => backup.store(backupEvent(String(id)))));
const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, n) => from + n);

async function readAll(source: RecoverySource, marks = true) {
  const ids: number[] = [];
  const unreadable: Unreadable[] = [];
  await source.open(true);
  for await (const batch of source.read(10)) {
    ids.push(...batch.events.map(({ eventId }) => Number(eventId)));
    unreadable.push(...batch.unreadable);
    if (marks && batch.events.length > 0) await source.done(batch.events);
  }
  await source.close();
  return { ids, unreadable };
}

const leftIn = (directory: string) => readAll(createLocalSource({ directory, now: Date.now }));
const ownOf = (directory: string, backup: LocalBackup) =>
  readAll(createLocalSource({ directory, now: Date.now, own: ownFrom(backup, 0) }));
const ownFrom = (backup: LocalBackup, id: number) => async () => ({
  names: await backup.journal(),
  from: BigInt(id),
});

/** As if another process had written it: `pid` and the like in the names, whose writer thus is gone or elsewhere. */
function exchange(directory: string, change: (name: string) => string): string[] {
  for (const name of namesIn(directory)) renameSync(join(directory, name), join(directory, change(name)));
  return namesIn(directory);
}
const stamp = /-(\d+)-([0-9a-f]{8})-([0-9a-f]{8})-(\d+)-(\d+)\.ndjson/;
const generationOf = (name: string): number => Number(name.split('-')[1]);
const ofDead = (name: string): string => name.replace(stamp, '-$1-$2-$3-$4-1.ndjson');
const ofOtherHost = (name: string): string => name.replace(stamp, '-$1-$2-00000000-$4-$5.ndjson');

describe('journal of the local backup', () => {
  it('is read by its own process alone, in the order of the ids, and what is done is not read again', async () => {
    const directory = freshPath();
    const backup = backupIn(directory, { isJournal: true });
    await store(backup, 1_005, 1_006);
    await store(backup, 1_001, 1_007);
    assert.match(
      namesIn(directory).join(),
      /^segment-\d{13}-\d+-[0-9a-f]{8}-[0-9a-f]{8}-\d+-\d+\.ndjson\.open$/,
    );
    const others = await leftIn(directory);
    assert.deepEqual([others.ids, others.unreadable.map(({ isInUse }) => isInUse)], [[], [true]]);
    assert.deepEqual((await ownOf(directory, backup)).ids, [1_001, 1_005, 1_006, 1_007]);
    await store(backup, 1_008);
    assert.deepEqual((await ownOf(directory, backup)).ids, [1_008]);
    assert.deepEqual([namesIn(directory), await backup.journal()], [[], []]);
    assert.ok(namesIn(join(directory, 'recovered')).every((name) => name.endsWith('.ndjson')));
    await backup.close(1_000);
  });

  it('gives nothing before the event that is asked for, and does not read a segment again that is all before it', async () => {
    const directory = freshPath();
    const backup = backupIn(directory, { isJournal: true });
    await store(backup, ...range(1_001, 3));
    let from = 0;
    const own = () => ownFrom(backup, from)();
    const source = createLocalSource({ directory, now: Date.now, own });
    assert.deepEqual((await readAll(source, false)).ids, [1_001, 1_002, 1_003]);
    const [first = ''] = namesIn(directory);
    await store(backup, ...range(1_004, 3));
    // Whoever reads it now finds nothing.
    const text = readFileSync(join(directory, first));
    writeFileSync(join(directory, first), text.toString().replaceAll('eventId', 'nothing'));
    from = 1_005;
    assert.deepEqual(await readAll(source), { ids: [1_005, 1_006], unreadable: [] });
    writeFileSync(join(directory, first), text);
    from = 1_003;
    assert.deepEqual((await readAll(source)).ids, [1_003, 1_004]);
    from = 0;
    assert.deepEqual((await readAll(source)).ids, [1_001, 1_002]);
    assert.deepEqual(namesIn(directory), []);
    await backup.close(1_000);
  });

  it('of a process that is gone is taken over as a whole, before what comes later, whatever the clock says', async () => {
    const directory = freshPath();
    const first = backupIn(directory, { isJournal: true });
    await store(first, ...range(5_000, 20));
    exchange(directory, ofDead);
    useClock({ now: () => Date.now() - 86_400_000 });
    const second = backupIn(directory, { isJournal: true });
    await store(second, ...range(1_000, 20));
    exchange(directory, ofDead);
    const [one = '', other = ''] = namesIn(directory);
    assert.equal(generationOf(other), generationOf(one) + 1);
    const third = backupIn(directory, { isJournal: true });
    await store(third, 500);
    assert.deepEqual((await leftIn(directory)).ids, [...range(5_000, 20), ...range(1_000, 20)]);
    assert.deepEqual((await ownOf(directory, third)).ids, [500]);
    for (const backup of [first, second, third]) await backup.close(1_000);
  });

  it('of another host or container counts as in use for a minute after its last heartbeat', async () => {
    const directory = freshPath();
    const backup = backupIn(directory, { isJournal: true });
    await store(backup, 1_001);
    const [name = ''] = exchange(directory, ofOtherHost);
    const source = createLocalSource({ directory, now: Date.now });
    const [doubtful] = (await readAll(source)).unreadable;
    assert.deepEqual([doubtful?.isInUse, doubtful?.isDoubtful], [true, true]);
    const heartbeat = new Date(Date.now() - 1_000);
    utimesSync(join(directory, name), heartbeat, heartbeat);
    const [alive] = (await readAll(source)).unreadable;
    assert.deepEqual([alive?.isInUse, alive?.isDoubtful], [true, undefined]);
    const old = new Date(Date.now() - 61_000);
    utimesSync(join(directory, name), old, old);
    assert.deepEqual((await leftIn(directory)).ids, [1_001]);
    await backup.close(1_000);
  });

  it('a segment that is damaged in its middle: the rest goes on in order, the lines are named', async () => {
    const directory = freshPath();
    const backup = backupIn(directory, { isJournal: true });
    await store(backup, ...range(1_000, 9));
    const [name = ''] = namesIn(directory);
    const lines = readFileSync(join(directory, name), 'utf8').split('\n');
    lines[4] = '\0\0\0{"eventId"';
    writeFileSync(join(directory, name), lines.join('\n'));
    const { ids, unreadable } = await ownOf(directory, backup);
    assert.deepEqual(ids, [...range(1_000, 4), ...range(1_005, 4)]);
    assert.deepEqual(unreadable, [{ place: `${name}:5`, reason: 'it holds no event' }]);
    assert.deepEqual((await ownOf(directory, backup)).ids, []);
    await backup.close(1_000);
  });

  it('a segment that is not read at all is told from a damaged line: it may be read another time', async () => {
    const directory = freshPath();
    const backup = backupIn(directory, { isJournal: true });
    await store(backup, ...range(1_000, 3));
    const [name = ''] = namesIn(directory);
    const { size } = statSync(join(directory, name));
    truncateSync(join(directory, name), 1024 ** 3 + 1);
    const { ids, unreadable } = await ownOf(directory, backup);
    assert.deepEqual([ids, unreadable.map(({ place, mayPass }) => [place, mayPass])], [[], [[name, true]]]);
    truncateSync(join(directory, name), size);
    assert.deepEqual((await ownOf(directory, backup)).ids, range(1_000, 3));
    await backup.close(1_000);
  });

  it('at the end its segments are handed over as they are, and what comes later stays behind', async () => {
    const directory = freshPath();
    const backup = backupIn(directory, { isJournal: true });
    await store(backup, 1_005);
    await backup.close(5_000);
    const later = backupIn(directory, { isJournal: true });
    await store(later, 900);
    later.storeSync([backupEvent('901')]);
    later.endSync();
    later.storeSync([backupEvent('902')]);
    assert.equal(namesIn(directory).length, 4);
    for (const name of namesIn(directory)) assert.match(name, /^segment-.*\.ndjson$/);
    assert.deepEqual((await leftIn(directory)).ids, [1_005, 900, 901, 902]);
    await later.close(1_000);
  });

  it('stays one, and shows every ten seconds that its process lives', async () => {
    const time = useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    try {
      const directory = freshPath();
      const backup = backupIn(directory, { isJournal: true });
      await store(backup, 1_001);
      await backup.journal();
      await store(backup, 1_002);
      const isTouched = (): boolean =>
        namesIn(directory).every((name) => statSync(join(directory, name)).mtimeMs > 60_000);
      const makeOld = (): void => {
        for (const name of namesIn(directory)) utimesSync(join(directory, name), 1, 1);
      };
      makeOld();
      await sleep(1_200);
      assert.ok(namesIn(directory).every((name) => name.endsWith('.open')));
      time.tick(9_999);
      await sleep(100);
      assert.equal(isTouched(), false);
      time.tick(1);
      await until(isTouched);
      await backup.close(1_000);
      makeOld();
      time.tick(20_000);
      await sleep(100);
      assert.equal(isTouched(), false);
    } finally {
      time.restore();
    }
  });

  it('a generation is greater than all in the folder, and than none of what has none', async () => {
    const journal = 'segment-1795299716250-7-00000001-0000000a-7-5.ndjson';
    for (const [names, nowMs, generation] of [
      [[journal, 'x.json'], 5, 1_795_299_716_251],
      [[journal], 1_800_000_000_000, 1_800_000_000_000],
      [['segment-1795299716250-7-00000001.ndjson'], 5, 5],
      [[], 5, 5],
    ] as const) {
      const directory = freshPath();
      mkdirSync(directory, { mode: 0o700 });
      for (const name of names) writeFileSync(join(directory, name), '');
      useClock({ now: () => nowMs });
      const backup = backupIn(directory, { isJournal: true });
      await store(backup, 1_001);
      const [made] = await backup.journal();
      assert.match(made ?? '', /^segment-\d{13}-/);
      assert.equal(generationOf(made ?? ''), generation);
      await backup.close(1_000);
    }
  });
});
