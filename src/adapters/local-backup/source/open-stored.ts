import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf, missing } from '../backup-failure.ts';
import { gone, notFile, whyNot } from './still-there.ts';

const mebibyte = 1024 * 1024;

/** An event file, or a line of a segment. Whoever writes them refuses what would be larger. */
export const maxEventBytes = 128 * mebibyte;
/** Topic, key and headers. Refused by those who write, too. */
export const maxRouteBytes = mebibyte;
/** The note of what is done in a segment: a hundred times what the fullest segment of svc needs. */
export const maxDoneBytes = 16 * mebibyte;
/** A segment is ended at 16 MiB; the one that a process leaves at its end holds all that was in its memory. */
export const maxSegmentBytes = 1024 * mebibyte;

/** Never follows a link, never waits for the other end of a pipe. Windows has neither flag, and no such files. */
const reading = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
const notFiles = new Set(['ELOOP', 'EMLINK', 'ENXIO', 'EISDIR', 'ENODEV']);

export interface StoredFile {
  readonly file: FileHandle;
  /** At the time of the opening. No more than these are read. */
  readonly bytes: number;
}

/**
 * The one way to read what lies in a backup folder. Opened first and looked at then, so that it cannot be exchanged in
 * between: a regular file, of this user or of root, of bounded size. A text says why it is not read.
 */
export async function openStored(path: string, maxBytes: number): Promise<StoredFile | string> {
  // Only its name can tell a link there.
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

/** Fewer bytes at the end of the file. */
export async function readAt(file: FileHandle, start: number, bytes: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(bytes);
  let count = 0;
  while (count < bytes) {
    const { bytesRead } = await file.read(buffer, count, bytes - count, start + count);
    if (bytesRead === 0) break;
    count += bytesRead;
  }
  return buffer.subarray(0, count);
}

/**
 * In pieces, to the end that the file had when it was opened, at most.
 *
 * @throws SvcError with one line where it is not read
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

/** Of a file as its name shows it, to plan with; 0 where there is none. */
export async function sizeOf(path: string): Promise<number> {
  return lstat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

/** Of an event file; what is larger than any is not read. */
export async function plannedBytes(path: string): Promise<number> {
  const bytes = await sizeOf(path);
  return bytes > maxEventBytes ? 0 : bytes;
}

/** Of all files of a folder. */
export async function bytesIn(directory: string): Promise<number> {
  const sizes = (await readdir(directory)).map((name) => sizeOf(join(directory, name)));
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/** Of what is open, why it is not read. */
export function whyRefused(
  found: Pick<Stats, 'isFile' | 'uid' | 'size'>,
  maxBytes: number,
): string | undefined {
  if (!found.isFile()) return notFile;
  const user = process.getuid?.();
  // Root may have put back what belongs here; anybody else's file is here for another reason.
  if (user !== undefined && found.uid !== user && found.uid !== 0)
    return `it belongs to another user (id ${found.uid})`;
  return found.size > maxBytes
    ? `it is larger than ${maxBytes} bytes, and nothing that svc writes there is`
    : undefined;
}

function whyNotOpened(error: unknown): string {
  const code = codeOf(error);
  if (code === 'ENOENT') return gone;
  return notFiles.has(code) ? notFile : `it cannot be read (${code})`;
}
