import { existsSync } from 'node:fs';
import { extname, sep } from 'node:path';
import { loadChunk } from '../../ground/lifecycle.ts';
import { insert, isMarked } from './insert-calls.ts';
import { type Listed, listedIn, mapUrl } from './listed-places.ts';
import type { TextKind } from './parse-text.ts';
import type * as RewriteMapped from './rewrite-mapped.ts';
import type { SourceEvents, SourceTarget } from './rewrite-text.ts';
import type { TargetFiles } from './target-files.ts';

/** Crosses to the loader thread: plain data. */
export interface PendingFiles {
  /** By the files that targets name, whether they are there or not. */
  readonly files: TargetFiles;
  readonly baseDir: string;
  /** What `svc manifest` has found before. */
  readonly listed: Listed;
}

/** The targets whose files are not loaded themselves, so far. */
export interface PendingTargets {
  /** The file is loaded itself: its targets are nowhere else. */
  isLoaded(path: string): void;
  /** The text of a listed file, changed; `undefined` where it has to be read. Never throws. */
  fromList(file: string, text: string): string | undefined;
  /** The text of a file with a source map, changed where that leads to a target, and where its `own` are; `undefined` for others. Never throws. */
  rewrite(file: string, text: string, kind: TextKind, own?: readonly SourceTarget[]): string | undefined;
}

/** `rewriteMapped`: the main thread loads what reads maps when the first one is there. */
export function seek(
  { files, baseDir, listed }: PendingFiles,
  events: SourceEvents,
  rewriteMapped: typeof RewriteMapped.rewriteMapped = (...args) =>
    (loadChunk(import.meta.url, './rewrite-mapped.ts') as typeof RewriteMapped).rewriteMapped(...args),
): PendingTargets {
  const functionPaths = new Map([...files.values()].flat().map(({ id, functionPath }) => [id, functionPath]));
  const pending = new Map([...files].filter(([path]) => !isBuilt(path)));
  const isSearched = (file: string) =>
    !listed.files.has(file) && listed.searched.some((each) => file === each || file.startsWith(each + sep));
  return {
    fromList(file, text) {
      if (!listed.files.has(file) || isMarked(text)) return undefined;
      try {
        const insertions = listedIn(listed, file, text, functionPaths, events);
        return insertions && insert(text, insertions, file);
      } catch (error) {
        events.unreadMap?.(file, error instanceof Error ? error.message : 'unknown error');
        return undefined;
      }
    },
    isLoaded(path) {
      pending.delete(path);
    },
    rewrite(file, text, kind, own) {
      if (pending.size === 0 || isSearched(file) || !mayHaveMap(file, text)) return undefined;
      try {
        return rewriteMapped(file, text, kind, pending, baseDir, events, own);
      } catch (error) {
        // The application's module comes first.
        events.unreadMap?.(file, error instanceof Error ? error.message : 'unknown error');
        return undefined;
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
