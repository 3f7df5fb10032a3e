import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { checkBackupDirectory } from '../../../src/adapters/local-backup/backup-directory.ts';
import { backupIn, freshPath } from './backup-folder.ts';

const refused = { code: 'SVC_ADAPTERS_BACKUP_DIRECTORY' };

describe('check of the backup folder at start', () => {
  it('takes a folder that could be made, and makes nothing', async () => {
    const path = join(freshPath(), 'deep/down');
    await checkBackupDirectory(path);
    assert.equal(existsSync(dirname(dirname(path))), false);
  });

  it('takes a folder of ours, and refuses one that others have rights in', async () => {
    const path = freshPath();
    mkdirSync(path, { mode: 0o700 });
    await checkBackupDirectory(path);
    chmodSync(path, 0o750);
    await assert.rejects(checkBackupDirectory(path), refused);
  });

  it('refuses what is no folder, what is below a file, and a link, with the setting to look at', async () => {
    const path = freshPath();
    writeFileSync(path, '');
    await assert.rejects(checkBackupDirectory(path), refused);
    await assert.rejects(checkBackupDirectory(join(path, 'backup')), {
      ...refused,
      message: `the backup folder "${path}/backup" is not used: ${path} cannot be written to (ENOTDIR): check svc.broker.dlq-backup-path and its rights`,
    });
    symlinkSync(dirname(path), `${path}-link`);
    await assert.rejects(checkBackupDirectory(`${path}-link`), refused);
  });

  it('is done, and said once, by whoever opens a backup', async () => {
    const path = freshPath();
    writeFileSync(path, '');
    const lines: string[] = [];
    const logger = { debug() {}, info() {}, warn() {}, error: (line: string) => void lines.push(line) };
    backupIn(path, { logger });
    for (const end = Date.now() + 2_000; lines.length === 0 && Date.now() < end; )
      await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(lines.length, 1);
    assert.match(lines[0] as string, /is not used: it cannot be made/);
  });
});
