// local-backup/: the last place for events: files on the disk of this process, single ones or segments of many.

import { readdirSync } from 'node:fs';
import { nextTurn, sleep } from '../../ground/builtins.ts';
import { type Clock, within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type { Logger } from '../../observe/logger.ts';
import type { BackupEvent, EventBackupStrategy } from '../../publish/backup-strategy.ts';
import type { StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
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
import { failed, full, isDiskFull, toSvcError } from './private-files.ts';
import {
  type BackupFormat,
  checkedLine,
  createSegmentWriter,
  createUsage,
  type FolderState,
  storeFiles,
  storeFilesSync,
  storeSegmentSync,
} from './segment.ts';

export interface LocalBackupOptions extends DirectoryOptions {
  readonly directory: string;
  /** `journal`: all events go to segments, many a file. */
  readonly format: BackupFormat | 'journal';
  /** Event files in the folder; what comes after goes to segments. */
  readonly maxFiles: number;
  /** Of all that waits in the folder. One event more is refused. */
  readonly maxBytes: number;
  /** Nobody else reads its segments while this process lives: what keeps their order is who sends them. */
  readonly isJournal?: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface LocalBackup extends EventBackupStrategy {
  storeSync(events: readonly BackupEvent[]): void;
  /** The last turn of the process: what this one has stored is handed to the readers. */
  endSync(): void;
  close(deadlineMs: number): Promise<void>;
  /**
   * What lies in the folder as far as this process knows: event files and segments, what they hold, and their size; and why the
   * folder cannot be used, in one line.
   */
  state(): FolderState & { readonly problem: string | null };
  /** Hands the segments that this process writes to the readers. */
  finishSegments(): Promise<void>;
  /** Names of the segments of the journal, with all that is stored until now. */
  journal(): Promise<readonly string[]>;
  /** Counts the folder anew: somebody took events out of it. */
  recount(): Promise<void>;
}

/** So few at once are written as files, where those are wanted; more go to a segment, with one fsync for all of them. */
const [fewEvents, fewAtTheEnd] = [16, 64];
/** In memory, behind a disk that is too slow. */
const maxWaitingBytes = 64 * 1024 * 1024;
/** A segment is handed to the readers so long after its first event. */
const handOverMs = 1_000;
/** Others empty the folder, too. */
const [recountMs, recountSoonMs] = [60_000, 10_000];

/**
 * Events as files of this machine: for their owner only, whole or not there, on the disk before they count as stored.
 * They are appended to a segment with one fsync a batch; where one file an event is wanted, only when many come at once, and
 * beyond `maxFiles`. What was written in one form is never turned into the other.
 */
export function createLocalBackup(options: LocalBackupOptions): LocalBackup {
  const { clock, logger, format, maxFiles, maxBytes, isJournal = false } = options;
  const usage = createUsage(() => clock.monotonic());
  const waiting: Waiting[] = [];
  let waitingBytes = 0;
  let real: string | undefined;
  let identity: string | undefined;
  /** Why the folder could not be used the last time; one line. `null`: it can be used. */
  let problem: string | null = null;
  let lookedAtMs = clock.monotonic();
  const directoryOptions: DirectoryOptions = { ...options, onRestricted: (line) => logger.warn(line) };
  const writer = createSegmentWriter({ usage, hasFiles: format !== 'journal', clock });
  /** What is written is to be handed over. */
  let isEnding = false;
  let working: Promise<void> | undefined;
  let handingOver: NodeJS.Timeout | undefined;
  let closed = false;

  async function open(): Promise<string> {
    // Somebody may have removed the folder, or put another in its place: it is made and checked again.
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
      // Few of those behind them may fit: they would get there before these.
      const behind = isJournal && isDiskFull(error) ? taken(waiting.splice(0)) : [];
      for (const { reject } of [...batch, ...behind]) reject(reason);
    }
  }

  /** Takes the room of an event, or refuses it. */
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

  async function writeFiles(directory: string, form: BackupFormat, batch: readonly Waiting[]): Promise<void> {
    const events = batch.map(({ event }) => event);
    const results = await storeFiles(directory, form, events);
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
    if (!isJournal) handingOver ??= setTimeout(finishSegments, handOverMs).unref();
  }

  async function work(): Promise<void> {
    // Where events never stop coming, the segments are handed over in between.
    while (waiting.length > 0 && (closed || !isEnding)) {
      const batch = taken(takeBatch(waiting));
      await write(batch);
      if (format === 'journal' && !isEnding && isStream(batch, waiting)) await sleep(lingerMs);
      else if (waiting.length === 0) await nextTurn();
    }
    working = undefined;
  }

  function start(): void {
    if (working === undefined && waiting.length > 0) working = work();
  }

  /** With all that is stored until now in ended segments, and nothing being written. */
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
    clearTimeout(handingOver);
    handingOver = undefined;
    return withEnded(writer.seal);
  }

  /** The check of the start, and again while the folder cannot be used. */
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
    store(event) {
      if (closed) return Promise.reject(failed(options.directory, 'svc has stopped'));
      const size = event.value.length;
      if (waitingBytes + size > maxWaitingBytes) {
        const message = `the disk of the backup folder "${options.directory}" is too slow: ${waitingBytes} bytes wait for it`;
        return Promise.reject(full(message));
      }
      waitingBytes += size;
      return new Promise((resolve, reject) => {
        waiting.push({ event, resolve, reject });
        // What comes in this turn of the event loop is one batch.
        if (waiting.length === 1) setImmediate(start);
      });
    },
    storeSync(events) {
      try {
        const directory = openBackupDirectory(options.directory, directoryOptions);
        if (format !== 'journal' && events.length <= fewAtTheEnd)
          return storeFilesSync(directory, format, events);
        storeSegmentSync(directory, events, writer.ownerIn(directory));
        usage.add({ lines: events.length });
      } catch (error) {
        throw toSvcError(error, options.directory);
      }
    },
    endSync: writer.sealSync,
    state() {
      // Seen the next time: others write there, too, worker threads of this process among them.
      void usage.refresh(real ?? placeOfEvents(options.directory), recountSoonMs).catch(() => {});
      if (problem !== null && clock.monotonic() - lookedAtMs >= recountSoonMs) void look();
      return { ...usage.state(), problem };
    },
    finishSegments,
    journal: () => withEnded(writer.names),
    recount: async () => {
      await usage.refresh(real ?? placeOfEvents(options.directory), 0).catch(() => {});
    },
    async close(deadlineMs) {
      closed = true;
      writer.close();
      await within(deadlineMs, finishSegments());
    },
  };
}

