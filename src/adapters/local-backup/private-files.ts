import {
  chmodSync,
  closeSync,
  constants,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  type Stats,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { type FileHandle, link, lstat, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { nodeCrypto } from '../../ground/builtins.ts';
import { SvcError } from '../../ground/errors.ts';

export interface Placed {
  readonly directory: string;
  readonly bytes: Buffer;
}

const ownerOnly = 0o600;
/** Never follows a link, never opens an existing file. Windows has no O_NOFOLLOW. */
const newFile = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | (constants.O_NOFOLLOW ?? 0);
/** Codes of file systems without hard links. */
const noLinks = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EINVAL']);
const mostSuffixes = 10_000;

/** Temporary files begin with a dot, so that no reader takes one for an event. */
export function temporaryName(): string {
  return `.${nodeCrypto().randomBytes(8).toString('hex')}.tmp`;
}

/**
 * Writes every part as `<stem>.json` into its folder, or all as `<stem>-1.json` and so on if a name is taken. Files are
 * complete, on the disk, for the owner only, and never replace a file. The last part appears last. Returns the name. A failure
 * leaves no file behind. The caller syncs the folders.
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

/** `true` if the name is taken in one of the folders. Then no part was placed. */
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

/** Unlike a rename, a link fails if the name exists. */
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
    // The umask changes the mode of open.
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

/** Writes a new file of this user, and syncs it. Throws `EEXIST` if the name exists. */
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

/** Syncs the names in a folder. Windows cannot, and does not need to. */
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

function tryTo(work: () => void): void {
  try {
    work();
  } catch {
    // The first error counts.
  }
}

/**
 * Creates a folder in the backup folder, for the owner only.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY` if it is a link or a file.
 */
export function makeFolderSync(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
    // The umask changes the mode of mkdir.
    if (process.platform !== 'win32') chmodSync(path, 0o700);
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    checkFolder(path);
  }
}

/**
 * Accepts a folder of this user at this path, or a missing one.
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
    : 'it is a link or a file, but must be a folder';
  throw new SvcError('SVC_ADAPTERS_BACKUP_DIRECTORY', `"${path}" is not used: ${why}. Move it away`);
}

const mebibyte = 1024 * 1024;

/** An event file, or a line of a segment. Writers refuse larger ones. */
export const maxEventBytes = 128 * mebibyte;
/** Topic, key and headers. Writers refuse larger ones. */
export const maxRouteBytes = mebibyte;
/** The note of handled lines: a hundred times what the fullest segment of svc needs. */
export const maxDoneBytes = 16 * mebibyte;
/** A segment is ended at 16 MiB. The one that a process writes at its end holds all events of its memory. */
const maxSegmentBytes = 1024 * mebibyte;

/** Never follows a link, never waits for the other end of a pipe. Windows has neither flag, and no such files. */
const reading = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const notFiles = new Set(['ELOOP', 'EMLINK', 'ENXIO', 'EISDIR', 'ENODEV']);

interface StoredFile {
  readonly file: FileHandle;
  /** When it was opened. Later bytes are not read. */
  readonly bytes: number;
}

/**
 * The only way to read a file of a backup folder. It checks the open file, which cannot be exchanged: a regular file of this
 * user or of root, with a bounded size. Resolves with a text that says why it is not read.
 */
async function openStored(path: string, maxBytes: number): Promise<StoredFile | string> {
  // Only its name shows a link there.
  const reason = constants.O_NOFOLLOW === undefined ? await whyNot(path) : undefined;
  if (reason !== undefined) return reason;
  const file = await open(path, reading).catch(whyNotOpened);
  if (typeof file === 'string') return file;
  try {
    const found = await file.stat();
    const why = whyRefused(found, maxBytes);
    if (why === undefined) return { file, bytes: found.size };
    await file.close();
    return why;
  } catch (error) {
    await file.close();
    return whyNotOpened(error);
  }
}

/** All of a small file, in memory. */
export async function readStored(path: string, maxBytes: number): Promise<Buffer | string> {
  const opened = await openStored(path, maxBytes);
  if (typeof opened === 'string') return opened;
  try {
    return await readAt(opened.file, 0, opened.bytes);
  } catch (error) {
    return whyNotOpened(error);
  } finally {
    await opened.file.close();
  }
}

/** Resolves with fewer bytes at the end of the file. */
async function readAt(file: FileHandle, start: number, bytes: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(bytes);
  let count = 0;
  while (count < bytes) {
    const { bytesRead } = await file.read(buffer, count, bytes - count, start + count);
    if (bytesRead === 0) break;
    count += bytesRead;
  }
  return buffer.subarray(0, count);
}
/** A line of a file: its position, and its length without the line feed, in bytes. */
interface Extent {
  readonly start: number;
  readonly bytes: number;
}

/** Groups of consecutive lines, which one read gets. */
function adjacent(lines: readonly Extent[]): Extent[][] {
  const groups: Extent[][] = [];
  let end = -1;
  for (const line of lines) {
    if (line.start === end) groups.at(-1)?.push(line);
    else groups.push([line]);
    end = line.start + line.bytes + 1;
  }
  return groups;
}

/** The texts of lines of one file, or why it is not read. */
export async function readPlaces(path: string, lines: readonly Extent[]): Promise<string[] | string> {
  const opened = await openStored(path, maxSegmentBytes);
  if (typeof opened === 'string') return opened;
  const { file } = opened;
  try {
    const texts: string[] = [];
    for (const some of adjacent(lines)) {
      const [{ start }, last] = [some[0] as Extent, some.at(-1) as Extent];
      const piece = await readAt(file, start, last.start + last.bytes - start);
      for (const line of some)
        texts.push(piece.toString('utf8', line.start - start, line.start - start + line.bytes));
    }
    return texts;
  } finally {
    await file.close();
  }
}

/**
 * In pieces, at most to the size of the file when it was opened.
 *
 * @throws SvcError with one line if it cannot be read
 */
export async function* readPieces(path: string, start = 0, end = maxSegmentBytes): AsyncGenerator<Buffer> {
  const opened = await openStored(path, maxSegmentBytes);
  if (typeof opened === 'string') throw missing(opened);
  try {
    const last = Math.min(end, opened.bytes);
    for (let at = start; at < last; ) {
      const piece = await readAt(opened.file, at, Math.min(mebibyte, last - at));
      if (piece.length === 0) return;
      at += piece.length;
      yield piece;
    }
  } finally {
    await opened.file.close();
  }
}

/** Why an open file is not read. */
export function whyRefused(
  found: Pick<Stats, 'isFile' | 'uid' | 'size'>,
  maxBytes: number,
): string | undefined {
  if (!found.isFile()) return notFile;
  const user = process.getuid?.();
  // Root may have restored files of this folder. Files of other users do not belong here.
  if (user !== undefined && found.uid !== user && found.uid !== 0)
    return `it belongs to another user (id ${found.uid})`;
  return found.size > maxBytes ? `it is larger than ${maxBytes} bytes, so svc did not write it` : undefined;
}

function whyNotOpened(error: unknown): string {
  const code = codeOf(error);
  if (code === 'ENOENT') return gone;
  return notFiles.has(code) ? notFile : `it cannot be read (${code})`;
}

export const gone = 'it no longer exists';
export const notFile = 'it is not a file';

/** Why a path is not read, such as a link to another file. `undefined`: it is a file. */
export async function whyNot(path: string): Promise<string | undefined> {
  const found = await lstat(path).catch(codeOf);
  if (typeof found === 'string') return found === 'ENOENT' ? gone : `it cannot be read (${found})`;
  return found.isFile() ? undefined : notFile;
}

export function toSvcError(error: unknown, directory: string): SvcError {
  return error instanceof SvcError ? error : failed(directory, reasonOf(error));
}

/** As `toSvcError`, for readers of the folder. */
export function unusable(error: unknown, directory: string): SvcError {
  if (error instanceof SvcError) return error;
  const { path, syscall } = error as NodeJS.ErrnoException;
  const where = path === undefined ? '' : ` (${syscall} ${path})`;
  return new SvcError(
    'SVC_ADAPTERS_BACKUP_FAILED',
    `the backup folder "${directory}" cannot be used: ${reasonOf(error)}${where}`,
  );
}

/** Of one file among others that can be read. */
export function unreadableBecause(error: unknown): string {
  return error instanceof SvcError ? error.message : `it cannot be read (${codeOf(error)})`;
}

function reasonOf(error: unknown): string {
  const code = codeOf(error);
  return hints[code] === undefined ? code : `${code}: ${hints[code]}`;
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException | undefined)?.code ?? 'unknown error';
}

export function isDiskFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(codeOf(error));
}

const diskFull = 'the disk is full';
const hints: Readonly<Record<string, string>> = {
  ENOSPC: diskFull,
  EDQUOT: diskFull,
  EROFS: 'the file system is read-only',
  EACCES: 'no right to',
  EXDEV: 'recovered/ is on another file system',
};

export function failed(directory: string, why: string): SvcError {
  return new SvcError(
    'SVC_ADAPTERS_BACKUP_FAILED',
    `the backup folder "${directory}" cannot be written: ${why}`,
  );
}

export function missing(message: string): SvcError {
  return new SvcError('SVC_ADAPTERS_BACKUP_FAILED', message);
}

export function tooLarge(bytes: number, maxBytes: number): SvcError {
  return full(
    `an event of ${bytes} bytes is more than the local backup stores in one piece (${maxBytes} bytes)`,
  );
}

export function full(message: string): SvcError {
  return new SvcError('SVC_ADAPTERS_BACKUP_FULL', message);
}
