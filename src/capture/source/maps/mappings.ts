import { realpathSync } from 'node:fs';
import { basename, isAbsolute, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ReadMap } from './read-map.ts';
import type { MapPart } from './source-map.ts';

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
  content(): string | undefined;
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
      if (!pathsOf(source, part.map.sourceRoot, folder, roots).includes(path)) return [];
      return [{ content: () => part.map.content(index), mappings: () => mappingsOf(part, index, text) }];
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
  const names = map.names();
  const found: Mapping[] = [];
  const fits = walk(
    map.mappings,
    source,
    (index, [generated = 0, , line = 0, column = 0, name = 0], isNamed) => {
      const start = starts[firstLine + index];
      if (start === undefined) return false;
      const at = start + generated + (index === 0 ? firstColumn : 0);
      if (at > (starts[firstLine + index + 1] ?? text.length)) return false;
      found.push({ at, line, column, name: isNamed ? names[name] : undefined });
      return true;
    },
  );
  return fits ? found : undefined;
}

const digits = new Int8Array(256).fill(-1);
[...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].forEach((digit, value) => {
  digits[digit.charCodeAt(0)] = value;
});
const comma = 44;
const semicolon = 59;

/**
 * Calls `each` for the segments of one source until it says false; false as well where this is no text of mappings. To keep the others, of a
 * bundle a million, is what makes decoding dear.
 */
function walk(
  mappings: Buffer,
  wanted: number,
  each: (line: number, fields: Int32Array, isNamed: boolean) => boolean,
): boolean {
  // Its column, source, line and column there, and name; the rest is room for segments that have more than there is.
  const fields = new Int32Array(8);
  let [line, field, value, shift] = [0, 0, 0, 0];

  for (let at = 0; at < mappings.length; at++) {
    const byte = mappings[at] as number;
    const digit = digits[byte] as number;
    if (digit >= 0) {
      value |= (digit & 31) << shift;
      if (digit > 31) {
        shift += 5;
        continue;
      }
      (fields[field++ & 7] as number) += value & 1 ? -(value >>> 1) : value >>> 1;
      value = 0;
      shift = 0;
    } else {
      if (field > 3 && fields[1] === wanted && !each(line, fields, field > 4)) return false;
      field = 0;
      if (byte === semicolon) {
        line++;
        fields[0] = 0;
      } else if (byte !== comma) return false;
    }
  }
  return field < 4 || fields[1] !== wanted || each(line, fields, field > 4);
}

export function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}
