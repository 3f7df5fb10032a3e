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
  const found: Mapping[] = [];
  let names: readonly string[] | undefined;
  const fits = walk(
    map.mappings,
    source,
    (index, [generated = 0, , line = 0, column = 0, name = 0], isNamed) => {
      const start = starts[firstLine + index];
      if (start === undefined) return false;
      const at = start + generated + (index === 0 ? firstColumn : 0);
      if (at > (starts[firstLine + index + 1] ?? text.length)) return false;
      found.push({
        at,
        line,
        column,
        // Wanted where nobody has the text of the source: a bundle has tens of thousands.
        get name() {
          names ??= map.names();
          return isNamed ? names[name] : undefined;
        },
      });
      return true;
    },
  );
  return fits ? found : undefined;
}

/** The values of the characters: 64 digits, of which those above 31 go on; 64 is a comma, 65 a semicolon, and 66 nothing of a map. */
const values = new Uint8Array(256).fill(66);
[...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/,;'].forEach((character, value) => {
  values[character.charCodeAt(0)] = value;
});
const signed = (value: number) => (value & 1 ? -(value >>> 1) : value >>> 1);
const signedDigits = Int8Array.from({ length: 32 }, (_, digit) => signed(digit));

/**
 * Calls `each` for the segments of one source until it says false; false as well where this is no text of mappings. To keep the others, of a
 * bundle a million, is what makes decoding dear; and as much of a start's time is spent before V8 has compiled the loop as after it: what is most
 * often there comes first, in few steps.
 */
function walk(
  mappings: Buffer,
  wanted: number,
  each: (line: number, fields: Int32Array, isNamed: boolean) => boolean,
): boolean {
  // Its column, source, line and column there, and name; the rest is room for segments that have more than there is.
  const fields = new Int32Array(8);
  const [digitOf, signedOf, end] = [values, signedDigits, mappings.length];
  let [at, line, field] = [0, 0, 0];

  while (at < end) {
    let value = digitOf[mappings[at++] as number] as number;
    if (value < 32) (fields[field++ & 7] as number) += signedOf[value] as number;
    else if (value < 64) {
      value -= 32;
      let digit = 32;
      for (let shift = 5; digit > 31; shift += 5) {
        digit = digitOf[mappings[at++] as number] ?? 66;
        if (digit > 63) return false;
        value |= (digit & 31) << shift;
      }
      (fields[field++ & 7] as number) += signed(value);
    } else {
      if (field > 3 && fields[1] === wanted && !each(line, fields, field > 4)) return false;
      field = 0;
      if (value === 65) {
        line++;
        fields[0] = 0;
      } else if (value === 66) return false;
    }
  }
  return field < 4 || fields[1] !== wanted || each(line, fields, field > 4);
}

export function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}
