import { constants } from 'node:fs';
import { lstat, open, rename, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { parseBounded } from '../../ground/bounds.ts';
import { nodeCrypto } from '../../ground/builtins.ts';
import { isAlive, isRunning, ownStamp, type ProcessStamp } from '../../ground/claims/process-stamp.ts';
import { createRanges, type Ranges, rangesWithin } from '../../ground/ranges.ts';
import { maxDoneBytes, readStored } from './source/open-stored.ts';
import { gone } from './source/still-there.ts';
import { syncDirectory, temporaryName } from './write-exclusive.ts';

/**
 * A segment, the file of many events, from its first line to its last:
 *
 * | It is | on disk | Who reads it | It becomes |
 * |---|---|---|---|
 * | written to | `segment-….ndjson.open` | nobody | ended: it is full, or is to be read |
 * | ended | the same name | where an order is kept, the drain of its own process; else nobody | done, or handed over: at once where no order is kept, else at the end of the process |
 * | abandoned | the same name; its process is gone, or has not touched it for a minute | whoever has the lock of the folder | handed over |
 * | handed over | `segment-….ndjson` | whoever has the lock: a drain, or `svc backup restore` | done |
 * | done in part | and a `….done` beside it, with the numbers of the lines | the same; those lines are left out | done |
 * | done | `recovered/segment-….ndjson` | nobody but a person | |
 */
export const openSuffix = '.open';
/** `segment-<generation>-<pid>-<random>-<space>-<task>-<began>`; an older version's have the first three alone, and no generation. */
export const segmentName =
  /^segment-(\d{13})-(\d{1,10})-([0-9a-f]{8})(?:-([0-9a-f]{8})-(\d{1,10})-(\d{1,19}))?\.ndjson(\.open)?$/;

export const segmentTaken = 'SEGMENT_TAKEN';

const newFile =
  constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | constants.O_APPEND | (constants.O_NOFOLLOW ?? 0);

/** One file of newline-delimited records, being written. */
export interface Segment {
  readonly path: string;
  bytes(): number;
  lines(): number;
  /**
   * Appends whole lines and forces them to the disk: all of them or none. After a failure it takes no more.
   * Fails with the code `SEGMENT_TAKEN` when somebody has moved or removed the file meanwhile: a reader that took its
   * writer for dead may or may not have seen these lines.
   */
  append(text: string, lineCount: number): Promise<void>;
  /** Ends the writing; the file keeps the suffix of one that is worked on. */
  end(): Promise<void>;
}

/**
 * Who writes segments: all of them have the same generation, and what comes later in the folder has a greater one. 0: event files
 * stand beside them.
 */
export interface JournalOwner {
  readonly generation: number;
  readonly stamp: ProcessStamp;
}

/** `names`: all that is in the folder. A clock that went back since changes nothing. */
export function nextGeneration(names: readonly string[], nowMs: number): number {
  return names.reduce((most, name) => Math.max(most, generationOf(name) + 1), nowMs);
}

/** Which comes first of what several processes left, one after the other; 0 of those among event files. */
export function generationOf(name: string): number {
  const [, generation, , , space] = segmentName.exec(name) ?? [];
  return space === undefined ? 0 : Number(generation);
}

export function newSegmentName({ generation, stamp }: JournalOwner): string {
  const number = String(generation).padStart(13, '0');
  const { space, task, began } = stamp;
  const random = nodeCrypto().randomBytes(4).toString('hex');
  return `segment-${number}-${process.pid}-${random}-${space}-${task}-${began}.ndjson`;
}

export async function createSegment(directory: string, owner: JournalOwner): Promise<Segment> {
  const path = join(directory, newSegmentName(owner) + openSuffix);
  const file = await open(path, newFile, 0o600);
  let bytes = 0;
  let lines = 0;
  let isBroken = false;
  try {
    await file.chmod(0o600);
    await syncDirectory(directory);
  } catch (error) {
    await file.close();
    await unlink(path).catch(() => {});
    throw error;
  }
  const { ino } = await file.stat();
  return {
    path,
    bytes: () => (isBroken ? Number.POSITIVE_INFINITY : bytes),
    lines: () => lines,
    async append(text, lineCount) {
      try {
        await file.writeFile(text);
        await file.datasync();
        // A reader renames a segment before it reads it: in place now means that the lines will be read.
        const found = await lstat(path).catch(() => undefined);
        if (found?.ino !== ino) throw Object.assign(new Error('segment taken'), { code: segmentTaken });
        bytes += Buffer.byteLength(text);
        lines += lineCount;
      } catch (error) {
        isBroken = true;
        // Half a batch on a full disk: what nobody was told to be stored must not be sent one day.
        if ((error as NodeJS.ErrnoException).code !== segmentTaken)
          await file.truncate(bytes).catch(() => {});
        throw error;
      }
    },
    end: () => file.close(),
  };
}

/** Hands the segment over to readers. Returns its new path. */
export async function finishSegment(path: string): Promise<string> {
  const final = finalName(path);
  await rename(path, final);
  return final;
}

/** Where the lines that are done are noted: beside the segment, under the name that it has when finished. */
export function doneFile(segment: string): string {
  return `${finalName(segment)}.done`;
}

/** The same before and after it is handed to the readers. */
export function finalName(path: string): string {
  return path.endsWith(openSuffix) ? path.slice(0, -openSuffix.length) : path;
}

/** A text says why the note is not believed: then nothing of the segment counts as done, and events are sent twice rather than never. */
export async function readDone(
  segment: string,
  lineCount: () => number | Promise<number>,
): Promise<Ranges | string> {
  const note = await readStored(doneFile(segment), maxDoneBytes);
  if (note === gone) return createRanges();
  if (typeof note === 'string') return note;
  const ranges = parseBounded(note.toString(), 2, maxDoneBytes);
  return rangesWithin(ranges, await lineCount()) ?? 'it names what is not there';
}

/** Atomic and on the disk: a crash leaves the note from before or this one. */
export async function writeDone(directory: string, segment: string, done: Ranges): Promise<void> {
  const temporary = join(directory, temporaryName());
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(JSON.stringify(done));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, join(directory, basename(doneFile(segment))));
    await syncDirectory(directory);
  } catch (error) {
    await unlink(temporary).catch(() => {});
    throw error;
  }
}

