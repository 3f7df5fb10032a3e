import { lstat, readdir, readFile, rename, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { orderOf } from '../../event-id.ts';
import type { RecoverySource, StoredBatch, StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
import { decodeEvent, decodeRecord } from '../../publish/stored-record.ts';
import { createRanges, type Ranges } from '../../ranges.ts';
import { openBackupDirectory } from './backup-directory.ts';
import { codeOf, missing } from './backup-failure.ts';
import { type DirectoryLock, lockDirectory } from './directory-lock.ts';
import { createLineIndex, eventIdIn, type LineIndex } from './line-index.ts';
import { withOneLineErrors } from './one-line-errors.ts';
import { bySegment, type Entry, inOrder, readPlaces, sortNames } from './ordered-entries.ts';
import { readLines } from './read-lines.ts';
import {
  doneFile,
  finishSegment,
  isAbandoned,
  openSuffix,
  readDone,
  segmentName,
  writeDone,
} from './segment.ts';
import { gone, isThere, whyNot } from './still-there.ts';
import { routesFolder } from './store-files.ts';
import { isEventFile } from './usage.ts';
import { makeFolderSync, syncDirectory } from './write-exclusive.ts';

export interface LocalSourceOptions {
  readonly directory: string;
  /** Only this file of the folder, an event file or a segment. */
  readonly file?: string | undefined;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** Where processed files go. */
export const recoveredFolder = 'recovered';

const openFiles = 100;

const inUse = 'a running process still writes to it: run the command again later';

/** What of a segment is known while it is read. */
interface Progress {
  readonly done: Ranges;
  /** Lines that are no events. They keep the segment where it is. */
  unreadable: number;
  /** Known when the segment has been read to its end. */
  lineCount: number | undefined;
  isMoved: boolean;
  /** Done, and not on the disk: it could not be written. */
  readonly unnoted: Set<number>;
}

/**
 * A local backup folder: event files, and the lines of all segments, together in the order of their event ids, for events of
 * one key can lie in either. Processed files move to `recovered/`.
 */
export function createLocalSource(options: LocalSourceOptions): RecoverySource {
  return withOneLineErrors(createSource(options), options.directory);
}

function createSource(options: LocalSourceOptions): RecoverySource {
  const { directory, now } = options;
  const progress = new Map<string, Progress>();
  let real = directory;
  let lock: DirectoryLock | undefined;

  async function names(): Promise<{ files: string[]; segments: string[] }> {
    const all = await readdir(real);
    const wanted =
      options.file === undefined ? all : all.filter((name) => name === basename(options.file as string));
    return {
      files: sortNames(wanted.filter(isEventFile)),
      segments: wanted.filter((name) => segmentName.test(name)).sort(),
    };
  }

  /** For a recovery, what dead processes left open is taken over; what living ones write is theirs. */
  async function takeSegment(place: string): Promise<string | Unreadable> {
    const path = join(real, place);
    const reason = await whyNot(path);
    const isOpen = lock !== undefined && place.endsWith(openSuffix);
    // What its writer has ended meanwhile is there under another name.
    if (reason !== undefined && !(isOpen && reason === gone)) return { place, reason };
    if (!isOpen) return place;
    if (reason === undefined && (await isAbandoned(path, now()))) return basename(await finishSegment(path));
    return { place, reason: inUse, isInUse: true };
  }

  async function readEvent(name: string): Promise<StoredEvent | Unreadable> {
    const path = join(real, name);
    try {
      const reason = await whyNot(path);
      if (reason !== undefined) return { place: name, reason };
      const value = await readFile(path);
      const route = await readFile(join(real, routesFolder, name), 'utf8').catch(() => undefined);
      const event =
        (route === undefined ? decodeRecord(value.toString(), name) : undefined) ??
        decodeEvent(value, route, name);
      return event ?? { place: name, reason: 'it holds no event' };
    } catch (error) {
      return {
        place: name,
        reason: codeOf(error) === 'ENOENT' ? gone : `it cannot be read (${codeOf(error)})`,
      };
    }
  }

  /** Puts the lines of a segment that are not done into the index. Returns what is no event. */
  async function scanSegment(name: string, segment: number, index: LineIndex): Promise<Unreadable[]> {
    const state = newProgress(await readDone(join(real, name)), progress.get(name)?.unnoted);
    progress.set(name, state);
    const unreadable: Unreadable[] = [];
    let count = 0;
    for await (const { number, text, isWhole, start, bytes } of readLines(join(real, name))) {
      count++;
      if (state.done.has(number)) continue;
      const place = `${name}:${number + 1}`;
      const id = isWhole ? eventIdIn(text) : undefined;
      if (id !== undefined) index.add({ segment, number, start, bytes, id: orderOf(id) });
      else if (isWhole) {
        state.unreadable++;
        unreadable.push({ place, reason: 'it holds no event' });
      } else {
        // Written when the process died, so never counted as stored.
        unreadable.push({ place, reason: 'the line was cut off while it was written' });
        count--;
      }
    }
    state.lineCount = count;
    await moveFinished(name, state);
    return unreadable;
  }

  /** Files and lines, in the order of their ids. */
  async function readAll(entries: readonly Entry[], segments: readonly string[]): Promise<StoredBatch> {
    const found = new Map<Entry, StoredEvent | Unreadable>();
    const files = entries.filter((entry) => typeof entry === 'string');
    const events = await Promise.all(files.map(readEvent));
    for (const [index, file] of files.entries()) found.set(file, events[index] as StoredEvent | Unreadable);
    for (const [segment, lines] of bySegment(entries)) {
      const name = segments[segment] as string;
      const texts = await readPlaces(join(real, name), lines).catch(codeOf);
      for (const [index, line] of lines.entries()) {
        const place = `${name}:${line.number + 1}`;
        const text = typeof texts === 'string' ? undefined : texts[index];
        const event = text === undefined ? undefined : decodeRecord(text, place);
        if (event === undefined) (progress.get(name) as Progress).unreadable++;
        const unread = texts === 'ENOENT' ? gone : 'it cannot be read any more';
        const reason = text === undefined ? unread : 'it holds no event';
        found.set(line, event ?? { place, reason });
      }
    }
    const all = entries.map((entry) => found.get(entry) as StoredEvent | Unreadable);
    return {
      events: all.filter((one): one is StoredEvent => 'value' in one),
      unreadable: all.filter((one): one is Unreadable => !('value' in one)).filter(isThere),
    };
  }

  async function moveFinished(name: string, state: Progress): Promise<void> {
    const { done, unreadable, lineCount, isMoved } = state;
    if (lock === undefined || isMoved || lineCount === undefined || unreadable > 0) return;
    if (done.size() < lineCount) return;
    state.isMoved = true;
    await move(name);
    await unlink(doneFile(join(real, name))).catch(() => {});
  }

  async function move(name: string): Promise<string> {
    const isTaken = (await whyNot(join(real, recoveredFolder, name))) !== gone;
    const moved = isTaken ? `${now()}-${name}` : name;
    await rename(join(real, name), join(real, recoveredFolder, moved));
    return moved;
  }

  /** With its route, so that it could be restored from there once more. */
  async function moveFile(name: string): Promise<void> {
    const moved = await move(name);
    await rename(join(real, routesFolder, name), join(real, recoveredFolder, routesFolder, moved)).catch(
      () => {},
    );
  }

  async function doneWithLines(name: string, lines: readonly number[]): Promise<void> {
    const state = progress.get(name) ?? newProgress(createRanges());
    for (const line of lines) {
      state.done.add(line);
      state.unnoted.add(line);
    }
    try {
      await writeDone(real, join(real, name), state.done);
      state.unnoted.clear();
    } catch (error) {
      // On a full disk this process goes on, for it remembers; whoever comes after it would send these once more.
      if (!isFull(error)) throw error;
    }
    await moveFinished(name, state);
  }

  return {
    name: `backup folder ${directory}`,

    async open(forRecovery) {
      if ((await whyNot(directory)) === gone)
        throw missing(`the backup folder "${directory}" does not exist`);
      real = openBackupDirectory(directory);
      if (options.file !== undefined) {
        const name = basename(options.file);
        await lstat(join(real, name)).catch(() => {
          throw missing(`there is no file "${name}" in the backup folder "${directory}"`);
        });
        if (!isEventFile(name) && !segmentName.test(name))
          throw missing(`"${name}" is neither an event file (.json) nor a segment`);
      }
      if (!forRecovery) return;
      lock = await lockDirectory(real);
      makeFolderSync(join(real, recoveredFolder));
      makeFolderSync(join(real, recoveredFolder, routesFolder));
    },

    async hasEvents() {
      const all = await readdir(directory).catch(() => []);
      return all.some((name) => isEventFile(name) || segmentName.test(name));
    },

    async count() {
      const { files, segments } = await names();
      let count = files.length;
      for (const name of segments) {
        if ((await whyNot(join(real, name))) !== undefined) continue;
        const done = await readDone(join(real, name));
        for await (const { number, isWhole } of readLines(join(real, name))) {
          if (isWhole && !done.has(number)) count++;
        }
      }
      return count;
    },

    async *read(size) {
      const { files, segments } = await names();
      const index = createLineIndex();
      const scanned: string[] = [];
      for (const name of segments) {
        const taken = await takeSegment(name);
        const isTaken = typeof taken === 'string';
        const unreadable = isTaken
          ? await scanSegment(taken, scanned.push(taken) - 1, index)
          : [taken].filter(isThere);
        if (unreadable.length > 0) yield { events: [], unreadable };
      }
      let entries: Entry[] = [];
      let fileCount = 0;
      for (const entry of inOrder(files, index)) {
        entries.push(entry);
        if (typeof entry === 'string') fileCount++;
        if (entries.length < size && fileCount < openFiles) continue;
        yield await readAll(entries, scanned);
        entries = [];
        fileCount = 0;
      }
      if (entries.length > 0) yield await readAll(entries, scanned);
    },

    async done(events) {
      const lines = new Map<string, number[]>();
      let isMoved = false;
      for (const { place } of events) {
        const [, segment, line] = /^(segment-.*):(\d+)$/.exec(place) ?? [];
        if (segment === undefined) {
          await moveFile(place);
          isMoved = true;
        } else lines.set(segment, [...(lines.get(segment) ?? []), Number(line) - 1]);
      }
      for (const [segment, done] of lines) await doneWithLines(segment, done);
      if (isMoved) {
        await syncDirectory(join(real, recoveredFolder));
        await syncDirectory(real);
      }
    },

    async close() {
      await lock?.release();
      lock = undefined;
    },
  };
}

function isFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(codeOf(error));
}

function newProgress(done: Ranges, unnoted: Set<number> = new Set()): Progress {
  for (const line of unnoted) done.add(line);
  return { done, unnoted, unreadable: 0, lineCount: undefined, isMoved: false };
}
