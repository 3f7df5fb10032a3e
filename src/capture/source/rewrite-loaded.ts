import { existsSync } from 'node:fs';
import { extname, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadChunk } from '../../ground/lifecycle.ts';
import { type Insertion, insert, isMarked, passingExports } from './insert-calls.ts';
import { hashOf, mapUrl, type readList } from './listed-places.ts';
import { parse, type TextKind } from './parse-text.ts';
import type * as RewriteMapped from './rewrite-mapped.ts';
import type { rewrite as Rewrite, SourceEvents, SourceTarget } from './rewrite-text.ts';
import type { TargetFiles, targetFileLookup } from './target-files.ts';
import { isProblem, messageOf } from './wrapper-place.ts';

/** Plain data: it is sent to the loader thread. */
export interface PendingFiles {
  readonly files: TargetFiles;
  readonly baseDir: string;
  readonly listed: ReturnType<typeof readList>;
}

/** The targets whose own files have not been loaded so far. */
export interface PendingTargets {
  /** The file itself is loaded: no build of it counts. */
  isLoaded(path: string): void;
  /** The changed text of a listed file; `undefined` if it must be parsed. Never throws. */
  fromList(file: string, text: string): string | undefined;
  /** The text of a file with a source map, changed for mapped and `own` targets; `undefined` for others. Never throws. */
  rewrite(file: string, text: string, kind: TextKind, own?: readonly SourceTarget[]): string | undefined;
}

/** `rewriteMapped`: the main thread loads the map reader with the first file that needs it. */
export function trackPending(
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

function isBuilt(path: string): boolean {
  return /^\.[cm]?js$/.test(extname(path)) && existsSync(`${path}.map`);
}

/** Whether a file may be a build of the application: neither a source nor a dependency. */
function mayHaveMap(file: string, text: string): boolean {
  if (!/^\.[cm]?js$/.test(extname(file)) || /[\\/]node_modules[\\/]/.test(file)) return false;
  return mapUrl(text) !== undefined || existsSync(`${file}.map`);
}

interface LoadResult {
  format?: string | null | undefined;
  source?: unknown;
}

/**
 * Inserts the targets' calls into a load hook's result. ES modules only: a source for CommonJS would switch Node to
 * another loader, and CommonJS passes through `_compile` anyway.
 */
export function rewriteLoaded<T extends LoadResult>(
  url: string,
  result: T,
  lookup: ReturnType<typeof targetFileLookup>,
  pending: PendingTargets,
  events: SourceEvents,
  rewrite: typeof Rewrite,
): T {
  const isTyped = result.format === 'module-typescript';
  if (result.format !== 'module' && !isTyped) return result;
  const file = lookup.byUrl(url);
  if (file) pending.isLoaded(file.path);
  const path = file?.path ?? (isTyped ? undefined : builtFile(url));
  if (path === undefined || result.source === null || result.source === undefined) return result;
  const before = textOf(result.source);
  if (importsItself(path, before, url)) return result;
  const kind = { goal: 'module', typed: isTyped } as const;
  const after =
    pending.fromList(path, before) ??
    pending.rewrite(path, before, kind, file?.targets) ??
    (file && file.targets.length > 0 ? rewrite(path, before, kind, file.targets, events) : before);
  const { patches = [] } = file?.ofPackage ?? {};
  const whole = patches.length === 0 ? after : passingExports(after, url, patches);
  return whole === before ? result : { ...result, source: whole };
}

/**
 * Whether the text is a generated proxy that imports the module under its own URL, as import-in-the-middle writes. A
 * URL in a comment (`sourceURL`, `sourceMappingURL`) or a string does not count.
 */
function importsItself(file: string, text: string, url: string): boolean {
  const plain = url.replace(/[?#].*$/s, '');
  // Parsed only if the URL occurs in quotes.
  if (!text.includes(`"${plain}`) && !text.includes(`'${plain}`)) return false;
  const parsed = parse(file, text, { goal: 'module', typed: false });
  if (isProblem(parsed)) return false;
  return parsed.program.body.some((statement) => {
    const source = 'source' in statement ? statement.source : null;
    return source !== null && typeof source === 'object' && source.value.replace(/[?#].*$/s, '') === plain;
  });
}

/** A file that may be built from a target's file; not one of a dependency. */
function builtFile(url: string): string | undefined {
  const plain = url.replace(/[?#].*$/s, '');
  return /^file:.*\.[cm]?js$/.test(plain) && !plain.includes('/node_modules/')
    ? fileURLToPath(plain)
    : undefined;
}

function textOf(source: unknown): string {
  return typeof source === 'string'
    ? source
    : new TextDecoder('utf-8', { ignoreBOM: true }).decode(source as Uint8Array);
}

function listedIn(
  listed: PendingFiles['listed'],
  path: string,
  text: string,
  targets: ReadonlyMap<string, string>,
  events: SourceEvents,
): Insertion[] | undefined {
  const file = listed.files.get(path);
  if (file === undefined) return undefined;
  if (hashOf(text) !== file.hash) {
    events.unlisted?.(path);
    return undefined;
  }
  return file.targets.flatMap(({ id, functionPath, place, parameterNames, defaulted, isBuilt }) => {
    if (targets.get(id) !== functionPath) return [];
    const built = isBuilt ? { file: path } : undefined;
    return events.found(id, parameterNames, defaulted, built)
      ? [{ id, found: { place, parameterNames } }]
      : [];
  });
}
