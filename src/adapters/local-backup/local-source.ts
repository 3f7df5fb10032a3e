import { lstat, opendir, readdir, rename } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { createRanges, type Ranges } from '../../ground/bounds.ts';
import { nextTurn } from '../../ground/builtins.ts';
import { isAlive, ownStamp } from '../../ground/claims.ts';
import { SvcError } from '../../ground/errors.ts';
import { orderOf } from '../../ground/event-fields.ts';
import type { RecoverySource, StoredBatch, StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
import { decodeRecord } from '../../publish/tier.ts';
import {
  type DirectoryLock,
  lineOf,
  lockDirectory,
  openBackupDirectory,
  placeOfEvents,
  toBackupEvent,
} from './backup-directory.ts';
import {
  asideFolder,
  codeOf,
  eventFilesIn,
  finalName,
  gone,
  isDiskFull,
  isEventFile,
  makeFolderSync,
  openSuffix,
  reasonOf,
  routesFolder,
  segmentAt,
  segmentNames,
  syncDirectory,
  whyNot,
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
      else if (segmentNames.test(name)) segments.push(name);
    }
    return { files: await sortNames(files), segments: segments.sort() };
  }

  /** A recovery takes over open segments of dead processes, and leaves those of live ones. */
  async function takeSegment(place: string): Promise<string | Unreadable> {
    const path = join(real, place);
    const refusal = await whyNot(path);
    const isOpen = lock !== undefined && place.endsWith(openSuffix);
    // A segment that its writer has ended meanwhile has another name.
    if (refusal !== undefined && !(isOpen && refusal.reason === gone)) return { place, ...refusal };
    if (!isOpen) return place;
    if (refusal === undefined && (await isAbandoned(path, now())))
      return basename(await segmentAt(path).finish());
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

  async function readAll(entries: readonly Entry[], segments: readonly string[]): Promise<StoredBatch> {
    const found = new Map<Entry, StoredEvent | Unreadable>();
    const files = entries.filter((entry) => typeof entry === 'string');
    const events = await Promise.all(files.map(eventFilesIn(real).read));
    for (const [index, file] of files.entries()) found.set(file, events[index] as StoredEvent | Unreadable);
    for (const [segment, lines] of bySegment(entries)) {
      const name = segments[segment] as string;
      const texts = await segmentAt(join(real, name)).texts(lines).catch(unreadableBecause);
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
    await segmentAt(join(real, name)).removeDone();
  }

  async function move(name: string, to = recoveredFolder): Promise<string> {
    const final = finalName(name);
    const isTaken = (await whyNot(join(real, to, final)))?.reason !== gone;
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
      await segmentAt(join(real, name)).writeDone(state.done);
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
      if ((await whyNot(directory))?.reason === gone)
        throw missing(`the backup folder "${directory}" does not exist`);
      real = openBackupDirectory(directory);
      eventFilesIn(real).checkRoutes();
      if (options.file !== undefined) {
        const name = basename(options.file);
        await lstat(join(real, name)).catch(() => {
          throw missing(`there is no file "${name}" in the backup folder "${directory}"`);
        });
        if (!isEventFile(name) && !segmentNames.test(name))
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
          if (isEventFile(name) || segmentNames.test(name)) return true;
      } catch {
        // The folder does not exist, or is not readable.
      }
      return false;
    },

    async count() {
      const { files, segments } = await names();
      let count = files.length;
      for (const name of segments) {
        const segment = segmentAt(join(real, name));
        const lines = await segment.countLines().catch(() => 0);
        const done = await segment.readDone(() => lines).catch(unreadableBecause);
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
          const [result] = await eventFilesIn(folder).store('record', [toBackupEvent(event)]);
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

/** Turns an error of the file system into one line, for readers of the folder. */
function unusable(error: unknown, directory: string): SvcError {
  if (error instanceof SvcError) return error;
  const { path, syscall } = error as NodeJS.ErrnoException;
  const where = path === undefined ? '' : ` (${syscall} ${path})`;
  return missing(`the backup folder "${directory}" cannot be used: ${reasonOf(error)}${where}`);
}

/** Of one file among others that can be read. */
function unreadableBecause(error: unknown): string {
  return error instanceof SvcError ? error.message : `it cannot be read (${codeOf(error)})`;
}

function missing(message: string): SvcError {
  return new SvcError('SVC_ADAPTERS_BACKUP_FAILED', message);
}

/** Whether its process is gone, or, if it runs elsewhere, has not touched it for a minute. */
async function isAbandoned(path: string, nowMs: number): Promise<boolean> {
  const writer = segmentNames.writerOf(basename(path));
  const own = ownStamp();
  if (writer !== undefined && (writer.space ?? own.space) === own.space) {
    const isGone = !isAlive({ ...writer, space: own.space }, own);
    // An older name does not tell the host, where another process may have this id.
    if (isGone || writer.space !== undefined) return isGone;
  }
  const found = await lstat(path).catch(() => undefined);
  // A time in the future is not from its writer.
  return found !== undefined && Math.abs(nowMs - found.mtimeMs) > abandonedMs;
}

const abandonedMs = 60_000;

/**
 * Tells whether a journal in use is doubtful. Its process is, or was, on another host or in another container, and has not
 * touched it since the first call.
 */
function createDoubt(): (path: string) => Promise<boolean> {
  const seen = new Map<string, number>();
  return async (path) => {
    const space = segmentNames.writerOf(basename(path))?.space;
    if (space === undefined || space === ownStamp().space) return false;
    const { mtimeMs = 0 } = (await lstat(path).catch(() => undefined)) ?? {};
    if (!seen.has(path)) seen.set(path, mtimeMs);
    return seen.get(path) === mtimeMs;
  };
}

/** Reads one batch ahead, while the one before it is sent. A large batch is read alone. At the end, no read is in flight. */
async function* readAhead<Plan extends { readonly isLarge: boolean }, Batch>(
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

/** For a list: the events of a folder, then those that were set aside in it as too large. */
function withAside(source: RecoverySource, aside: RecoverySource): RecoverySource {
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

/** Reads the id without parsing the rest of a line in svc's form. `undefined`: not an event. */
function eventIdIn(text: string): string | undefined {
  return /^\{"eventId":"([0-9a-f-]{1,36})"/.exec(text)?.[1] ?? decodeRecord(text, '')?.eventId;
}

function bySegment(entries: readonly Entry[]): Map<number, IndexedLine[]> {
  const lines = new Map<number, IndexedLine[]>();
  for (const entry of entries) {
    if (typeof entry === 'string') continue;
    const known = lines.get(entry.segment);
    if (known === undefined) lines.set(entry.segment, [entry]);
    else known.push(entry);
  }
  return lines;
}

/** Limits of one batch. A larger event comes alone. Two batches are in memory at once. */
const openFiles = 32;

const batchBytes = 8 * 1024 * 1024;

interface Cut {
  readonly entries: readonly Entry[];
  /** So large that no other batch fits in memory beside it. */
  readonly isLarge: boolean;
}

/** Batches of at most `size` entries. */
async function* cutEntries(directory: string, all: Iterable<Entry>, size: number): AsyncGenerator<Cut> {
  const files = eventFilesIn(directory);
  let entries: Entry[] = [];
  let fileCount = 0;
  let bytes = 0;
  for (const entry of all) {
    const isFile = typeof entry === 'string';
    // A larger file is not read.
    const entryBytes = isFile ? await files.plannedBytes(entry) : entry.bytes;
    const isFull = entries.length >= size || fileCount >= openFiles || bytes + entryBytes > batchBytes;
    if (isFull && entries.length > 0) {
      yield { entries, isLarge: bytes > batchBytes };
      entries = [];
      fileCount = 0;
      bytes = 0;
    }
    entries.push(entry);
    if (isFile) fileCount++;
    bytes += entryBytes;
  }
  if (entries.length > 0) yield { entries, isLarge: bytes > batchBytes };
}

interface Progress {
  readonly done: Ranges;
  /** Lines that are not events. They keep the segment in the folder. */
  unreadable: number;
  /** Set when the segment has been read to its end. */
  lineCount: number | undefined;
  isMoved: boolean;
  /** The greatest id of its unhandled lines. Set when the segment has been read to its end. */
  lastId: bigint | undefined;
  /** Handled lines that could not be written to the disk. */
  readonly unnoted: Set<number>;
}

function newProgress(done: Ranges, unnoted: Set<number> = new Set()): Progress {
  for (const line of unnoted) done.add(line);
  return { done, unnoted, unreadable: 0, lineCount: undefined, isMoved: false, lastId: undefined };
}

/** Lines without an event that are reported one by one, for each segment. */
const maxNamed = 100;

/** Of one segment: ten times what the end of a process can leave in one. */
const maxLines = 10_000_000;

/** The journal of this process: its ended segments. Events before `from` are not wanted. */
interface OwnSegments {
  readonly names: readonly string[];
  /** `orderOf` an event id. */
  readonly from: bigint;
}

/** The segments that may hold wanted events. They have no writer, so earlier results hold. */
function toRead({ names, from }: OwnSegments, known: ReadonlyMap<string, Progress>) {
  return { segments: names.filter((name) => from <= (known.get(name)?.lastId ?? from)), from };
}

interface Scan {
  readonly progress: Progress;
  readonly unreadable: readonly Unreadable[];
}

/** Adds unhandled lines of a segment from `from` on to the index. Problems are reported, and keep the segment in the folder. */
async function scanSegment(
  directory: string,
  name: string,
  segment: number,
  index: LineIndex,
  unnoted: Set<number> | undefined,
  from = 0n,
): Promise<Scan> {
  const { lines, countLines, readDone, doneName } = segmentAt(join(directory, name));
  const generation = segmentNames.generationOf(name);
  const unreadable: Unreadable[] = [];
  let unnamed = 0;
  let count = 0;
  let lastId = 0n;
  let done: Ranges | string;
  try {
    done = await readDone(() => countLines());
  } catch (error) {
    done = unreadableBecause(error);
  }
  if (typeof done === 'string') {
    // Events are sent twice rather than never. The first handled lines replace the invalid note.
    const reason = `${done}: no line counts as done`;
    unreadable.push({ place: doneName, reason });
  }
  const progress = newProgress(typeof done === 'string' ? createRanges() : done, unnoted);

  function refuse(place: string, reason: string): void {
    if (unreadable.length < maxNamed) unreadable.push({ place, reason });
    else unnamed++;
  }

  try {
    for await (const { number, text, isWhole, start, bytes } of lines()) {
      if (number >= maxLines) throw missing(`it has more than ${maxLines} lines`);
      if (!isWhole) {
        // Its process died during the write, so it never counted as stored.
        refuse(`${name}:${number + 1}`, 'the line was cut off during its write');
        continue;
      }
      count++;
      if (progress.done.has(number)) continue;
      const eventId = text === undefined ? undefined : eventIdIn(text);
      if (eventId !== undefined) {
        const id = orderOf(eventId);
        if (id > lastId) lastId = id;
        if (id >= from) index.add({ segment, number, start, bytes, id }, generation);
      } else {
        progress.unreadable++;
        const reason = text === undefined ? 'the line is longer than any event' : 'it holds no event';
        refuse(`${name}:${number + 1}`, reason);
      }
    }
    progress.lineCount = count;
    progress.lastId = lastId;
  } catch (error) {
    unreadable.push({ place: name, reason: unreadableBecause(error), mayPass: true });
  }
  if (unnamed > 0) unreadable.push({ place: name, reason: `${unnamed} more lines of it hold no event` });
  return { progress, unreadable };
}

async function bytesIn(directory: string): Promise<number> {
  const sizes = (await readdir(directory)).map((name) =>
    lstat(join(directory, name)).then(
      ({ size }) => size,
      () => 0,
    ),
  );
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/** Files that another process has taken out meanwhile are not reported. */
function isThere({ reason }: Unreadable): boolean {
  return reason !== gone;
}

/** A line of a segment, located so that it can be read alone. */
interface IndexedLine {
  /** Position of its segment in the list of the reader. */
  readonly segment: number;
  /** Number of the line, from 0. */
  readonly number: number;
  /** In bytes. */
  readonly start: number;
  readonly bytes: number;
  /** `orderOf` its event id. */
  readonly id: bigint;
}

interface OrderedLine extends IndexedLine {
  readonly generation: number;
}

/** Lines that were added in their order. Segments are nearly sorted, so a merge of a few runs blocks no other work. */
interface Run {
  readonly generation: number;
  at: number;
  end: number;
}

type LineIndex = ReturnType<typeof createLineIndex>;

/** The lines of many segments in the order of their event ids, at 28 bytes a line, so that a million fit in memory. */
function createLineIndex() {
  let ids = new BigUint64Array(1_024);
  let starts = new Float64Array(1_024);
  // Segment, number, bytes.
  let rest = new Uint32Array(3 * 1_024);
  let count = 0;
  const runs: Run[] = [];

  function comesFirst(a: Run, b: Run): boolean {
    if (a.generation !== b.generation) return a.generation < b.generation;
    const [first, second] = [ids[a.at] as bigint, ids[b.at] as bigint];
    return first === second ? a.at < b.at : first < second;
  }

  function grow(): void {
    const [oldIds, oldStarts, oldRest] = [ids, starts, rest];
    ids = new BigUint64Array(count * 2);
    starts = new Float64Array(count * 2);
    rest = new Uint32Array(count * 6);
    ids.set(oldIds);
    starts.set(oldStarts);
    rest.set(oldRest);
  }

  return {
    /** Lower generations come first, whatever their ids. */
    add({ id, start, segment, number, bytes }: IndexedLine, generation = 0): void {
      if (count === ids.length) grow();
      const run = runs.at(-1);
      const goesOn = run !== undefined && run.generation === generation && (ids[count - 1] as bigint) <= id;
      if (goesOn) run.end++;
      else runs.push({ generation, at: count, end: count + 1 });
      ids[count] = id;
      starts[count] = start;
      rest.set([segment, number, bytes], 3 * count);
      count++;
    },
    /** In order. Lines with equal ids keep the order of their `add`. */
    *sorted(): Generator<OrderedLine, undefined> {
      const heap = createHeap(runs, comesFirst);
      for (let run = heap.first(); run !== undefined; run = heap.first()) {
        const at = run.at++;
        const [segment = 0, number = 0, bytes = 0] = rest.subarray(3 * at, 3 * at + 3);
        const { generation } = run;
        heap.sink(run.at < run.end);
        yield { id: ids[at] as bigint, start: starts[at] as number, segment, number, bytes, generation };
      }
      return undefined;
    },
  };
}

/** The smallest of many items that grow one at a time. */
function createHeap<T>(
  items: readonly T[],
  comesFirst: (a: T, b: T) => boolean,
): { first(): T | undefined; sink(isKept: boolean): void } {
  const heap = [...items];

  function sinkFrom(at: number): void {
    for (let parent = at; ; ) {
      const left = 2 * parent + 1;
      let child = left;
      if (left + 1 < heap.length && comesFirst(heap[left + 1] as T, heap[left] as T)) child = left + 1;
      if (child >= heap.length || !comesFirst(heap[child] as T, heap[parent] as T)) return;
      [heap[parent], heap[child]] = [heap[child] as T, heap[parent] as T];
      parent = child;
    }
  }

  for (let at = (heap.length >> 1) - 1; at >= 0; at--) sinkFrom(at);
  return {
    first: () => heap[0],
    /** The first item has grown, or is at its end. */
    sink(isKept) {
      const last = isKept ? undefined : heap.pop();
      if (last !== undefined && heap.length > 0) heap[0] = last;
      sinkFrom(0);
    },
  };
}

type Entry = string | IndexedLine;

/** Entries sorted or merged in one turn of the event loop, a few milliseconds. */
const atOnce = { sorted: 500, merged: 4_000 };

/**
 * Names of event files in the order of their ids, a million within seconds. Names without an id come first. It sorts numbers,
 * because an object for each name would cause long garbage collections.
 */
async function sortNames(names: readonly string[]): Promise<string[]> {
  const [high, low] = [new Uint32Array(names.length), new Uint32Array(names.length)];
  const before = (a: number, b: number): number =>
    (high[a] as number) - (high[b] as number) ||
    (low[a] as number) - (low[b] as number) ||
    byNumber(names[a] as string, names[b] as string);
  let order = new Uint32Array(names.length);
  for (let start = 0; start < names.length; start += atOnce.sorted) {
    const end = Math.min(start + atOnce.sorted, names.length);
    for (let at = start; at < end; at++) {
      const id = idOf(names[at] as string);
      high[at] = Number(id >> 32n);
      low[at] = Number(id & 0xffff_ffffn);
      order[at] = at;
    }
    order.subarray(start, end).sort(before);
    await nextTurn();
  }
  let merged = new Uint32Array(names.length);
  for (let length = atOnce.sorted; length < names.length; length *= 2) {
    for (let start = 0, one = 0, other = 0, at = 0; at < names.length; at++) {
      if (at === start + 2 * length || at === 0) [start, one, other] = [at, at, at + length];
      const oneEnds = Math.min(start + length, names.length);
      const otherEnds = Math.min(start + 2 * length, names.length);
      const isOne =
        other >= otherEnds || (one < oneEnds && before(order[one] as number, order[other] as number) <= 0);
      merged[at] = order[isOne ? one++ : other++] as number;
      if (at % atOnce.merged === 0) await nextTurn();
    }
    [order, merged] = [merged, order];
  }
  const sorted: string[] = [];
  for (const [index, at] of order.entries()) {
    sorted.push(names[at] as string);
    if (index % atOnce.merged === 0) await nextTurn();
  }
  return sorted;
}

function idOf(file: string): bigint {
  const stem = basename(file, '.json');
  // `<epoch_millis>.json` says nothing about the id in it.
  if (/^\d{13}$/.test(stem)) return 0n;
  // Later files of one id have a number after it.
  return orderOf(stem) || orderOf(stem.replace(/-\d+$/, ''));
}

/** Numbers as texts of any length. */
function byNumber(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : 1);
}

/** Event files belong to no journal. @param files names in their order */
function* inOrder(files: readonly string[], index: LineIndex): Generator<Entry> {
  const lines = index.sorted();
  let line = lines.next().value;
  for (const file of files) {
    const id = idOf(file);
    while (line !== undefined && line.generation === 0 && line.id < id) {
      yield line;
      line = lines.next().value;
    }
    yield file;
  }
  while (line !== undefined) {
    yield line;
    line = lines.next().value;
  }
}
