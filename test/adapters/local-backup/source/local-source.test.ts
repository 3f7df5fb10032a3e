import assert from 'node:assert/strict';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { lockDirectory } from '../../../../src/adapters/local-backup/backup-directory.ts';
import { createLocalSource } from '../../../../src/adapters/local-backup/local-source.ts';
import { createSnowflake } from '../../../../src/envelope/ids.ts';
import { claimsIn, ownStamp } from '../../../../src/ground/claims.ts';
import type { StoredBatch, StoredEvent } from '../../../../src/publish/recovery-source.ts';
import { eventIds } from '../../../support/event-ids.ts';
import { useClock } from '../../../support/fake-time.ts';
import { backupEvent, backupIn, eventsIn, freshPath, namesIn } from '../backup-folder.ts';

type IdOf = (number: number) => string;

/** In the order of their numbers. */
const numberId: IdOf = String;
const uuid: IdOf = (number) =>
  `019c5e1f-3c80-7${(number >>> 10).toString(16).padStart(3, '0')}-${(0x800 | (number & 0x3ff)).toString(16)}7-0123456789ab`;

async function filled(directory: string, files: number, lines: number, idOf = numberId): Promise<void> {
  const backup = backupIn(directory, { maxFiles: files });
  for (let id = 1; id <= files + lines; id++) await backup.store(backupEvent(idOf(1_000 + id)));
  await backup.close(1_000);
}

/** Recovers `take` of each batch, then goes on. */
async function recoverFrom(
  directory: string,
  options: { size?: number; accept?: (event: StoredEvent) => boolean; stopAfter?: number } = {},
): Promise<{ ids: string[]; batches: StoredBatch[] }> {
  const { size = 3, accept = () => true, stopAfter = Number.POSITIVE_INFINITY } = options;
  const source = createLocalSource({ directory, now: Date.now });
  const ids: string[] = [];
  const batches: StoredBatch[] = [];
  await source.open(true);
  try {
    for await (const batch of source.read(size)) {
      batches.push(batch);
      const accepted = batch.events.filter(accept);
      ids.push(...accepted.map(({ eventId }) => eventId));
      await source.done(accepted);
      if (batches.length >= stopAfter) break;
    }
  } finally {
    await source.close();
  }
  return { ids, batches };
}

const ids = (from: number, to: number, idOf = numberId): string[] =>
  Array.from({ length: to - from + 1 }, (_, index) => idOf(1_000 + from + index));

/** Above the highest that Linux gives. */
const deadPid = 4_194_305;

const writtenBy = (segment: string, pid: number): string =>
  segment.replace(/-\d+(-[0-9a-f]{8})[^.]*\./, `-${pid}$1.`);

