import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Text put in at an offset of the text as it was. */
export interface Inserted {
  readonly at: number;
  readonly text: string;
}

/** Apart, so that no tool takes the text of this very file for one that ends in a source map. */
const tag = 'sourceMappingURL';
const inlineMap =
  /\/\/[#@] sourceMappingURL=data:application\/json;(?:charset=[^;,]+;)?base64,([\w+/]+=*)\s*$/;
const linkedMap = /\/\/[#@] sourceMappingURL=([\w.-]+)\s*$/;

/**
 * Corrects the source map of a text for what was inserted in its lines, so that stacks keep their lines: tsx and minifiers
 * write many lines of the source as one. A map in a file beside it is read, and becomes part of the text, only where Node
 * uses source maps. One that is not understood stays as it is.
 *
 * @param result the text with the insertions
 * @param inserted sorted by offset; nothing inserted holds a line break
 */
export function shiftSourceMap(
  text: string,
  inserted: readonly Inserted[],
  result: string,
  file: string | undefined,
): string {
  try {
    const map = mapOf(result, file);
    if (map === undefined) return result;
    const json = JSON.parse(map.json) as Indexed | Mapped;
    const places = byLine(text, inserted);
    const moved = 'sections' in json ? shiftSections(json, places) : shiftMappings(json, places, 0, 0);
    const shifted = Buffer.from(JSON.stringify(moved)).toString('base64');
    return `${result.slice(0, map.at)}//# ${tag}=data:application/json;base64,${shifted}\n`;
  } catch {
    return result;
  }
}

interface Mapped {
  readonly mappings: string;
}

/** As Turbopack and others write it: a map for each part of the text. */
interface Indexed {
  readonly sections: readonly { offset: { line: number; column: number }; map: Mapped }[];
}

function shiftSections(index: Indexed, places: ReadonlyMap<number, Place[]>): Indexed {
  const sections = index.sections.map(({ offset: { line, column }, map }) => {
    const before = (places.get(line) ?? []).filter((place) => place.column < column);
    const moved = before.reduce((sum, { length }) => sum + length, column);
    return { offset: { line, column: moved }, map: shiftMappings(map, places, line, column) };
  });
  return { ...index, sections };
}

/** `firstLine`, `firstColumn`: where in the text the map begins. */
function shiftMappings<T extends Mapped>(
  map: T,
  inText: ReadonlyMap<number, Place[]>,
  firstLine: number,
  firstColumn: number,
): T {
  const lines = map.mappings.split(';');
  for (const [line, all] of inText) {
    const mapped = lines[line - firstLine];
    if (mapped === undefined) continue;
    const from = line === firstLine ? firstColumn : 0;
    const places = all.filter(({ column }) => column >= from);
    lines[line - firstLine] = shiftLine(
      mapped,
      places.map(({ column, length }) => ({ column: column - from, length })),
    );
  }
  return { ...map, mappings: lines.join(';') };
}

function mapOf(text: string, file: string | undefined): { at: number; json: string } | undefined {
  const inline = inlineMap.exec(text);
  if (inline?.[1] !== undefined)
    return { at: inline.index, json: Buffer.from(inline[1], 'base64').toString() };
  if (file === undefined || !process.sourceMapsEnabled) return undefined;
  const linked = linkedMap.exec(text);
  if (linked?.[1] === undefined) return undefined;
  return { at: linked.index, json: readFileSync(join(dirname(file), linked[1]), 'utf8') };
}

interface Place {
  readonly column: number;
  readonly length: number;
}

function byLine(text: string, inserted: readonly Inserted[]): Map<number, Place[]> {
  const places = new Map<number, Place[]>();
  let line = 0;
  let lineStart = 0;
  for (const { at, text: added } of inserted) {
    for (
      let end = text.indexOf('\n', lineStart);
      end !== -1 && end < at;
      end = text.indexOf('\n', lineStart)
    ) {
      line++;
      lineStart = end + 1;
    }
    places.set(line, [...(places.get(line) ?? []), { column: at - lineStart, length: added.length }]);
  }
  return places;
}

/** Only the first field of a segment, its column, changes; all fields are relative to the segment before. */
function shiftLine(mapped: string, places: readonly Place[]): string {
  let column = 0;
  let written = 0;
  const segments = mapped.split(',').map((segment) => {
    if (segment === '') return segment;
    const [step, length] = readNumber(segment);
    column += step;
    const moved = places.reduce((sum, place) => (place.column <= column ? sum + place.length : sum), column);
    const shifted = writeNumber(moved - written) + segment.slice(length);
    written = moved;
    return shifted;
  });
  return segments.join(',');
}

const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** A base 64 VLQ number, and how many characters it takes: five bits a digit, the lowest first, the first bit the sign. */
function readNumber(text: string): [value: number, length: number] {
  let value = 0;
  for (let at = 0; at < text.length; at++) {
    const digit = digits.indexOf(text[at] ?? '');
    if (digit === -1) break;
    value += (digit & 31) * 2 ** (5 * at);
    if ((digit & 32) === 0) return [value % 2 === 1 ? -(value - 1) / 2 : value / 2, at + 1];
  }
  throw new Error('not a source map');
}

function writeNumber(value: number): string {
  let rest = value < 0 ? -value * 2 + 1 : value * 2;
  let text = '';
  do {
    const digit = rest % 32;
    rest = (rest - digit) / 32;
    text += digits[rest > 0 ? digit + 32 : digit];
  } while (rest > 0);
  return text;
}
