import { finalName, readDone } from '../segment.ts';
import { countLines } from './read-lines.ts';

/** Counts the lines of segments that are still to be done. What a segment had at a size is remembered: it only grows. */
export interface LineCounts {
  /** At most the first `bytes` of the segment are read. */
  waitingIn(path: string, bytes: number): Promise<number>;
  /** What whoever writes a segment knows anyway: it need not be read. */
  learn(path: string, bytes: number, lines: number): void;
  /** Forgets all segments but these. */
  keep(paths: readonly string[]): void;
}

export function createLineCounts(): LineCounts {
  let counts = new Map<string, { bytes: number; lines: number }>();
  return {
    async waitingIn(path, bytes) {
      const known = counts.get(finalName(path)) ?? { bytes: 0, lines: 0 };
      if (known.bytes < bytes) {
        known.lines += await countLines(path, known.bytes, bytes);
        known.bytes = bytes;
        counts.set(finalName(path), known);
      }
      const done = await readDone(path, () => known.lines);
      return typeof done === 'string' ? known.lines : known.lines - done.size();
    },
    learn(path, bytes, lines) {
      counts.set(finalName(path), { bytes, lines });
    },
    keep(paths) {
      const kept = new Set(paths.map(finalName));
      counts = new Map([...counts].filter(([path]) => kept.has(path)));
    },
  };
}