for (const [kind, idOf] of [
  ['numbers', numberId],
  ['UUIDs', uuid],
] as const) {
  describe(`recovery from a backup folder, of events whose ids are ${kind}`, () => {
    it('gives events in the order of their ids, in whichever file or segment they lie', async () => {
      const directory = freshPath();
      const backup = backupIn(directory, { maxFiles: 3 });
      // The send that was under way when the others were given up comes last.
      for (const id of [1009, 1002, 999]) await backup.store(backupEvent(idOf(id)));
      for (const id of [1005, 1004, 1028]) await backup.store(backupEvent(idOf(id)));
      await backup.finishSegments();
      for (const id of [1003, 1006]) await backup.store(backupEvent(idOf(id)));
      await backup.close(1_000);
      assert.equal(namesIn(directory).filter((name) => name.startsWith('segment-')).length, 2);
      const { ids: recovered, batches } = await recoverFrom(directory, { size: 3 });
      assert.deepEqual(recovered, [999, 1002, 1003, 1004, 1005, 1006, 1009, 1028].map(idOf));
      assert.deepEqual(
        batches.map(({ events }) => events.length),
        [3, 3, 2],
      );
      assert.deepEqual(namesIn(directory), []);
    });

    it('gives files and segments, oldest first, and leaves nothing but recovered/', async () => {
      const directory = freshPath();
      await filled(directory, 4, 5, idOf);
      const { ids: recovered, batches } = await recoverFrom(directory);
      assert.deepEqual(recovered, ids(1, 9, idOf));
      assert.ok(batches.every(({ events }) => events.length <= 3));
      assert.deepEqual(namesIn(directory), []);
      assert.equal(namesIn(join(directory, 'recovered')).length, 5);
      assert.deepEqual((await recoverFrom(directory)).ids, []);
    });

    it('what is recovered can be restored once more from there', async () => {
      const directory = freshPath();
      await filled(directory, 2, 2, idOf);
      await recoverFrom(directory);
      const again = await eventsIn(join(directory, 'recovered'));
      assert.deepEqual(
        again.map(({ eventId, topic }) => [eventId, topic]),
        ids(1, 4, idOf).map((id) => [id, 'orders']),
      );
    });

    it('with filters leaves the others, in files and inside a segment', async () => {
      const directory = freshPath();
      await filled(directory, 4, 6, idOf);
      const all = ids(1, 10, idOf);
      const isEven = ({ eventId }: StoredEvent): boolean => all.indexOf(eventId) % 2 === 1;
      assert.deepEqual(
        (await recoverFrom(directory, { accept: isEven })).ids,
        all.filter((_, index) => index % 2 === 1),
      );
      assert.deepEqual(
        (await recoverFrom(directory)).ids,
        all.filter((_, index) => index % 2 === 0),
      );
      assert.deepEqual(namesIn(directory), []);
    });

    it('goes on where a run was ended: nothing twice, nothing left out', async () => {
      const directory = freshPath();
      await filled(directory, 4, 8, idOf);
      const seen: string[] = [];
      for (let run = 0; run < 10; run++) seen.push(...(await recoverFrom(directory, { stopAfter: 1 })).ids);
      assert.deepEqual(seen, ids(1, 12, idOf));
      assert.deepEqual(namesIn(directory), []);
    });

    it('a crash before a batch is marked repeats that batch, and no more', async () => {
      const directory = freshPath();
      await filled(directory, 0, 7, idOf);
      const source = createLocalSource({ directory, now: Date.now });
      await source.open(true);
      const reading = source.read(3)[Symbol.asyncIterator]();
      await source.done((await reading.next()).value.events);
      await reading.next();
      await source.close();
      assert.deepEqual((await recoverFrom(directory)).ids, ids(4, 7, idOf));
    });
  });
}

