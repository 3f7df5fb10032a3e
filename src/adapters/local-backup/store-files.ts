import { rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type BackupEvent, backupName } from '../../publish/backup-strategy.ts';
import { encodeLine, encodeRecord, encodeRoute } from '../../publish/stored-record.ts';
import { tooLarge } from './backup-failure.ts';
import { type JournalOwner, newSegmentName } from './segment.ts';
import { maxEventBytes, maxRouteBytes } from './source/open-stored.ts';
import {
  makeFolderSync,
  type Placed,
  syncDirectory,
  syncDirectorySync,
  writeExclusive,
  writeExclusiveSync,
  writeNewSync,
} from './write-exclusive.ts';

/** `event`: the event JSON as `<eventId>.json`, its route beside it. `record`: all in one, as `<epoch_millis>.json`. */
export type BackupFormat = 'event' | 'record';

/** Topic, key and headers of bare event files, under the same names. */
export const routesFolder = 'routes';

/** Files under way at once. */
const atOnce = 4;

/** One file per event. Returns one result per event, in their order: the name of its file, or why there is none. */
export async function storeFiles(
  directory: string,
  format: BackupFormat,
  events: readonly BackupEvent[],
): Promise<(string | Error)[]> {
  if (format === 'event') makeFolderSync(join(directory, routesFolder));
  const results: (string | Error)[] = [];
  const paths: string[] = [];
  for (let at = 0; at < events.length; at += atOnce) {
    const group = events.slice(at, at + atOnce);
    const written = group.map(async (event) => {
      const { stem, parts } = partsOf(directory, format, event);
      const name = await writeExclusive(stem, parts);
      paths.push(...parts.map((part) => join(part.directory, name)));
      return name;
    });
    results.push(...(await Promise.all(written.map((one) => one.catch((error: Error) => error)))));
  }
  try {
    if (format === 'event') await syncDirectory(join(directory, routesFolder));
    await syncDirectory(directory);
    return results;
  } catch (error) {
    // What is said not to be stored goes to another place, or counts as lost: it must not be sent from here as well.
    for (const path of paths) await rm(path, { force: true }).catch(() => {});
    return results.map((result) => (typeof result === 'string' ? (error as Error) : result));
  }
}

/** All of them or none: whoever is told that they are not stored counts them as lost. */
export function storeFilesSync(
  directory: string,
  format: BackupFormat,
  events: readonly BackupEvent[],
): void {
  if (format === 'event') makeFolderSync(join(directory, routesFolder));
  const written: string[] = [];
  try {
    for (const event of events) {
      const { stem, parts } = partsOf(directory, format, event);
      const name = writeExclusiveSync(stem, parts);
      written.push(...parts.map((part) => join(part.directory, name)));
    }
    if (format === 'event') syncDirectorySync(join(directory, routesFolder));
    syncDirectorySync(directory);
  } catch (error) {
    for (const path of written) rmSync(path, { force: true });
    throw error;
  }
}

/** Many events at the end of the process: one finished segment. */
export function storeSegmentSync(
  directory: string,
  events: readonly BackupEvent[],
  owner: JournalOwner,
): void {
  const lines = events.map((event) => checkedLine(event));
  writeNewSync(join(directory, newSegmentName(owner)), Buffer.from(lines.join('')));
  syncDirectorySync(directory);
}

/**
 * The line of an event in a segment. What would be too large to be read again is refused.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_FULL`
 */
export function checkedLine(event: BackupEvent, maxBytes = maxEventBytes): string {
  const line = encodeLine(event);
  // A character is three bytes at most. The line feed is none of the line.
  if (line.length * 3 > maxBytes) check(Buffer.byteLength(line) - 1, maxBytes);
  return line;
}

function check(bytes: number, maxBytes: number): void {
  if (bytes > maxBytes) throw tooLarge(bytes, maxBytes);
}

function partsOf(
  directory: string,
  format: BackupFormat,
  event: BackupEvent,
): { stem: string; parts: Placed[] } {
  if (format === 'record') {
    const bytes = encodeRecord(event);
    check(bytes.length, maxEventBytes);
    return { stem: String(event.backedUpAt), parts: [{ directory, bytes }] };
  }
  const route = { directory: join(directory, routesFolder), bytes: encodeRoute(event) };
  check(route.bytes.length, maxRouteBytes);
  check(event.value.length, maxEventBytes);
  return { stem: backupName(event.eventId), parts: [route, { directory, bytes: event.value }] };
}
