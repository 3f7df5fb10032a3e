import { realpathSync } from 'node:fs';
import { basename, isAbsolute, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
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
  const full = plain.startsWith('file:') ? filePath(plain) : plain;
  if (isAbsolute(full)) return [full, ...roots.map((root) => resolve(root, `.${full}`))];
  const direct = resolve(folder, sourceRoot, full);
  const real = realPath(direct);
  return real === undefined || real === direct ? [direct] : [direct, real];
}

function filePath(url: string): string {
  try {
    return fileURLToPath(url);
  } catch {
    return url;
  }
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
  const fits = walk(map.mappings, source, (index, generated, line, column, name) => {
    const start = starts[firstLine + index];
    if (start === undefined) return false;
    const at = start + generated + (index === 0 ? firstColumn : 0);
    if (at > (starts[firstLine + index + 1] ?? text.length)) return false;
    found.push({ at, line, column, name: name < 0 ? undefined : map.names?.[name] });
    return true;
  });
  return fits ? found : undefined;
}

const digits = new Int8Array(128).fill(-1);
[...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].forEach((digit, value) => {
  digits[digit.charCodeAt(0)] = value;
});
const comma = 44;
const semicolon = 59;

/**
 * Calls `each` for the segments of one source, with `name` -1 where there is none, until it says false; false as well where this is no text of
 * mappings. To keep the others, of a bundle a million, is what makes decoding dear.
 */
function walk(
  mappings: string,
  wanted: number,
  each: (line: number, generated: number, sourceLine: number, sourceColumn: number, name: number) => boolean,
): boolean {
  let [generated, source, sourceLine, sourceColumn, name] = [0, 0, 0, 0, 0];
  let [line, field, value, shift] = [0, 0, 0, 0];
  for (let at = 0; at <= mappings.length; at++) {
    const character = at === mappings.length ? semicolon : mappings.charCodeAt(at);
    if (character === comma || character === semicolon) {
      if (
        field > 3 &&
        source === wanted &&
        !each(line, generated, sourceLine, sourceColumn, field > 4 ? name : -1)
      )
        return false;
      field = 0;
      if (character === semicolon) {
        line++;
        generated = 0;
      }
      continue;
    }
    const digit = digits[character] ?? -1;
    if (digit < 0) return false;
    value |= (digit & 31) << shift;
    if (digit > 31) {
      shift += 5;
      continue;
    }
    const change = value & 1 ? -(value >>> 1) : value >>> 1;
    value = 0;
    shift = 0;
    switch (field++) {
      case 0:
        generated += change;
        break;
      case 1:
        source += change;
        break;
      case 2:
        sourceLine += change;
        break;
      case 3:
        sourceColumn += change;
        break;
      case 4:
        name += change;
    }
  }
  return true;
}

export function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}