describe('recovery from a backup folder', () => {
  it('gives events whose ids are numbers and UUIDs in the order of their times', async () => {
    const directory = freshPath();
    const clock = useClock({ ms: Date.UTC(2026, 2, 4), now: (): number => clock.ms });
    const [numbers, uuids] = [createSnowflake({ workerId: 3 }), eventIds({ type: 'uuidv7' })];
    const made = Array.from({ length: 12 }, (_, index) => {
      clock.ms += 10;
      return (index % 3 === 0 ? numbers : uuids).next();
    });
    const backup = backupIn(directory, { maxFiles: 6 });
    for (const at of [11, 0, 9, 1, 10, 3, 2, 8, 4, 7, 5, 6]) {
      await backup.store(backupEvent(made[at] as string));
    }
    await backup.close(1_000);
    assert.deepEqual((await recoverFrom(directory)).ids, made);
  });

  it('says what is no event, and leaves it', async () => {
    const directory = freshPath();
    await filled(directory, 1, 2);
    writeFileSync(join(directory, 'notes.json'), 'hello');
    mkdirSync(join(directory, 'folder.json'));
    const [segment] = readdirSync(directory).filter((name) => name.startsWith('segment-')) as [string];
    appendFileSync(join(directory, segment), '{"eventId":"9"}\n{"eventId":"10","val');
    const { ids: recovered, batches } = await recoverFrom(directory);
    assert.deepEqual(recovered, ids(1, 3));
    assert.deepEqual(
      batches.flatMap(({ unreadable }) => unreadable),
      [
        { place: `${segment}:4`, reason: 'the line was cut off during its write' },
        { place: 'notes.json', reason: 'it holds no event' },
        { place: 'folder.json', reason: 'it is not a file' },
        { place: `${segment}:3`, reason: 'it holds no event' },
      ],
    );
    assert.deepEqual(namesIn(directory), ['folder.json', 'notes.json', segment, `${segment}.done`]);
    assert.deepEqual((await recoverFrom(directory)).ids, []);
  });

  it('a segment that ends in half a line is recovered for all that counts', async () => {
    const directory = freshPath();
    await filled(directory, 0, 2);
    const [segment] = namesIn(directory) as [string];
    appendFileSync(join(directory, segment), '{"eventId":"9","val');
    assert.deepEqual((await recoverFrom(directory)).ids, ids(1, 2));
    assert.deepEqual(namesIn(directory), []);
  });

  it('reads bare event files that other tools have put there: the topic is then not known', async () => {
    const directory = freshPath();
    mkdirSync(directory, { mode: 0o700 });
    writeFileSync(join(directory, '77.json'), '{"eventId":"77","eventType":"T","payload":{}}');
    const [event] = await eventsIn(directory);
    assert.deepEqual(
      [event?.eventId, event?.eventType, event?.topic, event?.key, event?.storedAt],
      ['77', 'T', undefined, '77', 0],
    );
  });

  it('leaves a segment of an older version alone that a living process writes, and takes that of a dead one', async () => {
    const directory = freshPath();
    await filled(directory, 0, 1);
    const [name] = namesIn(directory) as [string];
    const living = writtenBy(name, process.ppid);
    renameSync(join(directory, name), join(directory, `${living}.open`));
    assert.deepEqual((await recoverFrom(directory)).ids, []);
    assert.deepEqual((await eventsIn(directory)).length, 1, 'a list shows it');
    const dead = writtenBy(name, deadPid);
    renameSync(join(directory, `${living}.open`), join(directory, `${dead}.open`));
    assert.deepEqual((await recoverFrom(directory)).ids, ids(1, 1));
  });

  it('takes an open segment of an older version that has not been touched for a minute', async () => {
    const directory = freshPath();
    await filled(directory, 0, 1);
    const [name] = namesIn(directory) as [string];
    const open = join(directory, `${writtenBy(name, process.ppid)}.open`);
    renameSync(join(directory, name), open);
    const age = (ms: number): void => utimesSync(open, new Date(Date.now() - ms), new Date(Date.now() - ms));
    age(58_000);
    assert.deepEqual((await recoverFrom(directory)).ids, []);
    age(61_000);
    assert.deepEqual((await recoverFrom(directory)).ids, ids(1, 1));
  });

  it('one process at a time; a claim of a dead one does not hold', async () => {
    const directory = freshPath();
    await filled(directory, 1, 0);
    const lock = lockDirectory(directory);
    await assert.rejects(recoverFrom(directory), { code: 'SVC_ADAPTERS_BACKUP_BUSY' });
    assert.equal((await eventsIn(directory)).length, 1, 'a list needs no lock');
    lock.release();
    claimsIn(join(directory, '.lock'), { ...ownStamp(), pid: deadPid }).add('backup');
    assert.deepEqual((await recoverFrom(directory)).ids, ids(1, 1));
    assert.deepEqual(readdirSync(join(directory, '.lock')), []);
  });

  it('a claim of another host holds for a minute after its last heartbeat', async () => {
    const directory = freshPath();
    await filled(directory, 1, 0);
    mkdirSync(join(directory, '.lock'), { mode: 0o700 });
    const claim = join(directory, '.lock', 'backup.00000000.1.1.1.000000000000');
    writeFileSync(claim, '');
    const age = (ms: number): void => utimesSync(claim, new Date(Date.now() - ms), new Date(Date.now() - ms));
    age(58_000);
    await assert.rejects(recoverFrom(directory), { code: 'SVC_ADAPTERS_BACKUP_BUSY' });
    age(61_000);
    assert.deepEqual((await recoverFrom(directory)).ids, ids(1, 1));
    assert.equal(existsSync(claim), false);
  });

  it('says that there is no folder, and no such file', async () => {
    const directory = freshPath();
    await assert.rejects(recoverFrom(directory), /does not exist/);
    await filled(directory, 1, 0);
    const source = createLocalSource({ directory, file: 'nothing.json', now: Date.now });
    await assert.rejects(source.open(false), /there is no file "nothing.json"/);
    rmSync(directory, { recursive: true });
  });

  it('a file that can hold no event is said to be none, and not passed over', async () => {
    const directory = freshPath();
    await filled(directory, 1, 0);
    writeFileSync(join(directory, 'notes.txt'), 'hello');
    const source = createLocalSource({ directory, file: 'notes.txt', now: Date.now });
    await assert.rejects(source.open(false), /"notes.txt" is neither an event file \(\.json\) nor a segment/);
  });

  for (const [what, put] of [
    ['a link', (path: string) => symlinkSync('/tmp', path)],
    ['a file', (path: string) => writeFileSync(path, '')],
  ] as const) {
    it(`${what} in the place of recovered/ is one line, and nothing is taken`, async () => {
      const directory = freshPath();
      await filled(directory, 2, 0);
      put(join(directory, 'recovered'));
      const source = createLocalSource({ directory, now: Date.now });
      await assert.rejects(source.open(true), {
        code: 'SVC_ADAPTERS_BACKUP_DIRECTORY',
        message: `"${join(directory, 'recovered')}" is not used: it is a link or a file, but must be a folder. Move it away`,
      });
      await source.close();
      assert.equal(namesIn(directory).length, 2);
    });
  }

  it('what the file system refuses is one line', async () => {
    const directory = freshPath();
    await filled(directory, 1, 0);
    const source = createLocalSource({ directory, now: Date.now });
    await source.open(true);
    const reading = source.read(3)[Symbol.asyncIterator]();
    const { events } = (await reading.next()).value;
    rmSync(join(directory, 'recovered'), { recursive: true });
    await assert.rejects(source.done(events), (error: Error & { code: string }) => {
      assert.equal(error.code, 'SVC_ADAPTERS_BACKUP_FAILED');
      assert.match(error.message, /^the backup folder ".*" cannot be used: ENOENT \(rename .*1001\.json\)$/);
      return true;
    });
    await source.close();
    assert.deepEqual(namesIn(directory), ['1001.json']);
  });

  it('sets aside files and lines: read no more, and restored from where they are then', async () => {
    const directory = freshPath();
    await filled(directory, 1, 2);
    const bytes = backupEvent('1001').value.length;
    for (const [maxAsideBytes, isRoom] of [
      [2 * bytes - 1, false],
      [1024 ** 2, true],
    ] as const) {
      const source = createLocalSource({ directory, maxAsideBytes, now: Date.now });
      await source.open(true);
      for await (const { events } of source.read(10)) {
        const place = await source.setAside?.(events.slice(0, 2));
        assert.equal(place?.startsWith(join(directory, 'too-large')), isRoom ? true : undefined);
      }
      await source.close();
    }
    assert.deepEqual((await recoverFrom(directory)).ids, ids(3, 3));
    assert.deepEqual(namesIn(directory), []);
    const list = createLocalSource({ directory, withAside: true, now: Date.now });
    await list.open(false);
    const listed: string[] = [];
    for await (const { events } of list.read(1)) listed.push(...events.map(({ place }) => place));
    assert.deepEqual([await list.count(), listed.length], [2, 2]);
    assert.ok(listed.every((place) => place.startsWith('too-large/')));
    await list.close();
    const aside = await eventsIn(join(directory, 'too-large'));
    // One is still named by its id, one by the time at which it was set aside.
    aside.sort((a, b) => Number(a.eventId) - Number(b.eventId));
    assert.deepEqual(
      aside.map(({ eventId, topic, key, headers, value }) => [eventId, topic, key, headers, String(value)]),
      ['1001', '1002']
        .map((id) => backupEvent(id))
        .map(({ eventId, topic, key, headers, value }) => [eventId, topic, key, headers, String(value)]),
    );
  });

  it('takes one file alone', async () => {
    const directory = freshPath();
    await filled(directory, 3, 0);
    const source = createLocalSource({ directory, file: '1002.json', now: Date.now });
    await source.open(true);
    for await (const { events } of source.read(10)) await source.done(events);
    await source.close();
    assert.deepEqual(namesIn(directory), ['1001.json', '1003.json']);
  });

  it('does not send again what it could not note as done, in the same process', async () => {
    const directory = freshPath();
    await filled(directory, 0, 5);
    const [segment] = namesIn(directory) as [string];
    // In the way of the note.
    mkdirSync(join(directory, `${segment}.done`));
    writeFileSync(join(directory, `${segment}.done`, 'x'), '');
    const source = createLocalSource({ directory, now: Date.now });
    await source.open(true);
    const read = async (): Promise<string[]> => {
      for await (const { events } of source.read(3)) {
        if (events.length === 0) continue;
        await source.done(events).catch(() => {});
        return events.map(({ eventId }) => eventId);
      }
      return [];
    };
    assert.deepEqual([await read(), await read()], [ids(1, 3), ids(4, 5)]);
    await source.close();
  });
});
