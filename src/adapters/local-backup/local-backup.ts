// local-backup/: the last tier: events on the disk of this machine, in single files or in segments.

import { constants, readdirSync, renameSync } from 'node:fs';
import { lstat, open, readdir, unlink, utimes } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { nextTurn, sleep } from '../../ground/builtins.ts';
import { clock, within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { logger } from '../../observe/logger.ts';
import type { StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
import type { BackupEvent } from '../../publish/tier.ts';
import {
  besideLink,
  checkBackupDirectory,
  type DirectoryOptions,
  identityOf,
  openBackupDirectory,
  placeOfEvents,
  removeOldTemporaries,
  toBackupEvent,
} from './backup-directory.ts';
import {
  asideFolder,
  checkedLine,
  eventFilesIn,
  finalName,
  gone,
  isDiskFull,
  isEventFile,
  openSuffix,
  reasonOf,
  segmentAt,
  segmentNames,
  syncDirectory,
  whyNot,
} from './segment.ts';

/** Stores the events of this process, and copies of events in a folder of their own. */
export const localBackup = { open: createLocalBackup, eventFiles: openEventFiles };

export interface LocalBackupOptions extends DirectoryOptions {
  readonly directory: string;
  /** `journal`: all events go to segments, many a file. */
  readonly format: 'event' | 'record' | 'journal';
  /** Event files in the folder. Further events go to segments. */
  readonly maxFiles: number;
  /** Of all waiting events. One event more is refused. */
  readonly maxBytes: number;
  /** Only this process reads its segments while it lives, because its sender keeps their order. */
  readonly isJournal?: boolean;
}

/** Up to this many events at once are written as files, if the format has files. More go to one segment with one fsync. */
const [fewEvents, fewAtTheEnd] = [16, 64];
/** Events in memory that wait for a slow disk. */
const maxWaitingBytes = 64 * 1024 * 1024;
/** A segment is handed to the readers this long after its first event. */
const sealAfterMs = 1_000;
/** Other processes change the folder, too. */
const [recountMs, recountSoonMs] = [60_000, 10_000];

/**
 * Events as files on this machine: readable for their owner only, complete or absent, and on the disk before they count as
 * stored. They are appended to a segment, with one fsync a batch. If the format has a file for each event, segments take large
 * batches and events beyond `maxFiles` only. Stored events never change their form.
 */
function createLocalBackup(options: LocalBackupOptions) {
  const { format, maxFiles, maxBytes, isJournal = false } = options;
  const usage = createUsage(() => clock.monotonic());
  const waiting: Waiting[] = [];
  let waitingBytes = 0;
  let real: string | undefined;
  let identity: string | undefined;
  /** Why the folder could not be used at the last check, in one line. `null`: it can be used. */
  let problem: string | null = null;
  let lookedAtMs = clock.monotonic();
  const directoryOptions: DirectoryOptions = { ...options, onRestricted: (line) => logger.warn(line) };
  const writer = createSegmentWriter({ usage, hasFiles: format !== 'journal' });
  /** Segments are about to be ended. */
  let isEnding = false;
  let working: Promise<void> | undefined;
  let sealing: NodeJS.Timeout | undefined;
  let closed = false;

  async function open(): Promise<string> {
    // Creates and checks the folder again if it was removed or replaced.
    if (real !== undefined && identityOf(real) !== identity) {
      real = undefined;
      await writer.end();
    }
    if (real === undefined) {
      real = openBackupDirectory(options.directory, directoryOptions);
      identity = identityOf(real);
      await removeOldTemporaries(real, clock.now());
    }
    const isFull = usage.bytes() >= maxBytes || usage.files() >= maxFiles;
    await usage.refresh(real, isFull ? recountSoonMs : recountMs);
    return real;
  }

  function taken(events: Waiting[]): Waiting[] {
    for (const { event } of events) waitingBytes -= event.value.length;
    return events;
  }

  async function write(batch: readonly Waiting[]): Promise<void> {
    try {
      const directory = await open();
      const fitting = batch.filter((one) => fits(one));
      if (fitting.length === 0) return;
      const isFew = fitting.length <= fewEvents && usage.files() + fitting.length <= maxFiles;
      if (format !== 'journal' && isFew) await writeFiles(directory, format, fitting);
      else await writeLines(directory, fitting);
      problem = null;
    } catch (error) {
      const reason = toSvcError(error, options.directory);
      if (!isDiskFull(error)) problem = reason.message;
      // Smaller events behind them might fit, and would overtake these.
      const behind = isJournal && isDiskFull(error) ? taken(waiting.splice(0)) : [];
      for (const { reject } of [...batch, ...behind]) reject(reason);
    }
  }

  /** Reserves the bytes of an event, or refuses it. */
  function fits({ event, reject }: Waiting): boolean {
    const size = event.value.length;
    if (usage.bytes() + size <= maxBytes) {
      usage.add({ bytes: size });
      return true;
    }
    reject(
      full(`the backup folder "${options.directory}" holds ${maxBytes} bytes (svc.broker.backup.max-bytes)`),
    );
    return false;
  }

  async function writeFiles(
    directory: string,
    form: 'event' | 'record',
    batch: readonly Waiting[],
  ): Promise<void> {
    const events = batch.map(({ event }) => event);
    const results = await eventFilesIn(directory).store(form, events);
    for (const [index, one] of batch.entries()) {
      const result = results[index];
      if (typeof result === 'string') {
        usage.add({ files: 1 });
        one.resolve();
      } else refuse(one, result);
    }
  }

  function refuse({ event, reject }: Waiting, error: unknown): void {
    usage.add({ bytes: -event.value.length });
    reject(toSvcError(error, options.directory));
  }

  async function writeLines(directory: string, batch: readonly Waiting[]): Promise<void> {
    const fitting: Waiting[] = [];
    const lines: string[] = [];
    for (const one of batch) {
      try {
        lines.push(checkedLine(one.event));
        fitting.push(one);
      } catch (error) {
        refuse(one, error);
      }
    }
    if (fitting.length > 0) await appendLines(directory, fitting, lines.join(''));
  }

  async function appendLines(directory: string, batch: readonly Waiting[], text: string): Promise<void> {
    try {
      await writer.append(directory, text, batch.length);
    } catch (error) {
      for (const { event } of batch) usage.add({ bytes: -event.value.length });
      throw error;
    }
    for (const { resolve } of batch) resolve();
    if (!isJournal) sealing ??= setTimeout(finishSegments, sealAfterMs).unref();
  }

  async function work(): Promise<void> {
    // A constant stream of events must not delay the end of segments.
    while (waiting.length > 0 && (closed || !isEnding)) {
      const batch = taken(takeBatch(waiting));
      await write(batch);
      if (format === 'journal' && !isEnding && isStream(batch.length, waiting.length)) await sleep(lingerMs);
      else if (waiting.length === 0) await nextTurn();
    }
    working = undefined;
  }

  function start(): void {
    if (working === undefined && waiting.length > 0) working = work();
  }

  /** Runs `job` with all stored events in ended segments, and no write in progress. */
  async function withEnded<T>(job: () => Promise<T>): Promise<T> {
    isEnding = true;
    while (working !== undefined) await working;
    let result: Promise<T> | undefined;
    working = (async () => {
      await writer.end();
      isEnding = false;
      result = job();
      await result.catch(() => {});
      working = undefined;
      start();
    })();
    await working;
    return result as Promise<T>;
  }

  function finishSegments(): Promise<void> {
    clearTimeout(sealing);
    sealing = undefined;
    return withEnded(writer.seal);
  }

  /** Checks the folder at start, and again while it cannot be used. */
  function look(): Promise<void> {
    lookedAtMs = clock.monotonic();
    return checkBackupDirectory(options.directory, directoryOptions).then(
      () => {
        problem = null;
      },
      ({ message }: Error) => {
        if (problem !== message) logger.error(message);
        problem = message;
      },
    );
  }

  void look();
  const link = besideLink(options.directory);
  if (link !== undefined) logger.warn(link);
  return {
    name: 'local files',
    store(event: BackupEvent): Promise<void> {
      if (closed) return Promise.reject(failed(options.directory, 'svc has stopped'));
      const size = event.value.length;
      if (waitingBytes + size > maxWaitingBytes) {
        const message = `the disk of the backup folder "${options.directory}" is too slow: ${waitingBytes} bytes wait for it`;
        return Promise.reject(full(message));
      }
      waitingBytes += size;
      return new Promise((resolve, reject) => {
        waiting.push({ event, resolve, reject });
        // The events of this turn of the event loop are one batch.
        if (waiting.length === 1) setImmediate(start);
      });
    },
    storeSync(events: readonly BackupEvent[]): void {
      try {
        const directory = openBackupDirectory(options.directory, directoryOptions);
        if (format !== 'journal' && events.length <= fewAtTheEnd)
          eventFilesIn(directory).storeSync(format, events);
        else writer.storeSync(directory, events);
      } catch (error) {
        throw toSvcError(error, options.directory);
      }
    },
    /** At the end of the process: hands this process's segments to the readers. */
    endSync: writer.sealSync,
    /** The content of the folder as far as this process knows. `problem`: why the folder cannot be used, in one line. */
    state(): FolderState & { readonly problem: string | null } {
      // Refreshes the figures for the next call, because worker threads and other processes write there too.
      void usage.refresh(real ?? placeOfEvents(options.directory), recountSoonMs).catch(() => {});
      if (problem !== null && clock.monotonic() - lookedAtMs >= recountSoonMs) void look();
      return { ...usage.state(), problem };
    },
    /** Hands this process's segments to the readers. */
    finishSegments,
    /** Names of the journal's segments, with all events that are stored by now. */
    journal: () => withEnded(writer.names),
    /** Counts the folder again, after another process took events out of it. */
    recount: async () => {
      await usage.refresh(real ?? placeOfEvents(options.directory), 0).catch(() => {});
    },
    async close(deadlineMs: number): Promise<void> {
      closed = true;
      writer.close();
      await within(deadlineMs, finishSegments());
    },
  };
}

function toSvcError(error: unknown, directory: string): SvcError {
  return error instanceof SvcError ? error : failed(directory, reasonOf(error));
}

function failed(directory: string, why: string): SvcError {
  return new SvcError(
    'SVC_ADAPTERS_BACKUP_FAILED',
    `the backup folder "${directory}" cannot be written: ${why}`,
  );
}

function full(message: string): SvcError {
  return new SvcError('SVC_ADAPTERS_BACKUP_FULL', message);
}

interface Waiting {
  readonly event: BackupEvent;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** How long events of a stream wait for others, to share one fsync. */
const lingerMs = 5;
/** From this many on, events do not wait. */
const worthwhileCount = 200;

/** Whether several callers store events. False if enough events wait already. */
function isStream(writtenCount: number, waitingCount: number): boolean {
  return writtenCount > 1 && waitingCount < worthwhileCount;
}

const maxBatchCount = 1_000;
const maxBatchBytes = 4 * 1024 * 1024;

/** Takes one batch of waiting events, at least one. */
function takeBatch<One extends Pick<Waiting, 'event'>>(waiting: One[]): One[] {
  let bytes = 0;
  let count = 0;
  while (count < waiting.length && count < maxBatchCount && (count === 0 || bytes < maxBatchBytes)) {
    bytes += (waiting[count++] as One).event.value.length;
  }
  return waiting.splice(0, count);
}

interface SegmentWriterOptions {
  readonly usage: ReturnType<typeof createUsage>;
  /** The folder has event files as well, so ids alone give the order. */
  readonly hasFiles: boolean;
}

const maxSegmentBytes = 16 * 1024 * 1024;
/** A segment that is not touched for a minute has no living owner. */
const heartbeatMs = 10_000;

/** Appends to one segment after the other, and keeps the ended ones until they are handed over. */
function createSegmentWriter({ usage, hasFiles }: SegmentWriterOptions) {
  let segment: Segment | undefined;
  let ended: string[] = [];
  let nextName: (() => string) | undefined;
  let heartbeat: NodeJS.Timeout | undefined;

  /** All segments that are in the folder at the first call come before those of this writer. */
  function newName(directory: string): string {
    nextName ??= segmentNames.from(hasFiles ? 0 : nextGeneration(readdirSync(directory), clock.now()));
    heartbeat ??= setInterval(touch, heartbeatMs).unref();
    return nextName();
  }

  /** Shows processes elsewhere that this one lives. */
  function touch(): void {
    const now = new Date();
    const all = segment === undefined ? ended : [...ended, segment.path];
    for (const path of all) utimes(path, now, now).catch(() => {});
  }

  async function newSegment(directory: string): Promise<Segment> {
    const made = await createSegment(directory, newName(directory));
    usage.add({ segments: 1 });
    return made;
  }

  async function end(): Promise<void> {
    const last = segment;
    segment = undefined;
    if (last === undefined) return;
    await last.end().catch(() => {});
    if (last.lines() > 0) return void ended.push(last.path);
    // On a full disk, each refused event would leave an empty segment.
    await unlink(last.path).catch(() => {});
    usage.add({ segments: -1 });
  }

  return {
    /** Appends whole lines and syncs them: all of them or none. */
    async append(directory: string, text: string, lineCount: number): Promise<void> {
      if (segment !== undefined && segment.bytes() >= maxSegmentBytes) await end();
      try {
        segment ??= await newSegment(directory);
        await segment.append(text, lineCount);
      } catch (error) {
        await end();
        if ((error as NodeJS.ErrnoException).code !== segmentTaken) throw error;
        segment = await newSegment(directory);
        await segment.append(text, lineCount);
      }
      usage.add({ lines: lineCount });
      usage.learn(segment.path, segment.bytes(), segment.lines());
    },

    /** Stores all of them in one finished segment, at the end of the process, or none. */
    storeSync(directory: string, events: readonly BackupEvent[]): void {
      segmentAt(join(directory, newName(directory))).storeSync(events);
      usage.add({ lines: events.length });
    },

    end,
    /** Names of the ended segments that still exist: a drain moves those that it has sent. */
    async names(): Promise<readonly string[]> {
      const refusals = await Promise.all(ended.map(whyNot));
      ended = ended.filter((_, index) => refusals[index]?.reason !== gone);
      return ended.map((path) => basename(path));
    },
    /** Hands the ended segments to the readers. */
    async seal(): Promise<void> {
      for (const path of ended.splice(0)) {
        await segmentAt(path)
          .finish()
          .catch(async () => {
            // Tries again at the next call. No other process takes it while this one lives.
            if ((await whyNot(path))?.reason !== gone) ended.push(path);
          });
      }
    },
    /** Hands all segments over, at the end of the process. A failure leaves them to the next process. */
    sealSync(): void {
      const paths = segment === undefined ? ended : [...ended, segment.path];
      segment = undefined;
      ended = [];
      for (const path of paths) {
        try {
          renameSync(path, finalName(path));
        } catch {
          // A reader takes over the segments of a dead process.
        }
      }
    },
    close: () => clearInterval(heartbeat),
  };
}

/** `names`: all names in the folder. A clock that was set back does not matter. */
function nextGeneration(names: readonly string[], nowMs: number): number {
  return names.reduce((max, name) => Math.max(max, segmentNames.generationOf(name) + 1), nowMs);
}

const segmentTaken = 'SEGMENT_TAKEN';

const newSegmentFlags =
  constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | constants.O_APPEND | (constants.O_NOFOLLOW ?? 0);

type Segment = Awaited<ReturnType<typeof createSegment>>;

/** One file of newline-delimited records that is written to. @param name its final name */
async function createSegment(directory: string, name: string) {
  const path = join(directory, name + openSuffix);
  const file = await open(path, newSegmentFlags, 0o600);
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
    /**
     * Appends whole lines and syncs them: all of them or none. After a failure, further appends are refused. Fails with the code
     * `SEGMENT_TAKEN` if the file was moved or removed meanwhile: a reader took this process for dead, and may have missed these
     * lines.
     */
    async append(text: string, lineCount: number): Promise<void> {
      try {
        await file.writeFile(text);
        await file.datasync();
        // A reader renames a segment before it reads it. If the name is unchanged now, the lines will be read.
        const found = await lstat(path).catch(() => undefined);
        if (found?.ino !== ino) throw Object.assign(new Error('segment taken'), { code: segmentTaken });
        bytes += Buffer.byteLength(text);
        lines += lineCount;
      } catch (error) {
        isBroken = true;
        // A half-written batch on a full disk was reported as not stored, so it must never be sent.
        if ((error as NodeJS.ErrnoException).code !== segmentTaken)
          await file.truncate(bytes).catch(() => {});
        throw error;
      }
    },
    /** The file keeps the suffix `.open`. */
    end: () => file.close(),
  };
}

/**
 * Creates the folder, or uses an empty one, so that no event exists twice.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY`; rejects with `SVC_ADAPTERS_BACKUP_FAILED`
 */
function openEventFiles(path: string, format: 'event' | 'record') {
  const directory = openBackupDirectory(path, { isExact: true });
  if (readdirSync(directory).length > 0)
    throw new SvcError(
      'SVC_ADAPTERS_BACKUP_DIRECTORY',
      `the folder "${path}" is not empty: choose an empty or new one`,
    );
  return {
    /** One file each, on the disk before it resolves. Resolves with the events that are too large. */
    async store(events: readonly StoredEvent[]): Promise<Unreadable[]> {
      const results = await eventFilesIn(directory).store(format, events.map(toBackupEvent));
      const tooLarge: Unreadable[] = [];
      for (const [index, result] of results.entries()) {
        if (typeof result === 'string') continue;
        const error = toSvcError(result, path);
        if (error.code !== 'SVC_ADAPTERS_BACKUP_FULL') throw error;
        tooLarge.push({ place: events[index]?.place ?? '', reason: error.message });
      }
      return tooLarge;
    },
  };
}

interface FolderState {
  /** Event files and segments. */
  readonly files: number;
  readonly events: number;
  readonly bytes: number;
  /** Events that were set aside as too large for their topic. The other numbers exclude them. */
  readonly tooLarge: number;
}

const filesAtOnce = 32;

/** The fill level of the folder. Other processes write to it too, so it is recounted from time to time. */
function createUsage(monotonic: () => number) {
  const lineCounts = createLineCounts();
  let files = 0;
  let segments = 0;
  let lines = 0;
  let bytes = 0;
  let tooLarge = 0;
  let countedAtMs = Number.NEGATIVE_INFINITY;
  let counting: Promise<void> | undefined;
  let lineCount = Promise.resolve();

  async function count(directory: string): Promise<void> {
    const names = (await readdir(directory)).filter((name) => isEventFile(name) || segmentNames.test(name));
    const sizes = new Map<string, number>();
    for (let at = 0; at < names.length; at += filesAtOnce) {
      const some = names.slice(at, at + filesAtOnce).map(async (name) => {
        const found = await lstat(join(directory, name)).catch(() => undefined);
        sizes.set(name, found?.size ?? 0);
      });
      await Promise.all(some);
    }
    tooLarge = (await readdir(join(directory, asideFolder)).catch(() => [])).filter(isEventFile).length;
    files = names.filter(isEventFile).length;
    segments = names.length - files;
    bytes = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    countedAtMs = monotonic();
    lineCount = lineCount.then(() => countWaiting(directory, sizes));
  }

  /** Not awaited. Later additions stay counted. */
  async function countWaiting(directory: string, sizes: ReadonlyMap<string, number>): Promise<void> {
    const before = lines;
    let sum = 0;
    const paths: string[] = [];
    for (const [name, size] of sizes) {
      if (!segmentNames.test(name)) continue;
      const path = join(directory, name);
      paths.push(path);
      sum += await lineCounts.waitingIn(path, size).catch(() => 0);
    }
    lineCounts.keep(paths);
    lines = Math.max(0, sum + lines - before);
  }

  return {
    /** Event files without segments. */
    files: () => files,
    /** Event files and segments together. */
    bytes: () => bytes,
    state: (): FolderState => ({ files: files + segments, events: files + lines, bytes, tooLarge }),
    /** Counts the folder, unless the last count is younger than `maxAgeMs`. */
    async refresh(directory: string, maxAgeMs: number): Promise<void> {
      if (monotonic() - countedAtMs < maxAgeMs) return;
      counting ??= count(directory).finally(() => {
        counting = undefined;
      });
      await counting;
    },
    learn: lineCounts.learn,
    add(what: { files?: number; segments?: number; lines?: number; bytes?: number }): void {
      files = Math.max(0, files + (what.files ?? 0));
      segments = Math.max(0, segments + (what.segments ?? 0));
      lines = Math.max(0, lines + (what.lines ?? 0));
      bytes = Math.max(0, bytes + (what.bytes ?? 0));
    },
  };
}

/** Counts the unhandled lines of segments. A segment only grows, so the last count is reused. */
function createLineCounts() {
  let counts = new Map<string, { bytes: number; lines: number }>();
  return {
    /** Reads at most the first `bytes` of the segment. */
    async waitingIn(path: string, bytes: number): Promise<number> {
      const known = counts.get(finalName(path)) ?? { bytes: 0, lines: 0 };
      if (known.bytes < bytes) {
        known.lines += await segmentAt(path).countLines(known.bytes, bytes);
        known.bytes = bytes;
        counts.set(finalName(path), known);
      }
      const done = await segmentAt(path).readDone(() => known.lines);
      return typeof done === 'string' ? known.lines : known.lines - done.size();
    },
    /** Sets the figures that the writer of a segment knows. */
    learn(path: string, bytes: number, lines: number): void {
      counts.set(finalName(path), { bytes, lines });
    },
    keep(paths: readonly string[]): void {
      const kept = new Set(paths.map(finalName));
      counts = new Map([...counts].filter(([path]) => kept.has(path)));
    },
  };
}
