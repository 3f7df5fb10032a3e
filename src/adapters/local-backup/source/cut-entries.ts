import { join } from 'node:path';
import { plannedBytes } from './open-stored.ts';
import type { Entry } from './ordered-entries.ts';

/** Of one batch; one event that is larger comes alone. Two batches are in memory at once. */
const openFiles = 32;
const batchBytes = 8 * 1024 * 1024;

/** What is read at once. */
export interface Cut {
  readonly entries: readonly Entry[];
  /** It is so large that nothing else is to be held beside it. */
  readonly isLarge: boolean;
}

/** `size` entries at most. */
export async function* cutEntries(
  directory: string,
  all: Iterable<Entry>,
  size: number,
): AsyncGenerator<Cut> {
  let entries: Entry[] = [];
  let fileCount = 0;
  let bytes = 0;
  for (const entry of all) {
    const isFile = typeof entry === 'string';
    // What is larger is not read at all.
    const entryBytes = isFile ? await plannedBytes(join(directory, entry)) : entry.bytes;
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
