import assert from 'node:assert/strict';
import { mkdirSync, promises, writeFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import sinon from 'sinon';
import { createLocalSource } from '../../../../src/adapters/local-backup/local-source.ts';
import { freshPath } from '../backup-folder.ts';

const mebibyte = 1024 * 1024;

/** A folder of event files, each a batch of its own. The one that is `large` leaves no place for another in memory. */
function folderOf(count: number, large?: number): string {
  const directory = freshPath();
  mkdirSync(directory, { mode: 0o700 });
  for (let id = 1; id <= count; id++) {
    const text = `{"eventId":"${id}","eventType":"T"}`;
    const bytes = id === large ? 8 * mebibyte + 1 : 0;
    writeFileSync(join(directory, `${id}.json`), text.padEnd(bytes));
  }
  return directory;
}

describe('reading ahead', () => {
  let opened: FileHandle[];
  let paths: string[];
  let spy: sinon.SinonStub;
  let failing: string | undefined;
  let slow: string | undefined;
  beforeEach(() => {
    [opened, paths, failing, slow] = [[], [], undefined, undefined];
    spy = sinon.stub(promises, 'open').callsFake(async (...given) => {
      paths.push(String(given[0]));
      const name = basename(String(given[0]));
      const file = await spy.wrappedMethod.apply(promises, given);
      opened.push(file);
      if (name === slow) await sleep(20);
      if (name === failing) {
        await file.close();
        file.close = () => Promise.reject(Object.assign(new Error('i/o error'), { code: 'EIO' }));
      }
      return file;
    });
    syncBuiltinESMExports();
  });
  afterEach(() => {
    sinon.restore();
    syncBuiltinESMExports();
  });

  /** The batches, each with the number of event files that are read, or are being read, when it is handed out. */
  async function* eachOf(directory: string): AsyncGenerator<[string, number], void> {
    const source = createLocalSource({ directory, now: Date.now });
    await source.open(true);
    try {
      for await (const { events } of source.read(1)) {
        const begun = paths.filter((path) => dirname(path).endsWith('dlq-backup'));
        yield [events.map(({ eventId }) => eventId).join(), begun.length];
      }
    } finally {
      await source.close();
    }
  }

  async function batchesOf(directory: string): Promise<[string, number][]> {
    const batches: [string, number][] = [];
    for await (const batch of eachOf(directory)) batches.push(batch);
    return batches;
  }

  it('has begun with the next one when one is handed out, and with none after it', async () => {
    assert.deepEqual(await batchesOf(folderOf(3)), [
      ['1', 2],
      ['2', 3],
      ['3', 3],
    ]);
  });

  it('reads nothing beside a large one', async () => {
    assert.deepEqual(await batchesOf(folderOf(4, 2)), [
      ['1', 1],
      ['2', 2],
      ['3', 4],
      ['4', 4],
    ]);
  });

  it('tells a failure in its turn', async () => {
    failing = '2.json';
    const seen: string[] = [];
    const all = async (): Promise<void> => {
      for await (const [batch] of eachOf(folderOf(3))) seen.push(batch);
    };
    await assert.rejects(all, /EIO/);
    assert.deepEqual(seen, ['1']);
  });

  it('leaves nothing under way when it is ended early', async () => {
    slow = '2.json';
    for await (const [batch] of eachOf(folderOf(3))) {
      assert.equal(batch, '1');
      break;
    }
    assert.equal(opened.length, 2);
    assert.deepEqual(
      opened.map(({ fd }) => fd),
      [-1, -1],
    );
  });
});
