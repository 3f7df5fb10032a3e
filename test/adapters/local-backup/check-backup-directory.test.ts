import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { besideLink, checkBackupDirectory } from '../../../src/adapters/local-backup/backup-directory.ts';
import { useLogger } from '../../support/log.ts';
import { backupIn, freshPath } from './backup-folder.ts';

const refused = { code: 'SVC_ADAPTERS_BACKUP_DIRECTORY' };

describe('check of the backup folder at start', () => {
  it('takes a folder that could be made, and makes nothing', async () => {
    const path = join(freshPath(), 'deep/down');
    await checkBackupDirectory(path);
    assert.equal(existsSync(dirname(dirname(path))), false);
  });

  it('takes a folder of ours, and one that others have rights in, without making anything in it', async () => {
    const path = freshPath();
    mkdirSync(path, { mode: 0o700 });
    await checkBackupDirectory(path);
    chmodSync(path, 0o750);
    await checkBackupDirectory(path);
    assert.deepEqual(readdirSync(path), []);
    assert.equal(statSync(path).mode & 0o777, 0o750);
  });

  it('sets the rights of a folder right that holds events, with one line, and of no other', async () => {
    const names = {
      'segment-1780000000000-12-0123abcd.ndjson': true,
      '1780000000000.json': true,
      'package.json': false,
      'index.html': false,
    };
    for (const [name, isOurs] of Object.entries(names)) {
      const path = freshPath();
      mkdirSync(path);
      writeFileSync(join(path, name), '', { mode: 0o660 });
      chmodSync(path, 0o2770);
      const lines: string[] = [];
      for (let time = 0; time < 2; time++)
        await checkBackupDirectory(path, { onRestricted: (line) => lines.push(line) });
      assert.equal(statSync(path).mode & 0o777, isOurs ? 0o700 : 0o770, name);
      assert.equal(lines.length, isOurs ? 1 : 0);
    }
  });

  it('refuses what is no folder, what is below a file, and a link, with the setting to look at', async () => {
    const path = freshPath();
    writeFileSync(path, '');
    await assert.rejects(checkBackupDirectory(path), refused);
    await assert.rejects(checkBackupDirectory(join(path, 'backup')), {
      ...refused,
      message: `the backup folder "${path}/backup" is not used: ${path} cannot be written to (ENOTDIR): check svc.broker.dlq-backup-path and its permissions`,
    });
    symlinkSync(dirname(path), `${path}-link`);
    await assert.rejects(checkBackupDirectory(`${path}-link`), refused);
  });

  it('says of a folder below a link that the next release does not see it, and of no other', () => {
    const root = dirname(freshPath());
    const release = join(root, 'releases/1');
    mkdirSync(release, { recursive: true });
    symlinkSync(release, join(root, 'current'));
    const [inRelease, current] = [join(release, 'dlq-backup'), join(root, 'current')];
    assert.match(besideLink(inRelease, release, current) ?? '', /was started in .*current, a link to it/);
    assert.equal(besideLink(join(root, 'dlq-backup'), release, current), undefined);
    assert.equal(besideLink(inRelease, release, release), undefined);
    assert.equal(besideLink(inRelease, release, undefined), undefined);
    assert.equal(besideLink(inRelease, release, join(root, 'elsewhere')), undefined);
  });

  it('is done, and said once, by whoever opens a backup', async () => {
    const path = freshPath();
    writeFileSync(path, '');
    const lines: string[] = [];
    const logger = { debug() {}, info() {}, warn() {}, error: (line: string) => void lines.push(line) };
    useLogger(logger);
    backupIn(path, {});
    for (const end = Date.now() + 2_000; lines.length === 0 && Date.now() < end; )
      await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(lines.length, 1);
    assert.match(lines[0] as string, /is not used: it cannot be created/);
  });
});