/**
 * The process that wrote it is gone, or has not touched it for a minute: it does as long as it lives, which is what tells where it
 * runs on another host, or in another container.
 */
export async function isAbandoned(path: string, nowMs: number): Promise<boolean> {
  const [, , pid, , space, task, began] = segmentName.exec(basename(path)) ?? [];
  if (space !== undefined) {
    const own = ownStamp();
    const stamp = { space, pid: Number(pid), task: Number(task), began: Number(began) };
    if (space === own.space) return !isAlive(stamp, own);
  } else if (pid !== undefined && Number(pid) !== process.pid && !isRunning(Number(pid))) return true;
  const found = await lstat(path).catch(() => undefined);
  // A time to come is none of its writer's.
  return found !== undefined && Math.abs(nowMs - found.mtimeMs) > abandonedMs;
}

const abandonedMs = 60_000;

/**
 * Tells whether a journal in use is doubtful: its process is, or was, on another host or in another container, and has not
 * touched it since this was first asked.
 */
export function createDoubt(): (path: string) => Promise<boolean> {
  const seen = new Map<string, number>();
  return async (path) => {
    const [, , , , space] = segmentName.exec(basename(path)) ?? [];
    if (space === undefined || space === ownStamp().space) return false;
    const { mtimeMs = 0 } = (await lstat(path).catch(() => undefined)) ?? {};
    if (!seen.has(path)) seen.set(path, mtimeMs);
    return seen.get(path) === mtimeMs;
  };
}
