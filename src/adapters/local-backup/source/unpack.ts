import { unlink, utimes } from 'node:fs/promises';
import type { BackupEvent } from '../../../publish/backup-strategy.ts';
import { decodeRecord } from '../../../publish/stored-record.ts';
import { missing } from '../backup-failure.ts';
import { doneFile, finishSegment, readDone, writeDone } from '../segment.ts';
import { type BackupFormat, storeFiles } from '../store-files.ts';
import { countLines, type Line, readLines } from './read-lines.ts';

/** An ended segment whose events become files of their own. */
export interface Unpacking {
  /**
   * The next few events, at most `room`. Returns how many files were made. Rejects when somebody has taken the segment,
   * or a file cannot be written: then it is over.
   */
  step(room: number): Promise<number>;
  /** True when there is nothing left to do: the segment is gone, or its rest was handed to the readers as it is. */
  isFinished(): boolean;
  /** The segment is gone: all of it is files now. */
  isRemoved(): boolean;
  /** Hands the rest to the readers. */
  stop(): Promise<void>;
}

const atOnce = 16;

export async function startUnpacking(
  directory: string,
  path: string,
  format: BackupFormat,
): Promise<Unpacking> {
  const note = await readDone(path, () => countLines(path));
  if (typeof note === 'string') throw missing(`${doneFile(path)}: ${note}`);
  const done = note;
  const lines: AsyncIterator<Line> = readLines(path)[Symbol.asyncIterator]();
  let isComplete = true;
  let finished = false;
  let removed = false;

  /** Up to `most` events; fewer at the end of the segment. */
  async function take(most: number): Promise<{ line: number; event: BackupEvent }[]> {
    const events: { line: number; event: BackupEvent }[] = [];
    while (events.length < most) {
      const { value, done: isEnd } = await lines.next();
      if (isEnd) break;
      if (done.has(value.number)) continue;
      const event = value.isWhole && value.text !== undefined ? toBackupEvent(value.text) : undefined;
      if (event === undefined) isComplete = false;
      else events.push({ line: value.number, event });
    }
    return events;
  }

  async function stop(): Promise<void> {
    if (finished) return;
    finished = true;
    await lines.return?.();
    await finishSegment(path);
  }

  async function remove(): Promise<void> {
    finished = true;
    await unlink(path);
    await unlink(doneFile(path)).catch(() => {});
    removed = true;
  }

  async function unpack(room: number): Promise<number> {
    if (room <= 0) {
      await stop();
      return 0;
    }
    // Others take a segment for abandoned that nobody has touched for a while, and send what is in it.
    const now = new Date();
    await utimes(path, now, now);
    const most = Math.min(room, atOnce);
    const events = await take(most);
    const results = await storeFiles(
      directory,
      format,
      events.map(({ event }) => event),
    );
    const stored = events.filter((_, index) => typeof results[index] === 'string');
    for (const { line } of stored) done.add(line);
    if (stored.length > 0) await writeDone(directory, path, done);
    if (stored.length < events.length) await stop();
    else if (events.length < most) await (isComplete ? remove() : stop());
    return stored.length;
  }

  return {
    async step(room) {
      try {
        return await unpack(room);
      } catch (error) {
        finished = true;
        // The file that is read stays open otherwise.
        await lines.return?.();
        throw error;
      }
    },
    isFinished: () => finished,
    isRemoved: () => removed,
    stop,
  };
}

/** The event of a line; `undefined` where it is none. */
export function toBackupEvent(text: string): BackupEvent | undefined {
  const stored = decodeRecord(text, '');
  if (stored?.topic === undefined) return undefined;
  const { eventId, eventType, topic, key, headers, value, storedAt, reason = '' } = stored;
  return { eventId, eventType, topic, key, headers, value, reason, backedUpAt: storedAt };
}
