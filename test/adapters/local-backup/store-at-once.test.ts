import assert from 'node:assert/strict';
import { openLocalBackup } from '../../../src/start/adapters.ts';
import { backupEvent, freshPath, namesIn } from './backup-folder.ts';

describe('local backup of a process that ends in the turn of its first event', () => {
  it('stores although the adapter is just being loaded', async () => {
    const directory = freshPath();
    const backup = openLocalBackup({
      directory,
      format: 'event',
      maxFiles: 10,
      maxBytes: 1024 ** 2,
    });
    backup.storeSync?.([backupEvent('1')]);
    assert.deepEqual(namesIn(directory), ['1.json']);
    await backup.close?.(1_000);
  });
});
