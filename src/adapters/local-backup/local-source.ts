import { lstat, opendir, rename, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { createRanges } from '../../ground/bounds.ts';
import { nextTurn } from '../../ground/builtins.ts';
import type { RecoverySource, StoredBatch, StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
import { decodeEvent, decodeRecord } from '../../publish/stored-record.ts';
import {
  type DirectoryLock,
  lineOf,
  lockDirectory,
  openBackupDirectory,
  placeOfEvents,
  toBackupEvent,
} from './backup-directory.ts';
import {
  bySegment,
  type Cut,
  createLineIndex,
  cutEntries,
  type Entry,
  inOrder,
  type LineIndex,
  newProgress,
  type OwnSegments,
  type Progress,
  readPlaces,
  type Scan,
  scanSegment,
  sortNames,
  toRead,
} from './line-index.ts';
import {
  bytesIn,
  checkFolder,
  gone,
  isDiskFull,
  isThere,
  makeFolderSync,
  maxEventBytes,
  maxRouteBytes,
  missing,
  notFile,
  readStored,
  syncDirectory,
  unreadableBecause,
  unusable,
  whyNot,
} from './private-files.ts';
import {
  asideFolder,
  countLines,
  createDoubt,
  doneFile,
  finalName,
  finishSegment,
  isAbandoned,
  isEventFile,
  openSuffix,
  readDone,
  routesFolder,
  segmentName,
  storeFiles,
  writeDone,
} from './segment.ts';

// the way back: reads the events of a backup folder, whichever process wrote them.

export interface LocalSourceOptions {
  readonly directory: string;
  /** Only these segments. */
  readonly own?: (() => Promise<OwnSegments>) | undefined;
  /** Only this file of the folder, an event file or a segment. */
  readonly file?: string | undefined;
  /** Also events that were set aside, for a list. */
  readonly withAside?: boolean | undefined;
  /** Limit for all events that are set aside. Default: 1 GiB. */
  readonly maxAsideBytes?: number | undefined;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** Folder of handled files. */
const recoveredFolder = 'recovered';

/** Lines in one turn of the event loop. */
const parsedAtOnce = 100;

const usualAsideBytes = 1024 ** 3;

const inUse = 'a running process still writes to it: run the command again later';

/**
 * A local backup folder: event files and the lines of all segments, in the order of their event ids. Events of one key can be
 * in both. Handled files move to `recovered/`.
 */
export function createLocalSource(options: LocalSourceOptions): RecoverySource {
  const { directory } = options;
  const source = withOneLineErrors(createSource(options), directory);
  if (options.withAside !== true) return source;
  return withAside(source, createLocalSource({ directory: join(directory, asideFolder), now: options.now }));
}

function createSource(options: LocalSourceOptions): RecoverySource {
  const { directory, now, maxAsideBytes = usualAsideBytes } = options;
  const progress = new Map<string, Progress>();
  let real = directory;
  const isInDoubt = createDoubt();
  let lock: DirectoryLock | undefined;
  let isTaking = false;

  async function names(): Promise<{ files: string[]; segments: string[]; from?: bigint }> {
    if (options.own !== undefined) return { files: [], ...toRead(await options.own(), progress) };
    const wanted = options.file === undefined ? undefined : basename(options.file);
    const files: string[] = [];
    const segments: string[] = [];
    // Reading a hundred thousand names at once would block the application.
    for await (const { name } of await opendir(real, { bufferSize: 100 })) {
      if (wanted !== undefined && name !== wanted) continue;
      if (isEventFile(name)) files.push(name);
      else if (segmentName.test(name)) segments.push(name);
    }
    return { files: await sortNames(files), segments: segments.sort() };
  }

  /** A recovery takes over open segments of dead processes, and leaves those of live ones. */
  async function takeSegment(place: string): Promise<string | Unreadable> {
    const path = join(real, place);
    const reason = await whyNot(path);
    const isOpen = lock !== undefined && place.endsWith(openSuffix);
    // A segment that its writer has ended meanwhile has another name.
    if (reason !== undefined && !(isOpen && reason === gone))
      return { place, reason, ...(reason !== notFile && { mayPass: true }) };
    if (!isOpen) return place;
    if (reason === undefined && (await isAbandoned(path, now()))) return basename(await finishSegment(path));
    const isDoubtful = await isInDoubt(path);
    return { place, reason: inUse, isInUse: true, ...(isDoubtful && { isDoubtful }) };
  }

  async function scan(
    name: string,
    segment: number,
    index: LineIndex,
    from?: bigint,
  ): Promise<Scan['unreadable']> {
    const found = await scanSegment(real, name, segment, index, progress.get(name)?.unnoted, from);
    progress.set(name, found.progress);
    await moveFinished(name, found.progress);
    return found.unreadable;
  }

  /** Files and lines, in the order of their ids. */
  async function readAll(entries: readonly Entry[], segments: readonly string[]): Promise<StoredBatch> {
    const found = new Map<Entry, StoredEvent | Unreadable>();
    const files = entries.filter((entry) => typeof entry === 'string');
    const events = await Promise.all(files.map((name) => readEventFile(real, name)));
    for (const [index, file] of files.entries()) found.set(file, events[index] as StoredEvent | Unreadable);
    for (const [segment, lines] of bySegment(entries)) {
      const name = segments[segment] as string;
      const texts = await readPlaces(join(real, name), lines).catch(unreadableBecause);
      for (const [index, line] of lines.entries()) {
        if (index % parsedAtOnce === parsedAtOnce - 1) await nextTurn();
        const place = `${name}:${line.number + 1}`;
        const event = typeof texts === 'string' ? undefined : decodeRecord(texts[index] ?? '', place);
        if (event === undefined) (progress.get(name) as Progress).unreadable++;
        const why = typeof texts === 'string' && { reason: texts, mayPass: true as const };
        found.set(line, event ?? { place, reason: 'it holds no event', ...why });
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
    if (!isTaking || isMoved || lineCount === undefined || unreadable > 0) return;
    if (done.size() < lineCount) return;
    state.isMoved = true;
    await move(name);
    await unlink(doneFile(join(real, name))).catch(() => {});
  }

  async function move(name: string, to = recoveredFolder): Promise<string> {
    const final = finalName(name);
    const isTaken = (await whyNot(join(real, to, final))) !== gone;
    const moved = isTaken ? `${now()}-${final}` : final;
    await rename(join(real, name), join(real, to, moved));
    return moved;
  }

  /** Moves the route as well, so that the event can be restored from there. */
  async function moveFile(name: string, to = recoveredFolder): Promise<void> {
    const moved = await move(name, to);
    await rename(join(real, routesFolder, name), join(real, to, routesFolder, moved)).catch(() => {});
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
      // On a full disk this process continues, because it remembers. A later process would send these events again.
      if (!isDiskFull(error)) throw error;
    }
    await moveFinished(name, state);
  }

  return {
    name: `backup folder ${directory}`,

    async open(forRecovery) {
      if ((await whyNot(directory)) === gone)
        throw missing(`the backup folder "${directory}" does not exist`);
      real = openBackupDirectory(directory);
      checkFolder(join(real, routesFolder));
      if (options.file !== undefined) {
        const name = basename(options.file);
        await lstat(join(real, name)).catch(() => {
          throw missing(`there is no file "${name}" in the backup folder "${directory}"`);
        });
        if (!isEventFile(name) && !segmentName.test(name))
          throw missing(`"${name}" is neither an event file (.json) nor a segment`);
      }
      isTaking = forRecovery;
      if (!forRecovery) return;
      if (options.own === undefined) lock = lockDirectory(real);
      makeFolderSync(join(real, recoveredFolder));
      makeFolderSync(join(real, recoveredFolder, routesFolder));
    },

    async hasEvents() {
      try {
        // The first of a hundred thousand is enough.
        for await (const { name } of await opendir(placeOfEvents(directory)))
          if (isEventFile(name) || segmentName.test(name)) return true;
      } catch {
        // The folder does not exist, or is not readable.
      }
      return false;
    },

    async count() {
      const { files, segments } = await names();
      let count = files.length;
      for (const name of segments) {
        const lines = await countLines(join(real, name)).catch(() => 0);
        const done = await readDone(join(real, name), () => lines).catch(unreadableBecause);
        count += typeof done === 'string' ? lines : lines - done.size();
      }
      return count;
    },

    async *read(size) {
      const { files, segments, from } = await names();
      const index = createLineIndex();
      const scanned: string[] = [];
      for (const name of segments) {
        const taken = await takeSegment(name);
        const isTaken = typeof taken === 'string';
        const unreadable = isTaken
          ? await scan(taken, scanned.push(taken) - 1, index, from)
          : [taken].filter(isThere);
        if (unreadable.length > 0) yield { events: [], unreadable };
      }
      const plans = cutEntries(real, inOrder(files, index), size);
      const readOne = ({ entries }: Cut): Promise<StoredBatch> => readAll(entries, scanned);
      // A list must not report files that are gone by then.
      if (isTaking) yield* readAhead(plans, readOne);
      else for await (const cut of plans) yield await readOne(cut);
    },

    async done(events) {
      const lines = new Map<string, number[]>();
      let isMoved = false;
      for (const { place } of events) {
        const [, segment, line] = lineOf({ place });
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

    async setAside(events) {
      const folder = join(real, asideFolder);
      makeFolderSync(folder);
      makeFolderSync(join(folder, routesFolder));
      const bytes = (await bytesIn(folder)) + events.reduce((sum, { value }) => sum + value.length, 0);
      if (bytes > maxAsideBytes) return undefined;
      for (const event of events) {
        const [, segment, line] = lineOf(event);
        if (segment === undefined) await moveFile(event.place, asideFolder);
        else {
          const [result] = await storeFiles(folder, 'record', [toBackupEvent(event)]);
          if (typeof result !== 'string') throw result;
          await doneWithLines(segment, [Number(line) - 1]);
        }
      }
      return `${folder} (${bytes} bytes)`;
    },

    async close() {
      lock?.release();
      lock = undefined;
      isTaking = false;
    },
  };
}

/** Turns each error of the file system into one line, as the port requires. */
function withOneLineErrors(source: RecoverySource, directory: string): RecoverySource {
  const { setAside } = source;
  const orLine = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw unusable(error, directory);
    }
  };
  return {
    ...source,
    open: (forRecovery) => orLine(() => source.open(forRecovery)),
    count: () => orLine(() => source.count()),
    async *read(size) {
      const batches = source.read(size)[Symbol.asyncIterator]();
      try {
        for (;;) {
          const next = await orLine(() => batches.next());
          if (next.done) return;
          yield next.value;
        }
      } finally {
        await batches.return?.();
      }
    },
    ...(setAside !== undefined && { setAside: (events) => orLine(() => setAside(events)) }),
    done: (events) => orLine(() => source.done(events)),
  };
}

/** Reads one batch ahead, while the one before it is sent. A large batch is read alone. At the end, no read is in flight. */
export async function* readAhead<Plan extends { readonly isLarge: boolean }, Batch>(
  plans: AsyncIterable<Plan>,
  read: (plan: Plan) => Promise<Batch>,
): AsyncGenerator<Batch> {
  let ahead: Promise<Batch> | undefined;
  try {
    for await (const plan of plans) {
      const last = ahead;
      ahead = plan.isLarge ? undefined : read(plan);
      // `await last` reports it later.
      ahead?.catch(() => {});
      if (last !== undefined) yield await last;
      if (plan.isLarge) yield await read(plan);
    }
    if (ahead !== undefined) yield await ahead;
  } finally {
    await ahead?.catch(() => {});
  }
}

/** The event of a file, with its route in `routes/`. */
async function readEventFile(directory: string, name: string): Promise<StoredEvent | Unreadable> {
  const value = await readStored(join(directory, name), maxEventBytes);
  if (typeof value === 'string') return { place: name, reason: value };
  const route = await readStored(join(directory, routesFolder, name), maxRouteBytes);
  // Without its own route, the event would go to a wrong topic.
  if (typeof route === 'string' && route !== gone)
    return { place: name, reason: `its route, ${routesFolder}/${name}: ${route}` };
  const event =
    typeof route === 'string'
      ? (decodeRecord(value.toString(), name) ?? decodeEvent(value, undefined, name))
      : decodeEvent(value, route.toString(), name);
  return event ?? { place: name, reason: 'it holds no event' };
}

/** For a list: the events of a folder, then those that were set aside in it as too large. */
export function withAside(source: RecoverySource, aside: RecoverySource): RecoverySource {
  let hasAside = false;
  const placed = <T extends { readonly place: string }>(one: T): T => ({
    ...one,
    place: `${asideFolder}/${one.place}`,
  });
  return {
    ...source,
    async open(forRecovery) {
      await source.open(forRecovery);
      hasAside = (await aside.hasEvents?.()) === true;
      if (hasAside) await aside.open(false);
    },
    count: async () => ((await source.count()) ?? 0) + (hasAside ? ((await aside.count()) ?? 0) : 0),
    async *read(size): AsyncGenerator<StoredBatch> {
      yield* source.read(size);
      if (!hasAside) return;
      for await (const { events, unreadable } of aside.read(size))
        yield { events: events.map(placed), unreadable: unreadable.map(placed) };
    },
  };
}
