import { lstat, open, readdir, unlink, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { nodeCrypto } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';
import { isRunning } from './segment.ts';
import { makeFolderSync } from './write-exclusive.ts';

/** The right to take events out of a backup folder; one process at a time has it. */
export interface DirectoryLock {
  release(): Promise<void>;
}

const claimName = /^([0-9a-f]{8})\.(\d{1,10})\.[0-9a-f]{12}$/;
/** A claim is touched so often, and believed for so long. */
const beatMs = 10_000;
const staleMs = 60_000;

/**
 * Each process puts down a claim of its own, under a name that is never used twice, and then holds the folder if it sees no
 * other living claim. Of two at once at least one sees the other and steps back. Claims of dead processes are removed,
 * which can never hit a living one.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_BUSY`
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  const folder = join(directory, '.lock');
  makeFolderSync(folder);
  const host = nodeCrypto().createHash('sha256').update(hostname()).digest('hex').slice(0, 8);
  const own = `${host}.${process.pid}.${nodeCrypto().randomBytes(6).toString('hex')}`;
  const path = join(folder, own);
  await (await open(path, 'wx', 0o600)).close();
  const other = await otherClaim(folder, own, host);
  if (other !== undefined) {
    await unlink(path).catch(() => {});
    const message = `process ${other} is emptying the backup folder "${directory}" already: try again when it has ended`;
    throw new SvcError('SVC_ADAPTERS_BACKUP_BUSY', message);
  }
  const beat = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => {});
  }, beatMs);
  beat.unref();
  return {
    async release() {
      clearInterval(beat);
      await unlink(path).catch(() => {});
    },
  };
}

/** The process of a living claim that is not ours. */
async function otherClaim(folder: string, own: string, ownHost: string): Promise<string | undefined> {
  for (const name of await readdir(folder)) {
    const [, host, pid] = claimName.exec(name) ?? [];
    if (name === own || pid === undefined) continue;
    const path = join(folder, name);
    const found = await lstat(path).catch(() => undefined);
    if (found === undefined) continue;
    // A beat in time to come is none: such a claim would hold the folder for as long.
    const isDead =
      Math.abs(Date.now() - found.mtimeMs) > staleMs || (host === ownHost && !isRunning(Number(pid)));
    if (!isDead) return pid;
    await unlink(path).catch(() => {});
  }
  return undefined;
}
