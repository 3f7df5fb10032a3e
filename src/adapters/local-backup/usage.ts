import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { segmentName } from './segment.ts';
import { createLineCounts } from './source/count-lines.ts';

export interface FolderState {
  /** Event files and segments. */
  readonly files: number;
  /** What they hold. */
  readonly events: number;
  readonly bytes: number;
  /** Events that were set aside, as too large for their topic: in none of the other numbers. */
  readonly tooLarge: number;
}

/** How full the folder is. Other processes write to it too: counted anew from time to time. */
export interface Usage {
  /** Event files, segments not counted. */
  files(): number;
  /** Events in segments. Counted aside, for that means to read them. */
  lines(): number;
  /** Event files and segments together. */
  bytes(): number;
  state(): FolderState;
  /** Counts what lies in the folder, unless that was done within the last `maxAgeMs`. */
  refresh(directory: string, maxAgeMs: number): Promise<void>;
  /** What this process has written to a segment. */
  learn(segment: string, bytes: number, lines: number): void;
  add(what: { files?: number; segments?: number; lines?: number; bytes?: number }): void;
}

/** `<anything>.json`, but no temporary file. */
export function isEventFile(name: string): boolean {
  return name.endsWith('.json') && !name.startsWith('.');
}

/** Where events go that their topic never takes. */
export const asideFolder = 'too-large';

const atOnce = 32;

export function createUsage(monotonic: () => number): Usage {
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
    const names = (await readdir(directory)).filter((name) => isEventFile(name) || segmentName.test(name));
    const sizes = new Map<string, number>();
    for (let at = 0; at < names.length; at += atOnce) {
      const some = names.slice(at, at + atOnce).map(async (name) => {
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
    lineCount = lineCount.then(() => countLines(directory, sizes));
  }

  /** Nobody waits for it. What is added meanwhile stays added. */
  async function countLines(directory: string, sizes: ReadonlyMap<string, number>): Promise<void> {
    const before = lines;
    let sum = 0;
    const paths: string[] = [];
    for (const [name, size] of sizes) {
      if (!segmentName.test(name)) continue;
      const path = join(directory, name);
      paths.push(path);
      sum += await lineCounts.waitingIn(path, size).catch(() => 0);
    }
    lineCounts.keep(paths);
    lines = Math.max(0, sum + lines - before);
  }

  return {
    files: () => files,
    lines: () => lines,
    bytes: () => bytes,
    state: () => ({ files: files + segments, events: files + lines, bytes, tooLarge }),
    async refresh(directory, maxAgeMs) {
      if (monotonic() - countedAtMs < maxAgeMs) return;
      counting ??= count(directory).finally(() => {
        counting = undefined;
      });
      await counting;
    },
    learn: lineCounts.learn,
    add(what) {
      files = Math.max(0, files + (what.files ?? 0));
      segments = Math.max(0, segments + (what.segments ?? 0));
      lines = Math.max(0, lines + (what.lines ?? 0));
      bytes = Math.max(0, bytes + (what.bytes ?? 0));
    },
  };
}
