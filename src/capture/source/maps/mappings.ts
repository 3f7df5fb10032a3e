import { realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, isAbsolute, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type * as Codec from '@jridgewell/sourcemap-codec';
import type { MapPart, ReadMap } from './read-map.ts';

/** One mapping: an offset of the text, and where that is in the source; lines and columns from 0. */
export interface Mapping {
  readonly at: number;
  readonly line: number;
  readonly column: number;
  /** What stands there in the source, where the map says so. */
  readonly name: string | undefined;
}

/** A source file, as a map has it. */
export interface MappedSource {
  /** Its text; `undefined` where the map does not hold it. */
  readonly content: string | undefined;
  /** In the order of the text. `undefined`: the map does not fit the text. */
  mappings(): Mapping[] | undefined;
}

let codec: typeof Codec | undefined;

function decode(mappings: string): Codec.SourceMapMappings {
  codec ??= createRequire(import.meta.url)('@jridgewell/sourcemap-codec') as typeof Codec;
  return codec.decode(mappings);
}

/** The sources of a map that are the file at `path`: more than one where a map has parts. `roots`: what `webpack://` may start from. */
export function sourcesAt(
  { folder, parts }: ReadMap,
  path: string,
  roots: readonly string[],
  text: string,
): MappedSource[] {
  const name = basename(path);
  return parts.flatMap((part) =>
    part.map.sources.flatMap((source, index) => {
      if (source === null || !source.includes(name)) return [];
      if (!pathsOf(source, part.map.sourceRoot ?? '', folder, roots).includes(path)) return [];
      const content = part.map.sourcesContent?.[index] ?? undefined;
      return [{ content, mappings: () => mappingsOf(part, index, text) }];
    }),
  );
}

/** Where a source may be: only compared with what a target names, never opened. */
function pathsOf(source: string, sourceRoot: string, folder: string, roots: readonly string[]): string[] {
  const plain = source.replace(/\?[^/]*$/, '');
  // webpack://name/./src/a.ts, turbopack:///[project]/src/a.ts: from a folder that only the bundler knew.
  const [, tail] = /^(?!file:)[a-z][\w+.-]+:\/\/[^/]*\/(?:\[project\]\/)?(.*)$/i.exec(plain) ?? [];
  if (tail !== undefined) return roots.map((root) => resolve(root, tail));
  const full = plain.startsWith('file:') ? fileURLToPath(plain) : plain;
  if (isAbsolute(full)) return [full, ...roots.map((root) => resolve(root, `.${full}`))];
  const direct = resolve(folder, sourceRoot, full);
  const real = realPath(direct);
  return real === undefined || real === direct ? [direct] : [direct, real];
}

/** Packages of a workspace are links. */
function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

function mappingsOf({ map, line: firstLine, column: firstColumn }: MapPart, source: number, text: string) {
  const starts = lineStarts(text);
  const found: Mapping[] = [];
  const lines = decode(map.mappings);
  for (const [index, segments] of lines.entries()) {
    const start = starts[firstLine + index];
    for (const segment of segments) {
      if (segment.length === 1 || segment[1] !== source) continue;
      if (start === undefined) return undefined;
      const at = start + segment[0] + (index === 0 ? firstColumn : 0);
      if (at > (starts[firstLine + index + 1] ?? text.length)) return undefined;
      found.push({
        at,
        line: segment[2],
        column: segment[3],
        name: segment.length === 5 ? map.names?.[segment[4]] : undefined,
      });
    }
  }
  return found;
}

export function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}
