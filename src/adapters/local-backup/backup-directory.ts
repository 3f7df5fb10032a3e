import { chmodSync, constants, lstatSync, realpathSync, statSync } from 'node:fs';
import { access, lstat, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { SvcError } from '../../ground/errors.ts';
import { makeFolders } from '../../ground/files/folders.ts';
import { restrictToOwner } from './owner-only.ts';

/** What the owner-only rule of Windows depends on; replaced in tests. */
export interface DirectoryOptions {
  readonly platform?: NodeJS.Platform;
  readonly restrict?: (directory: string) => void;
}

/**
 * Makes the folder when it is missing and checks that nobody else can read it or put something into it: its own folder,
 * of this user, mode 0700, no symbolic link, and no folder above it in which others could exchange it.
 * Returns its real path. Synchronous, and done once: a handful of system calls.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY`
 */
export function openBackupDirectory(path: string, options: DirectoryOptions = {}): string {
  const { platform = process.platform, restrict = restrictToOwner } = options;
  try {
    const isNew = makeFolders(path);
    // The mode of mkdir goes through the umask.
    if (isNew && platform !== 'win32') chmodSync(path, 0o700);
  } catch (error) {
    throw refused(
      path,
      `it cannot be made (${codeOf(error)}): check svc.broker.dlq-backup-path and its rights`,
    );
  }
  const stat = lstatSync(path);
  if (stat.isSymbolicLink()) throw refused(path, 'it is a symbolic link: name the folder itself');
  if (!stat.isDirectory()) throw refused(path, 'it is not a folder');
  if (platform === 'win32') {
    restrict(path);
    return realpathSync(path);
  }
  if (stat.uid !== process.getuid?.())
    throw refused(path, `it belongs to another user (id ${stat.uid}): run as that one, or chown it`);
  if ((stat.mode & 0o077) !== 0) throw refused(path, `others have rights in it: chmod 700 ${path}`);
  const real = realpathSync(path);
  checkAbove(real);
  return real;
}

/**
 * Whether the folder could be made and written to, without making it: so that it is said at start, not in an outage.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY`
 */
export async function checkBackupDirectory(path: string, options: DirectoryOptions = {}): Promise<void> {
  const isThere = (await lstat(path).catch(() => undefined)) !== undefined;
  if (isThere && (options.platform ?? process.platform) !== 'win32') openBackupDirectory(path, options);
  for (let at = resolve(path); ; at = dirname(at)) {
    const found = await stat(at).catch(() => undefined);
    if (found === undefined && at !== dirname(at)) continue;
    const why = found?.isDirectory() ? await unwritable(at) : 'ENOTDIR';
    if (why === undefined) return;
    throw refused(
      path,
      `${at} cannot be written to (${why}): check svc.broker.dlq-backup-path and its rights`,
    );
  }
}

function unwritable(directory: string): Promise<string | undefined> {
  return access(directory, constants.W_OK | constants.X_OK).then(() => undefined, codeOf);
}

/** In a folder that everybody may write to, and that is not sticky as /tmp is, anybody can exchange ours. */
function checkAbove(real: string): void {
  for (let above = dirname(real); ; above = dirname(above)) {
    const { mode } = statSync(above);
    if ((mode & 0o002) !== 0 && (mode & 0o1000) === 0) {
      throw refused(
        real,
        `everybody may rename what is in ${above}: choose another place, or chmod +t ${above}`,
      );
    }
    if (above === dirname(above)) return;
  }
}

function refused(path: string, why: string): SvcError {
  return new SvcError('SVC_ADAPTERS_BACKUP_DIRECTORY', `the backup folder "${path}" is not used: ${why}`);
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'unknown error';
}
