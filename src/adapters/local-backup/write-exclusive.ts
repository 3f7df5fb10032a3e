import {
  chmodSync,
  closeSync,
  constants,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { link, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { nodeCrypto } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';

/** Bytes and the folder that they go to. */
export interface Placed {
  readonly directory: string;
  readonly bytes: Buffer;
}

const ownerOnly = 0o600;
/** Never follows a link, never opens what is there. Windows has no O_NOFOLLOW. */
const newFile = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | (constants.O_NOFOLLOW ?? 0);
/** File systems without hard links say one of these. */
const noLinks = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EINVAL']);
const mostSuffixes = 10_000;

/** Temporary files begin with a dot, so that no reader takes one for an event. */
export function temporaryName(): string {
  return `.${nodeCrypto().randomBytes(8).toString('hex')}.tmp`;
}

/**
 * Writes every part as `<stem>.json` into its folder, or all as `<stem>-1.json` and so on where a name is taken: whole,
 * forced to the disk, for the owner only, and never over anything that is there. The last part appears last.
 * Returns the name. When it fails, nothing is left behind. The caller forces the folders to the disk.
 */
export async function writeExclusive(stem: string, parts: readonly Placed[]): Promise<string> {
  const temporary = parts.map(({ directory }) => join(directory, temporaryName()));
  try {
    for (const [index, { bytes }] of parts.entries()) await writeNew(temporary[index] as string, bytes);
    for (let suffix = 0; ; suffix++) {
      const name = nameOf(stem, suffix);
      const taken = await placeAll(name, parts, temporary);
      if (!taken) return name;
      if (suffix >= mostSuffixes)
        throw Object.assign(new Error('too many files of one name'), { code: 'EEXIST' });
    }
  } finally {
    for (const path of temporary) await unlink(path).catch(() => {});
  }
}

/** True when the name is taken in one of the folders; then nothing has been placed. */
async function placeAll(
  name: string,
  parts: readonly Placed[],
  temporary: readonly string[],
): Promise<boolean> {
  const placed: string[] = [];
  try {
    for (const [index, { directory, bytes }] of parts.entries()) {
      const final = join(directory, name);
      await place(temporary[index] as string, final, bytes);
      placed.push(final);
    }
    return false;
  } catch (error) {
    for (const path of placed) await unlink(path).catch(() => {});
    if (codeOf(error) === 'EEXIST') return true;
    throw error;
  }
}

/** Unlike a rename, a link fails where something is there already. */
async function place(temporary: string, final: string, bytes: Buffer): Promise<void> {
  try {
    await link(temporary, final);
  } catch (error) {
    if (!noLinks.has(codeOf(error))) throw error;
    await writeNew(final, bytes);
  }
}

async function writeNew(path: string, bytes: Buffer): Promise<void> {
  const file = await open(path, newFile, ownerOnly);
  try {
    // The mode of open goes through the umask.
    await file.chmod(ownerOnly);
    await file.writeFile(bytes);
    await file.sync();
  } catch (error) {
    await unlink(path).catch(() => {});
    throw error;
  } finally {
    await file.close().catch(() => {});
  }
}

/** A new file of the owner's with these bytes, forced to the disk. Throws `EEXIST` where something is there. */
export function writeNewSync(path: string, bytes: Buffer): void {
  const file = openSync(path, newFile, ownerOnly);
  try {
    chmodSync(path, ownerOnly);
    for (let written = 0; written < bytes.length; ) written += writeSync(file, bytes, written);
    fsyncSync(file);
  } catch (error) {
    tryTo(() => unlinkSync(path));
    throw error;
  } finally {
    closeSync(file);
  }
}

/** `writeExclusive` for the end of the process. */
export function writeExclusiveSync(stem: string, parts: readonly Placed[]): string {
  const temporary = parts.map(({ directory }) => join(directory, temporaryName()));
  try {
    for (const [index, { bytes }] of parts.entries()) writeNewSync(temporary[index] as string, bytes);
    for (let suffix = 0; ; suffix++) {
      const name = nameOf(stem, suffix);
      if (!placeAllSync(name, parts, temporary)) return name;
      if (suffix >= mostSuffixes)
        throw Object.assign(new Error('too many files of one name'), { code: 'EEXIST' });
    }
  } finally {
    for (const path of temporary) tryTo(() => unlinkSync(path));
  }
}

function placeAllSync(name: string, parts: readonly Placed[], temporary: readonly string[]): boolean {
  const placed: string[] = [];
  try {
    for (const [index, { directory, bytes }] of parts.entries()) {
      const final = join(directory, name);
      try {
        linkSync(temporary[index] as string, final);
      } catch (error) {
        if (!noLinks.has(codeOf(error))) throw error;
        writeNewSync(final, bytes);
      }
      placed.push(final);
    }
    return false;
  } catch (error) {
    for (const path of placed) tryTo(() => unlinkSync(path));
    if (codeOf(error) === 'EEXIST') return true;
    throw error;
  }
}

/** Forces names to the disk. Windows cannot, and does not need to. */
export async function syncDirectory(directory: string): Promise<void> {
  if (process.platform === 'win32') return;
  const handle = await open(directory, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export function syncDirectorySync(directory: string): void {
  if (process.platform === 'win32') return;
  const handle = openSync(directory, constants.O_RDONLY);
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

function nameOf(stem: string, suffix: number): string {
  return suffix === 0 ? `${stem}.json` : `${stem}-${suffix}.json`;
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? '';
}

function tryTo(work: () => void): void {
  try {
    work();
  } catch {
    // The first error counts.
  }
}

/**
 * A folder in the backup folder, for the owner only.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY` where a link or a file stands in its place.
 */
export function makeFolderSync(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
    // The mode of mkdir goes through the umask.
    if (process.platform !== 'win32') chmodSync(path, 0o700);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    checkFolder(path);
  }
}

/**
 * That nothing but a folder of this user is at this path in the backup folder, if anything.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY`
 */
export function checkFolder(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  const user = process.getuid?.();
  const isOwn = user === undefined || found.uid === user;
  if (found.isDirectory() && isOwn) return;
  const why = found.isDirectory()
    ? `it belongs to another user (id ${found.uid})`
    : 'it is a link or a file, and has to be a folder';
  throw new SvcError('SVC_ADAPTERS_BACKUP_DIRECTORY', `"${path}" is not used: ${why}. Move it away`);
}