/** An event on its way to the disk, and whom to tell. */
export interface Waiting {
  readonly event: BackupEvent;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** So long events of a stream wait for company: they share one fsync. */
export const lingerMs = 5;
/** So many are worth one without company. */
const worthwhileCount = 200;

/** Whether several callers store events, by what was written last, but not so many that the next ones need not wait. */
export function isStream(written: readonly Waiting[], waiting: readonly Waiting[]): boolean {
  return written.length > 1 && waiting.length < worthwhileCount;
}

const maxBatchCount = 1_000;
const maxBatchBytes = 4 * 1024 * 1024;

/** What is written at once, out of what waits: at least one event. */
export function takeBatch<One extends Pick<Waiting, 'event'>>(waiting: One[]): One[] {
  let bytes = 0;
  let count = 0;
  while (count < waiting.length && count < maxBatchCount && (count === 0 || bytes < maxBatchBytes)) {
    bytes += (waiting[count++] as One).event.value.length;
  }
  return waiting.splice(0, count);
}

/** A folder of event files, and nothing else. */
export interface EventFiles {
  /** One file each, on the disk before it resolves. Gives those that are too large for one. */
  store(events: readonly StoredEvent[]): Promise<Unreadable[]>;
}

/**
 * Makes the folder, or takes an empty one: what is there already would be there twice.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY`; rejects with `SVC_ADAPTERS_BACKUP_FAILED`
 */
export function openEventFiles(path: string, format: BackupFormat): EventFiles {
  const directory = openBackupDirectory(path, { isExact: true });
  if (readdirSync(directory).length > 0)
    throw new SvcError(
      'SVC_ADAPTERS_BACKUP_DIRECTORY',
      `the folder "${path}" is not empty: choose an empty or new one`,
    );
  return {
    async store(events) {
      const results = await storeFiles(directory, format, events.map(toBackupEvent));
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
