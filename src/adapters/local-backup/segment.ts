import {
  chmodSync,
  closeSync,
  constants,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  rmSync,
  type Stats,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { type FileHandle, link, lstat, open, rename, rm, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { createRanges, parseBounded, type Ranges } from '../../ground/bounds.ts';
import { nodeCrypto } from '../../ground/builtins.ts';
import { ownStamp } from '../../ground/claims.ts';
import { SvcError } from '../../ground/errors.ts';
import type { StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
import {
  type BackupEvent,
  backupName,
  decodeEvent,
  decodeRecord,
  encodeLine,
  encodeRecord,
  encodeRoute,
} from '../../publish/tier.ts';

interface Placed {
  readonly directory: string;
  readonly bytes: Buffer;
}

const ownerOnly = 0o600;
/** Never follows a link, never opens an existing file. Windows has no O_NOFOLLOW. */
const newFileFlags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | (constants.O_NOFOLLOW ?? 0);
/** Codes of file systems without hard links. */
const noLinks = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EINVAL']);
const maxSuffixes = 10_000;

/** Temporary files begin with a dot, so that no reader takes one for an event. */
function temporaryName(): string {
  return `.${nodeCrypto().randomBytes(8).toString('hex')}.tmp`;
}

/**
 * Writes every part as `<stem>.json` into its folder, or all as `<stem>-1.json` and so on if a name is taken. Files are
 * complete, on the disk, for the owner only, and never replace a file. The last part appears last. Returns the name. A failure
 * leaves no file behind. The caller syncs the folders.
 */
async function writeExclusive(stem: string, parts: readonly Placed[]): Promise<string> {
  const temporary = parts.map(({ directory }) => join(directory, temporaryName()));
  try {
    for (const [index, { bytes }] of parts.entries()) await writeNew(temporary[index] as string, bytes);
    for (let suffix = 0; ; suffix++) {
      const name = nameOf(stem, suffix);
      const taken = await placeAll(name, parts, temporary);
      if (!taken) return name;
      if (suffix >= maxSuffixes)
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
  const file = await open(path, newFileFlags, ownerOnly);
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
function writeNewSync(path: string, bytes: Buffer): void {
  const file = openSync(path, newFileFlags, ownerOnly);
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
function writeExclusiveSync(stem: string, parts: readonly Placed[]): string {
  const temporary = parts.map(({ directory }) => join(directory, temporaryName()));
  try {
    for (const [index, { bytes }] of parts.entries()) writeNewSync(temporary[index] as string, bytes);
    for (let suffix = 0; ; suffix++) {
      const name = nameOf(stem, suffix);
      if (!placeAllSync(name, parts, temporary)) return name;
      if (suffix >= maxSuffixes)
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

function syncDirectorySync(directory: string): void {
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
function checkFolder(path: string): void {
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
const maxEventBytes = 128 * mebibyte;
/** Topic, key and headers. Writers refuse larger ones. */
const maxRouteBytes = mebibyte;
/** The note of handled lines: a hundred times what the fullest segment of svc needs. */
const maxDoneBytes = 16 * mebibyte;
/** A segment is ended at 16 MiB. The one that a process writes at its end holds all events of its memory. */
const maxReadBytes = 1024 * mebibyte;

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
  const refusal = constants.O_NOFOLLOW === undefined ? await whyNot(path) : undefined;
  if (refusal !== undefined) return refusal.reason;
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
async function readStored(path: string, maxBytes: number): Promise<Buffer | string> {
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

/** Why an open file is not read. */
function whyRefused(found: Pick<Stats, 'isFile' | 'uid' | 'size'>, maxBytes: number): string | undefined {
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
const notFile = 'it is not a file';

/** Why a path is not read, such as a link to another file. `undefined`: it is a file. */
export async function whyNot(path: string): Promise<Pick<Unreadable, 'reason' | 'mayPass'> | undefined> {
  const found = await lstat(path).catch(codeOf);
  if (typeof found !== 'string') return found.isFile() ? undefined : { reason: notFile };
  return { reason: found === 'ENOENT' ? gone : `it cannot be read (${found})`, mayPass: true };
}

/** For messages about the folder. */
export function reasonOf(error: unknown): string {
  const code = codeOf(error);
  return hints[code] === undefined ? code : `${code}: ${hints[code]}`;
}

export function codeOf(error: unknown): string {
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

/**
 * A segment is the file of many events, in one of these states:
 *
 * Open: `segment-….ndjson.open`, without readers. It is ended if it is full, or is to be read.
 * Ended: the same name. If an order is kept, the drain of this process reads it until the end of the process.
 * Handed over: `segment-….ndjson`. An ended segment gets there at once, or at the end of the process if an order is kept.
 * The holder of the folder's lock reads it: a drain, or `svc backup restore`.
 * Abandoned: an open name whose process is gone, or has not touched it for a minute. The holder of the lock hands it over.
 * Handled in part: a `….done` beside it has the numbers of the handled lines, which readers skip.
 * Handled: `recovered/segment-….ndjson`.
 */
export const openSuffix = '.open';

const segmentName =
  /^segment-(\d{13})-(\d{1,10})-([0-9a-f]{8})(?:-([0-9a-f]{8})-(\d{1,10})-(\d{1,19}))?\.ndjson(\.open)?$/;

/** `segment-<generation>-<pid>-<random>-<space>-<task>-<began>`. Older names have a time, the pid and a random part only. */
export const segmentNames = {
  test: (name: string): boolean => segmentName.test(name),
  /** The order of segments of several processes; 0 if there are event files as well. */
  generationOf(name: string): number {
    const [, generation, , , space] = segmentName.exec(name) ?? [];
    return space === undefined ? 0 : Number(generation);
  },
  /** The thread that wrote it. Older names tell its `pid` only. */
  writerOf(name: string) {
    const [, , pid, , space, task = 0, began = 0] = segmentName.exec(name) ?? [];
    return pid === undefined
      ? undefined
      : { space, pid: Number(pid), task: Number(task), began: Number(began) };
  },
  /** Makes the names for one writer. Later writers have a greater generation. 0: there are event files as well. */
  from(generation: number): () => string {
    const { space, pid, task, began } = ownStamp();
    const number = String(generation).padStart(13, '0');
    return () => {
      const random = nodeCrypto().randomBytes(4).toString('hex');
      return `segment-${number}-${pid}-${random}-${space}-${task}-${began}.ndjson`;
    };
  },
};

/** The same before and after the segment is handed over. */
export function finalName(path: string): string {
  return path.endsWith(openSuffix) ? path.slice(0, -openSuffix.length) : path;
}

/** The segment at this path. `…Done`: the note of handled lines, beside it, under its final name. */
export function segmentAt(path: string) {
  const directory = dirname(path);
  const note = `${finalName(path)}.done`;
  return {
    lines: () => readLines(path),
    /** The texts of some lines, or why it is not read. */
    texts: (lines: readonly Extent[]) => readPlaces(path, lines),
    /** Between two positions. */
    countLines: (from?: number, to?: number) => countLines(path, from, to),

    /** Hands it over to readers. Returns its new path. */
    async finish(): Promise<string> {
      const final = finalName(path);
      await rename(path, final);
      return final;
    },

    /** Makes it, with all of the events or none, at the end of the process. */
    storeSync(events: readonly BackupEvent[]): void {
      const lines = events.map((event) => checkedLine(event));
      writeNewSync(path, Buffer.from(lines.join('')));
      syncDirectorySync(directory);
    },

    doneName: basename(note),
    /** Resolves with a text if the note is invalid. Then no line counts as handled: events are sent twice rather than never. */
    async readDone(lineCount: () => number | Promise<number>): Promise<Ranges | string> {
      const text = await readStored(note, maxDoneBytes);
      if (text === gone) return createRanges();
      if (typeof text === 'string') return text;
      const ranges = parseBounded(text.toString(), 2, maxDoneBytes);
      return rangesWithin(ranges, await lineCount()) ?? 'it names a missing file';
    },
    /** Atomic and synced: a crash leaves the old note or the new one. */
    async writeDone(done: Ranges): Promise<void> {
      const temporary = join(directory, temporaryName());
      try {
        const file = await open(temporary, 'wx', 0o600);
        try {
          await file.writeFile(JSON.stringify(done));
          await file.sync();
        } finally {
          await file.close();
        }
        await rename(temporary, note);
        await syncDirectory(directory);
      } catch (error) {
        await unlink(temporary).catch(() => {});
        throw error;
      }
    },
    removeDone: () => unlink(note).catch(() => {}),
  };
}

/** Parses untrusted ranges: integers, ascending, disjoint, and within `lineCount`; else `undefined`. */
function rangesWithin(from: unknown, lineCount: number): Ranges | undefined {
  if (!Array.isArray(from)) return undefined;
  let next = 0;
  for (const range of from) {
    const [first, last, more] = Array.isArray(range) ? range : [];
    if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last) || more !== undefined) return undefined;
    if (first < next || last < first || last >= lineCount) return undefined;
    next = last + 1;
  }
  return createRanges(from);
}

/**
 * The line of an event in a segment.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_FULL` if it is too large to be read again
 */
export function checkedLine(event: BackupEvent): string {
  const line = encodeLine(event);
  // A character takes at most three bytes. The line feed does not count.
  if (line.length * 3 > maxEventBytes) check(Buffer.byteLength(line) - 1, maxEventBytes);
  return line;
}

/** A line of a segment, without its line feed. `isWhole` is false for a last line without line feed: its write was cut off. */
interface Line {
  readonly number: number;
  /** `undefined` if it is longer than any event. It is skipped, and never held in memory. */
  readonly text: string | undefined;
  readonly isWhole: boolean;
  /** Its position in the file, and its length without the line feed, in bytes. */
  readonly start: number;
  readonly bytes: number;
}

const lineFeed = 0x0a;

/**
 * Lines of a file, numbered from 0. Unlike `readline`, it tells a torn last line from a whole one.
 *
 * @throws SvcError with one line if the file cannot be read
 */
async function* readLines(path: string): AsyncGenerator<Line> {
  let rest: Buffer[] = [];
  let bytes = 0;
  let number = 0;
  let start = 0;
  const add = (piece: Buffer): void => {
    bytes += piece.length;
    if (bytes > maxEventBytes) rest = [];
    else rest.push(piece);
  };
  const end = (isWhole: boolean): Line => {
    const text = bytes > maxEventBytes ? undefined : Buffer.concat(rest).toString();
    const line = { number: number++, text, isWhole, start, bytes };
    start += bytes + 1;
    bytes = 0;
    rest = [];
    return line;
  };
  for await (const piece of readPieces(path)) {
    let from = 0;
    for (let at = piece.indexOf(lineFeed); at >= 0; at = piece.indexOf(lineFeed, from)) {
      add(piece.subarray(from, at));
      yield end(true);
      from = at + 1;
    }
    if (from < piece.length) add(piece.subarray(from));
  }
  if (bytes > 0) yield end(false);
}

async function countLines(path: string, from = 0, to?: number): Promise<number> {
  let lines = 0;
  for await (const piece of readPieces(path, from, to)) {
    for (let at = piece.indexOf(lineFeed); at >= 0; at = piece.indexOf(lineFeed, at + 1)) lines++;
  }
  return lines;
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
async function readPlaces(path: string, lines: readonly Extent[]): Promise<string[] | string> {
  const opened = await openStored(path, maxReadBytes);
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
async function* readPieces(path: string, start = 0, end = maxReadBytes): AsyncGenerator<Buffer> {
  const opened = await openStored(path, maxReadBytes);
  if (typeof opened === 'string') throw new SvcError('SVC_ADAPTERS_BACKUP_FAILED', opened);
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

/** `<anything>.json`, without temporary files. */
export function isEventFile(name: string): boolean {
  return name.endsWith('.json') && !name.startsWith('.');
}

/** Folder of events that their topic never takes. */
export const asideFolder = 'too-large';

/** `event`: the event JSON as `<eventId>.json`, its route beside it. `record`: all in one, as `<epoch_millis>.json`. */
type BackupFormat = 'event' | 'record';

/** Topic, key and headers of bare event files, under the same names. */
export const routesFolder = 'routes';

const atOnce = 4;

/** Files of one event each. */
export function eventFilesIn(directory: string) {
  const routes = join(directory, routesFolder);
  return {
    /** Returns one result per event, in their order: the name of its file, or the error. */
    async store(format: BackupFormat, events: readonly BackupEvent[]): Promise<(string | Error)[]> {
      if (format === 'event') makeFolderSync(routes);
      const results: (string | Error)[] = [];
      const paths: string[] = [];
      for (let at = 0; at < events.length; at += atOnce) {
        const group = events.slice(at, at + atOnce);
        const written = group.map(async (event) => {
          const { stem, parts } = partsOf(directory, format, event);
          const name = await writeExclusive(stem, parts);
          paths.push(...parts.map((part) => join(part.directory, name)));
          return name;
        });
        results.push(...(await Promise.all(written.map((one) => one.catch((error: Error) => error)))));
      }
      try {
        if (format === 'event') await syncDirectory(routes);
        await syncDirectory(directory);
        return results;
      } catch (error) {
        // An event that is reported as not stored goes to another tier or counts as lost, so it must not be sent from here.
        for (const path of paths) await rm(path, { force: true }).catch(() => {});
        return results.map((result) => (typeof result === 'string' ? (error as Error) : result));
      }
    },

    /** All of them or none, because the caller counts all of them as lost after a failure. */
    storeSync(format: BackupFormat, events: readonly BackupEvent[]): void {
      if (format === 'event') makeFolderSync(routes);
      const written: string[] = [];
      try {
        for (const event of events) {
          const { stem, parts } = partsOf(directory, format, event);
          const name = writeExclusiveSync(stem, parts);
          written.push(...parts.map((part) => join(part.directory, name)));
        }
        if (format === 'event') syncDirectorySync(routes);
        syncDirectorySync(directory);
      } catch (error) {
        for (const path of written) rmSync(path, { force: true });
        throw error;
      }
    },

    /** @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY` if the folder of routes is a link, a file or of another user */
    checkRoutes: () => checkFolder(routes),

    /** For plans, unchecked: the size of a file; 0 if it does not exist, or is too large to be read. */
    async plannedBytes(name: string): Promise<number> {
      const { size = 0 } = (await lstat(join(directory, name)).catch(() => undefined)) ?? {};
      return size > maxEventBytes ? 0 : size;
    },

    /** The event of a file, with its route in `routes/`. */
    async read(name: string): Promise<StoredEvent | Unreadable> {
      const value = await readStored(join(directory, name), maxEventBytes);
      if (typeof value === 'string') return { place: name, reason: value };
      const route = await readStored(join(routes, name), maxRouteBytes);
      // Without its own route, the event would go to a wrong topic.
      if (typeof route === 'string' && route !== gone)
        return { place: name, reason: `its route, ${routesFolder}/${name}: ${route}` };
      const event =
        typeof route === 'string'
          ? (decodeRecord(value.toString(), name) ?? decodeEvent(value, undefined, name))
          : decodeEvent(value, route.toString(), name);
      return event ?? { place: name, reason: 'it holds no event' };
    },
  };
}

function check(bytes: number, maxBytes: number): void {
  if (bytes > maxBytes) throw tooLarge(bytes, maxBytes);
}

function tooLarge(bytes: number, maxBytes: number): SvcError {
  return new SvcError(
    'SVC_ADAPTERS_BACKUP_FULL',
    `an event of ${bytes} bytes is more than the local backup stores in one piece (${maxBytes} bytes)`,
  );
}

function partsOf(
  directory: string,
  format: BackupFormat,
  event: BackupEvent,
): { stem: string; parts: Placed[] } {
  if (format === 'record') {
    const bytes = encodeRecord(event);
    check(bytes.length, maxEventBytes);
    return { stem: String(event.backedUpAt), parts: [{ directory, bytes }] };
  }
  const route = { directory: join(directory, routesFolder), bytes: encodeRoute(event) };
  check(route.bytes.length, maxRouteBytes);
  check(event.value.length, maxEventBytes);
  return { stem: backupName(event.eventId), parts: [route, { directory, bytes: event.value }] };
}
