import { existsSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { threadId } from 'node:worker_threads';
import type { Found } from './wrapper-place.ts';

/** For a default export without a name. */
const givenName = '__svcDefault';

/** A target's function in a text. `id` is the argument of the inserted call, by which the main thread knows the target. */
export interface Insertion {
  readonly id: string;
  readonly found: Found;
}

/** The global of inserted calls. It avoids an import in the application's module graph. */
const runtime = 'globalThis[Symbol.for("svc.capture")]';
/** The same through literals only: a module may declare its own `Symbol`, as effect and trading systems do. */
const runtimeUnnamed =
  '({}).constructor[({}).constructor.getOwnPropertySymbols([].constructor.prototype)[0].constructor.for("svc.capture")]';
const marker = /\b(?:Symbol|constructor)\.for\(\s*["'`]svc\.capture["'`]\s*\)/;
/** Any other use of the names may be a declaration. A match in a string does no harm. */
const mayDeclare =
  /(?<![.\w$]|typeof )(?:Symbol|globalThis)(?![\w$]|\s*(?:[.[(]|\?\.))|\b(?:function|namespace|module|let|var)\b[\s*]*(?:Symbol|globalThis)\b/;

const runtimeIn = (text: string): string => (mayDeclare.test(text) ? runtimeUnnamed : runtime);

/** Whether a text has inserted calls: two hooks may see one file, and transformers keep them. */
export function isMarked(text: string): boolean {
  return marker.test(text);
}

/**
 * Inserts only the calls that install wrappers. No line moves, and without svc at run time (a worker thread without the
 * preload) the text keeps its meaning. `file`: the path beside which a source map is looked for.
 */
export function insert(text: string, insertions: readonly Insertion[], file?: string): string {
  const edits: Edit[] = [];
  const runtime = runtimeIn(text);
  const named = new Set<number>();
  const opened = new Set<number>();
  insertions.forEach(({ id, found: { place, parameterNames } }, index) => {
    const what = `${JSON.stringify(id)},${parameterNames ? JSON.stringify(parameterNames) : 'null'}`;
    const isReturned = place.isReturned ? ',1' : '';
    // `;` first: the text before may rely on an automatic semicolon.
    const assign = (name: string, more: string) =>
      `;${name}=${runtime}?.fn(${name},${what}${more})??${name};`;
    switch (place.form) {
      case 'binding':
        edits.push(point(place.at, index, assign(place.name, isReturned && `,void 0${isReturned}`)));
        break;
      case 'nameless':
        if (!named.has(place.nameAt)) edits.push(point(place.nameAt, index, ` ${givenName}`));
        named.add(place.nameAt);
        edits.push(point(place.at, index, assign(givenName, ',"default"')));
        break;
      case 'late': {
        const { at, name, path, standardAt } = place;
        if (standardAt !== undefined && !named.has(standardAt)) {
          named.add(standardAt);
          edits.push(point(standardAt, index, `{${name} as `));
          edits.push(point(standardAt + 'default'.length, index, '};'));
        }
        const call = `;${runtime}?.obj(${name},${what},${JSON.stringify(path)});`;
        edits.push(point(at, index, path.length === 0 ? assign(name, '') : call));
        break;
      }
      case 'method': {
        const owner = place.isStatic ? 'this' : 'this.prototype';
        edits.push(
          point(
            place.at,
            index,
            `;static{${runtime}?.put(${owner},${JSON.stringify(place.key)},${what}${isReturned})}`,
          ),
        );
        break;
      }
      case 'value': {
        const isPath = place.path.length > 0;
        const more = isPath
          ? `,${JSON.stringify(place.path)}`
          : place.name
            ? `,${JSON.stringify(place.name)}`
            : isReturned && ',void 0';
        const call = `((${runtime}?.${isPath ? 'obj' : 'fn'}??((v)=>v))(`;
        const { start, end } = place;
        edits.push({
          at: start,
          rank: opening,
          tie: [-end, -index],
          text: call,
          unnamed: isPath ? undefined : (place.name ?? assigned(text, start)),
        });
        edits.push({ at: end, rank: closing, tie: [-start, index], text: `,${what}${more}${isReturned}))` });
        if (place.open && !opened.has(end)) edits.push({ at: end, rank: semicolon, tie: [0, 0], text: ';' });
        opened.add(end);
        break;
      }
    }
  });
  return apply(text, edits, file);
}

/** The name that V8 infers for an assigned function: `exports.create = function () {}`. */
function assigned(text: string, start: number): string | undefined {
  const [, name] = /([\w$]+(?:\.[\w$]+)*)\s*=\s*\(*$/.exec(text.slice(Math.max(0, start - 200), start)) ?? [];
  return name?.replaceAll('.prototype', '');
}

/** An ES module that passes its exports to `globalThis[Symbol.for("svc.capture")]` after it has run. `url`: its own. */
export function passingExports(text: string, url: string, keys: readonly string[]): string {
  const calls = keys.map((key) => `${runtimeIn(text)}?.loaded?.(${JSON.stringify(key)},__svcModule);`);
  return `${text}\nimport * as __svcModule from ${JSON.stringify(url)};${calls.join('')}`;
}

/** The order at one offset: closing texts, then separate ones, then opening ones. */
const closing = 0;
const semicolon = 1;
const statement = 2;
const opening = 3;

interface Edit {
  readonly at: number;
  readonly rank: number;
  /** Within a rank, a longer range opens first and closes last, and a later target encloses an earlier one. */
  readonly tie: readonly [number, number];
  readonly text: string;
  readonly unnamed?: string | undefined;
}

function point(at: number, index: number, text: string): Edit {
  return { at, rank: statement, tie: [0, index], text };
}

function apply(text: string, edits: Edit[], file: string | undefined): string {
  edits.sort((a, b) => a.at - b.at || a.rank - b.rank || a.tie[0] - b.tie[0] || a.tie[1] - b.tie[1]);
  let result = '';
  let done = 0;
  for (const edit of edits) {
    result += text.slice(done, edit.at) + edit.text;
    done = edit.at;
  }
  const plain = result + text.slice(done);
  const mapped = shiftSourceMap(text, edits, plain, file);
  // With a map, coverage tools find the source through it.
  if (mapped === plain) noteInserted(file, text, edits);
  return mapped;
}

interface CoverageInsertion extends Inserted {
  /** The name of the function after it, which V8 can no longer infer. */
  readonly unnamed?: string | undefined;
}

interface Changed {
  readonly inserted: readonly (CoverageInsertion & { readonly line: number })[];
}

interface CoverageRange {
  startOffset: number;
  endOffset: number;
}

interface Report {
  readonly result: { readonly url: string; functions: { functionName: string; ranges: CoverageRange[] }[] }[];
  readonly 'source-map-cache'?: Readonly<Record<string, { readonly lineLengths?: number[] } | undefined>>;
}

/** By real path: V8 counts offsets in the changed text. */
const changed = new Map<string, Changed>();

/** Records what was inserted into a file, to correct V8's coverage report when the process ends. */
function noteInserted(
  file: string | undefined,
  before: string,
  inserted: readonly CoverageInsertion[],
): void {
  const folder = process.env.NODE_V8_COVERAGE;
  if (!folder || file === undefined) return;
  if (changed.size === 0) process.on('exit', () => report(folder));
  const lineOf = (at: number) => before.slice(0, at).split('\n').length - 1;
  changed.set(file, {
    inserted: inserted.map(({ at, text, unnamed }) => ({ at, text, unnamed, line: lineOf(at) })),
  });
}

/** Writes the report now, without the insertions. Never throws. */
function report(folder: string): void {
  try {
    const { stopCoverage, takeCoverage } = process.getBuiltinModule('node:v8');
    const ending = `-${threadId}.json`;
    const list = () =>
      (existsSync(folder) ? readdirSync(folder) : []).filter(
        (name) => name.startsWith(`coverage-${process.pid}-`) && name.endsWith(ending),
      );
    const before = new Set(list());
    takeCoverage();
    // A later report would describe the changed texts.
    stopCoverage();
    for (const name of list()) if (!before.has(name)) correct(join(folder, name));
  } catch {
    // Keep the report as V8 wrote it.
  }
}

function correct(file: string): void {
  const report = JSON.parse(readFileSync(file, 'utf8')) as Report;
  for (const script of report.result) {
    const found = changedAt(script.url);
    if (found === undefined) continue;
    const back = backIn(found);
    // Line lengths from a source map in the report, by which some tools read the offsets.
    const { lineLengths } = report['source-map-cache']?.[script.url] ?? {};
    for (const { line, text } of lineLengths ? found.inserted : [])
      if (lineLengths?.[line] !== undefined) lineLengths[line] -= text.length;
    script.functions = script.functions.flatMap((each) => {
      const [whole, ...blocks] = each.ranges.map((range) => ({
        ...range,
        startOffset: back(range.startOffset),
        endOffset: back(range.endOffset),
      }));
      // Drop the functions and branches of inserted code.
      if (whole === undefined || whole.startOffset === whole.endOffset) return [];
      const own = blocks.filter(({ startOffset, endOffset }) => startOffset < endOffset);
      return [{ ...each, functionName: nameOf(each.functionName, whole, found), ranges: [whole, ...own] }];
    });
  }
  writeFileSync(file, JSON.stringify(report));
}

function nameOf(name: string, { startOffset }: CoverageRange, { inserted }: Changed): string {
  if (name === givenName) return 'default';
  if (name !== '') return name;
  return inserted.find(({ at, unnamed }) => unnamed !== undefined && at === startOffset)?.unnamed ?? name;
}

function changedAt(url: string): Changed | undefined {
  if (!url.startsWith('file:')) return undefined;
  const path = fileURLToPath(url.replace(/[?#].*$/s, ''));
  const exact = changed.get(path);
  if (exact !== undefined) return exact;
  try {
    return changed.get(realpathSync(path));
  } catch {
    return undefined;
  }
}

function backIn({ inserted }: Changed): (offset: number) => number {
  return (offset) => {
    let before = 0;
    for (const { at, text } of inserted) {
      if (at + before >= offset) break;
      // Inside an insertion: use its position.
      if (at + before + text.length >= offset) return at;
      before += text.length;
    }
    return offset - before;
  };
}

interface Inserted {
  readonly at: number;
  readonly text: string;
}

/** Built from parts, so that tools do not take this file for one with a source map. */
const tag = 'sourceMappingURL';
const inlineMap =
  /\/\/[#@] sourceMappingURL=data:application\/json;(?:charset=[^;,]+;)?base64,([\w+/]+=*)\s*$/;
const linkedMap = /\/\/[#@] sourceMappingURL=([\w.-]+)\s*$/;

/**
 * Shifts the source map of a text by what was inserted, so that stacks stay correct: tsx and minifiers put many source
 * lines into one. A map in a separate file is inlined only if Node uses source maps. An unknown format stays unchanged.
 *
 * @param result the text with the insertions
 * @param inserted sorted by offset, without line breaks
 */
function shiftSourceMap(
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

/** A map with sections, as Turbopack and others write it. */
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

/** `firstLine`, `firstColumn`: where the map starts in the text. */
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

/** Only the first field of a segment, its column, changes: all fields are relative to the previous segment. */
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

/** A base64 VLQ number and its length: five bits a digit, the lowest first, the first bit the sign. */
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
