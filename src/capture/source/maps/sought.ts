import { existsSync } from 'node:fs';
import { extname } from 'node:path';
import { loadChunk } from '../../../ground/load-chunk.ts';
import type { TextKind } from '../parse-text.ts';
import type { SourceEvents } from '../rewrite-text.ts';
import type { TargetFiles } from '../target-files.ts';
import { mapUrl } from './read-map.ts';
import type * as RewriteMapped from './rewrite-mapped.ts';

/** Crosses to the loader thread: plain data. */
export interface SoughtFiles {
  /** By the files that targets name, whether they are there or not. */
  readonly files: TargetFiles;
  readonly baseDir: string;
}

/** The targets whose files are not loaded themselves, so far. */
export interface Sought {
  /** The file is loaded itself: its targets are nowhere else. */
  isLoaded(path: string): void;
  /** A file that no target names: its text, changed where its source map leads to a target. Never throws. */
  rewrite(file: string, text: string, kind: TextKind): string;
}

/** `load`: the main thread loads what reads maps when the first one is there. */
export function seek(
  { files, baseDir }: SoughtFiles,
  events: SourceEvents,
  rewriteMapped: typeof RewriteMapped.rewriteMapped = (...args) =>
    (loadChunk(import.meta.url, './rewrite-mapped.ts') as typeof RewriteMapped).rewriteMapped(...args),
): Sought {
  const sought = new Map([...files].filter(([path]) => !isBuilt(path)));
  return {
    isLoaded(path) {
      sought.delete(path);
    },
    rewrite(file, text, kind) {
      if (sought.size === 0 || !mayHaveMap(file, text)) return text;
      try {
        return rewriteMapped(file, text, kind, sought, baseDir, events);
      } catch (error) {
        // The application's module comes first.
        events.unreadMap?.(file, error instanceof Error ? error.message : 'unknown error');
        return text;
      }
    },
  };
}

/** A file that was made of another one is no source. */
function isBuilt(path: string): boolean {
  return /^\.[cm]?js$/.test(extname(path)) && existsSync(`${path}.map`);
}

/** What was built of an application's files: not a source, and not a package of others. */
function mayHaveMap(file: string, text: string): boolean {
  if (!/^\.[cm]?js$/.test(extname(file)) || /[\\/]node_modules[\\/]/.test(file)) return false;
  return mapUrl(text) !== undefined || existsSync(`${file}.map`);
}
