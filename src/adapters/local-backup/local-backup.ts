// local-backup/: the last place for events: files on the disk of this process, single ones or segments of many.

import { nextTurn, sleep } from '../../ground/builtins.ts';
import { type Clock, within } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { BackupEvent, EventBackupStrategy } from '../../publish/backup-strategy.ts';
import { checkBackupDirectory, type DirectoryOptions, openBackupDirectory } from './backup-directory.ts';
import { failed, full, isDiskFull, toSvcError } from './backup-failure.ts';
import { createEndedSegments } from './ended-segments.ts';
import { endJournalSync, storedNames } from './journal-end.ts';
import { removeOldTemporaries } from './old-temporaries.ts';
import { createSegmentWriter } from './segment-writer.ts';
import { gone, whyNot } from './source/still-there.ts';
import { isStream, lingerMs, takeBatch, type Waiting } from './source/take-batch.ts';
import {
  type BackupFormat,
  checkedLine,
  storeFiles,
  storeFilesSync,
  storeSegmentSync,
} from './store-files.ts';
import { createUsage, type FolderState } from './usage.ts';

export interface LocalBackupOptions extends DirectoryOptions {
  readonly directory: string;
  readonly format: BackupFormat;
  /** Event files in the folder; what comes after goes to segments, many events a file. */
  readonly maxFiles: number;
  /** Of all that waits in the folder. One event more is refused. */
  readonly maxBytes: number;
  /**
   * Events go to segments alone, which nobody else reads while this process lives: what keeps their order is who sends them.
   * The few that are left at its end become files all the same, where nothing else is in the folder.
   */
  readonly isJournal?: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface LocalBackup extends EventBackupStrategy {
  storeSync(events: readonly BackupEvent[]): void;
  /** The last turn of the process: what this one has stored is handed to the readers. */
  endSync(): void;
  close(deadlineMs: number): Promise<void>;
  /** What lies in the folder as far as this process knows: event files and segments, what they hold, and their size. */
  state(): FolderState;
  /** Hands the segments that this process writes to the readers. */
  finishSegments(): Promise<void>;
  /** Names of the segments of the journal, with all that is stored until now. */
  journal(): Promise<readonly string[]>;
  /** Counts the folder anew: somebody took events out of it. */
  recount(): Promise<void>;
}

/** So few at once are written as files right away; more go to a segment first, with one fsync for all of them. */
const [fewEvents, fewAtTheEnd] = [16, 64];
/** In memory, behind a disk that is too slow. */
const maxWaitingBytes = 64 * 1024 * 1024;
/** Nothing new for so long: the segment is ended and unpacked. */
const quietMs = 200;
/** Others empty the folder, too. */
const [recountMs, recountSoonMs] = [60_000, 10_000];

/**
 * Events as files of this machine: for their owner only, whole or not there, on the disk before they count as stored.
 * A few events become one file each. Many at once are appended to a segment with one fsync a batch; when it is quiet again
 * they are unpacked to files of their own, up to `maxFiles` of them.
 */
export function createLocalBackup(options: LocalBackupOptions): LocalBackup {
  const { clock, logger, format, maxFiles, maxBytes, isJournal = false } = options;
  const usage = createUsage(() => clock.monotonic());
  const waiting: Waiting[] = [];
  let waitingBytes = 0;
  let real: string | undefined;
  const ended = createEndedSegments(format, maxFiles, usage);
  /** Events of this process belong behind it. */
  const before = new Set(isJournal ? storedNames(options.directory) : []);
  const writer = createSegmentWriter({ usage, ended, isJournal, clock });
  /** Unpacking stops, for the rest is to be handed over. */
  let isEnding = false;
  let working: Promise<void> | undefined;
  let quiet: NodeJS.Timeout | undefined;
  let closed = false;

  async function open(): Promise<string> {
    // Somebody may have removed the folder: it is made and checked again.
    if (real !== undefined && (await whyNot(real)) === gone) {
      real = undefined;
      await writer.end();
      ended.forget();
    }
    if (real === undefined) {
      real = openBackupDirectory(options.directory, options);
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
      if (isFew && !isJournal) await writeFiles(directory, fitting);
      else await writeLines(directory, fitting);
    } catch (error) {
      const reason = toSvcError(error, options.directory);
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

  async function writeFiles(directory: string, batch: readonly Waiting[]): Promise<void> {
    const results = await storeFiles(
      directory,
      format,
      batch.map(({ event }) => event),
    );
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
  }

  async function work(): Promise<void> {
    // Where events never stop coming, the segments are handed over in between.
    while (waiting.length > 0 && (closed || !isEnding)) {
      const batch = taken(takeBatch(waiting));
      await write(batch);
      if (isJournal && !isEnding && isStream(batch, waiting)) await sleep(lingerMs);
      else if (waiting.length === 0) await nextTurn();
    }
    working = undefined;
    if (!isJournal && (writer.isWriting() || !ended.isEmpty())) {
      quiet = setTimeout(() => start(tidy), quietMs);
      quiet.unref();
    }
  }

  /** When it is quiet: segments become files, a few at a time, for as long as nothing new comes. */
  async function tidy(): Promise<void> {
    await writer.end();
    while (waiting.length === 0 && !isEnding && real !== undefined) if (!(await unpackSome(real))) break;
    working = undefined;
    if (waiting.length > 0) start(work);
  }

  function start(job: () => Promise<void>): void {
    if (working !== undefined) return;
    clearTimeout(quiet);
    working = job();
  }

  async function unpackSome(directory: string): Promise<boolean> {
    try {
      return await ended.unpackSome(directory);
    } catch (error) {
      logger.debug(`backup: a segment stays as it is: ${toSvcError(error, options.directory).message}`);
      return true;
    }
  }

  /** With all that is stored until now in ended segments, and nothing being written. */
  async function withEnded<T>(job: () => Promise<T>): Promise<T> {
    clearTimeout(quiet);
    isEnding = true;
    while (working !== undefined) await working;
    let result: Promise<T> | undefined;
    working = (async () => {
      await writer.end();
      isEnding = false;
      result = job();
      await result.catch(() => {});
      working = undefined;
      if (waiting.length > 0) start(work);
    })();
    await working;
    return result as Promise<T>;
  }

  /** Files are of no generation: a journal ends as such where nothing belongs before it, and little is left. */
  function endsAsFiles(directory: string, events: number): boolean {
    if (events > fewAtTheEnd || !isJournal) return events <= fewAtTheEnd;
    return !storedNames(directory).some((name) => before.has(name));
  }

  async function unpackLast(): Promise<void> {
    if (!isJournal || real === undefined || (await ended.names()).length === 0) return;
    if (endsAsFiles(real, usage.lines())) while (await unpackSome(real)) {}
  }

  checkBackupDirectory(options.directory, options).catch(({ message }: Error) => logger.error(message));
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
        if (waiting.length === 1) setImmediate(() => start(work));
      });
    },
    storeSync(events) {
      try {
        const directory = openBackupDirectory(options.directory, options);
        const asFiles = endsAsFiles(directory, events.length + (isJournal ? usage.lines() : 0));
        if (asFiles) return storeFilesSync(directory, format, events);
        storeSegmentSync(directory, events, clock.now(), writer.ownerIn(directory));
        usage.add({ lines: events.length });
      } catch (error) {
        throw toSvcError(error, options.directory);
      }
    },
    endSync() {
      const paths = [...ended.take(), writer.take()].filter((path) => path !== undefined);
      if (!isJournal || real === undefined || paths.length === 0) return;
      endJournalSync(real, paths, format, endsAsFiles(real, usage.lines()));
    },
    state() {
      // Seen the next time: others write there, too, worker threads of this process among them.
      void usage.refresh(real ?? options.directory, recountSoonMs).catch(() => {});
      return usage.state();
    },
    finishSegments: () => withEnded(ended.handOver),
    journal: () => withEnded(ended.names),
    recount: async () => {
      await usage.refresh(real ?? options.directory, 0).catch(() => {});
    },
    async close(deadlineMs) {
      closed = true;
      writer.close();
      const finish = withEnded(async () => {
        await unpackLast();
        await ended.handOver();
      });
      await within(deadlineMs, finish);
    },
  };
}
