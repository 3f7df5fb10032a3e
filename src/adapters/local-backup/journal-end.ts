import { readdirSync, readFileSync, renameSync, unlinkSync } from 'node:fs';
import { parseBounded } from '../../ground/bounds.ts';
import { rangesWithin } from '../../ground/ranges.ts';
import type { BackupEvent } from '../../publish/backup-strategy.ts';
import { doneFile, finalName, segmentName } from './segment.ts';
import { toBackupEvent } from './source/unpack.ts';
import { type BackupFormat, storeFilesSync } from './store-files.ts';
import { isEventFile } from './usage.ts';

/** Event files and segments, under the names that they have when they are finished. */
export function storedNames(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
      .filter((name) => isEventFile(name) || segmentName.test(name))
      .map(finalName);
  } catch {
    return [];
  }
}

/**
 * The end of a journal in the last turn of its process: its events become files where `asFiles` is true, which are of no
 * generation; else its segments are handed to the readers as they are. What goes wrong leaves them to whoever comes next.
 */
export function endJournalSync(
  directory: string,
  paths: readonly string[],
  format: BackupFormat,
  asFiles: boolean,
): void {
  try {
    const events = asFiles ? paths.map(readSync) : [];
    if (asFiles && events.every((some) => some !== undefined)) {
      storeFilesSync(directory, format, events.flat() as BackupEvent[]);
      for (const path of paths) {
        unlinkSync(path);
        tryTo(() => unlinkSync(doneFile(path)));
      }
    } else for (const path of paths) renameSync(path, finalName(path));
  } catch {
    // A reader takes over what a dead process has left.
  }
}

/** What of a segment is not done; `undefined` where not all of it is known. */
function readSync(path: string): BackupEvent[] | undefined {
  const lines = readFileSync(path, 'utf8').split('\n');
  // Behind the last line feed is nothing, or what was not stored.
  lines.pop();
  const note = tryTo(() => readFileSync(doneFile(path), 'utf8'));
  const done = note === undefined ? undefined : rangesWithin(parseBounded(note, 2), lines.length);
  if (note !== undefined && done === undefined) return undefined;
  const events = lines.filter((_, number) => done?.has(number) !== true).map(toBackupEvent);
  return events.every((event) => event !== undefined) ? (events as BackupEvent[]) : undefined;
}

function tryTo<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
