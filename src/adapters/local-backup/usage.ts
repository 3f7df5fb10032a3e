import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { segmentName } from './segment.ts';

/** How full the folder is. Other processes write to it too: counted anew from time to time. */
export interface Usage {
  /** Event files, segments not counted. */
  files(): number;
  /** Event files and segments together. */
  bytes(): number;
  /** Counts what lies in the folder, unless that was done within the last `maxAgeMs`. */
  refresh(directory: string, maxAgeMs: number): Promise<void>;
  add(files: number, bytes: number): void;
}

/** `<anything>.json`, but no temporary file. */
export function isEventFile(name: string): boolean {
  return name.endsWith('.json') && !name.startsWith('.');
}

const atOnce = 32;

export function createUsage(monotonic: () => number): Usage {
  let files = 0;
  let bytes = 0;
  let countedAtMs = Number.NEGATIVE_INFINITY;
  let counting: Promise<void> | undefined;

  async function count(directory: string): Promise<void> {
    const names = (await readdir(directory)).filter((name) => isEventFile(name) || segmentName.test(name));
    let sum = 0;
    for (let at = 0; at < names.length; at += atOnce) {
      const sizes = names.slice(at, at + atOnce).map(async (name) => {
        const found = await stat(join(directory, name)).catch(() => undefined);
        return found?.size ?? 0;
      });
      for (const size of await Promise.all(sizes)) sum += size;
    }
    files = names.filter(isEventFile).length;
    bytes = sum;
    countedAtMs = monotonic();
  }

  return {
    files: () => files,
    bytes: () => bytes,
    async refresh(directory, maxAgeMs) {
      if (monotonic() - countedAtMs < maxAgeMs) return;
      counting ??= count(directory).finally(() => {
        counting = undefined;
      });
      await counting;
    },
    add(moreFiles, moreBytes) {
      files = Math.max(0, files + moreFiles);
      bytes = Math.max(0, bytes + moreBytes);
    },
  };
}
