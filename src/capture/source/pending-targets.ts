import { existsSync } from 'node:fs';
import { extname, sep } from 'node:path';
import { loadChunk } from '../../ground/lifecycle.ts';
import { insert, isMarked } from './insert-calls.ts';
import { type Listed, listedIn, mapUrl } from './listed-places.ts';
import type { TextKind } from './parse-text.ts';
import type * as RewriteMapped from './rewrite-mapped.ts';
import type { SourceEvents, SourceTarget } from './rewrite-text.ts';
import type { TargetFiles } from './target-files.ts';
import { messageOf } from './wrapper-place.ts';

/** Plain data: it is sent to the loader thread. */
export interface PendingFiles {
  /** By the files that targets name, existing or not. */
  readonly files: TargetFiles;
  readonly baseDir: string;
  /** The findings of `svc manifest`. */
  readonly listed: Listed;
}

/** The targets whose own files have not been loaded so far. */
export interface PendingTargets {
  /** The file itself is loaded: no build of it counts. */
  isLoaded(path: string): void;
  /** The changed text of a listed file; `undefined` if it must be parsed. Never throws. */
  fromList(file: string, text: string): string | undefined;
  /** The text of a file with a source map, changed for mapped targets and for its `own`; `undefined` for others. Never throws. */
  rewrite(file: string, text: string, kind: TextKind, own?: readonly SourceTarget[]): string | undefined;
}

/** `rewriteMapped`: the main thread loads the map reader with the first file that needs it. */
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
        events.unreadMap?.(file, messageOf(error));
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
        // On failure, load the module unchanged.
        events.unreadMap?.(file, messageOf(error));
        return undefined;
      }
    },
  };
}

/** Whether a file is build output rather than a source. */
function isBuilt(path: string): boolean {
  return /^\.[cm]?js$/.test(extname(path)) && existsSync(`${path}.map`);
}

/** Whether a file may be a build of the application: neither a source nor a dependency. */
function mayHaveMap(file: string, text: string): boolean {
  if (!/^\.[cm]?js$/.test(extname(file)) || /[\\/]node_modules[\\/]/.test(file)) return false;
  return mapUrl(text) !== undefined || existsSync(`${file}.map`);
}
