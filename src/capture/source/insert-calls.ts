import { existsSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { threadId } from 'node:worker_threads';
import { hasSoundSyncHooks } from './node-hooks.ts';
import { type Found, givenName } from './wrapper-place.ts';

/** A target's function in a text. `id` is what the inserted call says, and what the main thread knows the target by. */
export interface Insertion {
  readonly id: string;
  readonly found: Found;
}

/** The global that inserted calls look for: no import is added to anybody's module graph. */
const runtime = 'globalThis[Symbol.for("svc.capture")]';
/** The same, found by nothing but literals: a module may have a `Symbol` of its own, as effect and trading systems do. */
const runtimeUnnamed =
  '({}).constructor[({}).constructor.getOwnPropertySymbols([].constructor.prototype)[0].constructor.for("svc.capture")]';
const marker = /\b(?:Symbol|constructor)\.for\(\s*["'`]svc\.capture["'`]\s*\)/;
/** Whatever is not plainly a use of the global may be a declaration: in a string it does no harm. */
const mayDeclare =
  /(?<![.\w$]|typeof )(?:Symbol|globalThis)(?![\w$]|\s*(?:[.[(]|\?\.))|\b(?:function|namespace|module|let|var)\b[\s*]*(?:Symbol|globalThis)\b/;

const runtimeIn = (text: string): string => (mayDeclare.test(text) ? runtimeUnnamed : runtime);

/** True when a text has been through here: two hooks may see one file, and transformers keep what was inserted. */
export function isMarked(text: string): boolean {
  return marker.test(text);
}

/**
 * Inserts the calls that put wrappers in place, and nothing else: no line moves, and where the capture is not there at run
 * time (a worker thread without the preload) the text means what it meant. `file`: where a source map beside it is looked for.
 */
export function insert(text: string, insertions: readonly Insertion[], file?: string): string {
  const edits: Edit[] = [];
  const runtime = runtimeIn(text);
  const named = new Set<number>();
  const opened = new Set<number>();
  insertions.forEach(({ id, found: { place, parameterNames } }, index) => {
    const what = `${JSON.stringify(id)},${parameterNames ? JSON.stringify(parameterNames) : 'null'}`;
    const isReturned = place.isReturned ? ',1' : '';
    // `;` first: what stands before may rely on an automatic semicolon.
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

/** What V8 calls a function that is assigned: `exports.create = function () {}`. */
function assigned(text: string, start: number): string | undefined {
  const [, name] = /([\w$]+(?:\.[\w$]+)*)\s*=\s*\(*$/.exec(text.slice(Math.max(0, start - 200), start)) ?? [];
  return name?.replaceAll('.prototype', '');
}

/** An ES module whose exports `globalThis[Symbol.for("svc.capture")]` gets when it has run. `url`: its own. */
export function handingOver(text: string, url: string, keys: readonly string[]): string {
  const calls = keys.map((key) => `${runtimeIn(text)}?.loaded?.(${JSON.stringify(key)},__svcModule);`);
  return `${text}\nimport * as __svcModule from ${JSON.stringify(url)};${calls.join('')}`;
}

/** At one place: what closes comes before what stands alone, and that before what opens. */
const closing = 0;
const semicolon = 1;
const statement = 2;
const opening = 3;

interface Edit {
  readonly at: number;
  readonly rank: number;
  /** Of one rank: a longer range opens first and closes last, and a later target goes around an earlier one. */
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
  // With a map, what V8 counts is found through that.
  if (mapped === plain) noteInserted(file, text, edits);
  return mapped;
}

interface CoverageInsertion extends Inserted {
  /** The name that the function behind it has, and V8 no longer infers. */
  readonly unnamed?: string | undefined;
}

interface Changed {
  /** By offset. */
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

/** Of each file, by its real path: what V8 counts by is its changed text. */
const changed = new Map<string, Changed>();

/** The text of a file is loaded with more in it. V8's report of what ran is put right when the process ends. */
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

/** Why coverage of files with targets is not that of their own text; `undefined` where it is, or nobody asks for it. */
export function whyCoverageDiffers(): string | undefined {
  const has = (...flags: string[]) => process.execArgv.some((each) => flags.includes(each));
  const runsTests = has('--experimental-test-coverage');
  const isElsewhere = has('--test') && !has('--test-isolation=none', '--experimental-test-isolation=none');
  if (runsTests && !isElsewhere)
    return 'the tests run in the process of the reporter: run them with node --test, each file in its own process';
  if (process.env.NODE_V8_COVERAGE && !hasSoundSyncHooks())
    return `Node ${process.versions.node} loads ES modules through another thread: use Node 22.22.3, 24.11.1 or later`;
  return undefined;
}

/** Writes the report now, without what was inserted. Never throws. */
function report(folder: string): void {
  try {
    const { stopCoverage, takeCoverage } = process.getBuiltinModule('node:v8');
    const ending = `-${threadId}.json`;
    // V8 makes the folder with the first report.
    const list = () =>
      (existsSync(folder) ? readdirSync(folder) : []).filter(
        (name) => name.startsWith(`coverage-${process.pid}-`) && name.endsWith(ending),
      );
    const before = new Set(list());
    takeCoverage();
    // The next report would be of the changed texts.
    stopCoverage();
    for (const name of list()) if (!before.has(name)) correct(join(folder, name));
  } catch {
    // The report stays as V8 makes it.
  }
}

function correct(file: string): void {
  const report = JSON.parse(readFileSync(file, 'utf8')) as Report;
  for (const script of report.result) {
    const found = changedAt(script.url);
    if (found === undefined) continue;
    const back = backIn(found);
    // Of a source map beside it, through which some look at the offsets.
    const { lineLengths } = report['source-map-cache']?.[script.url] ?? {};
    for (const { line, text } of lineLengths ? found.inserted : [])
      if (lineLengths?.[line] !== undefined) lineLengths[line] -= text.length;
    script.functions = script.functions.flatMap((each) => {
      const [whole, ...blocks] = each.ranges.map((range) => ({
        ...range,
        startOffset: back(range.startOffset),
        endOffset: back(range.endOffset),
      }));
      // What was inserted has functions and branches, too.
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

/** From an offset in the changed text to that in the text as it was. */
function backIn({ inserted }: Changed): (offset: number) => number {
  return (offset) => {
    let before = 0;
    for (const { at, text } of inserted) {
      if (at + before >= offset) break;
      // Within what was inserted: where that was put.
      if (at + before + text.length >= offset) return at;
      before += text.length;
    }
    return offset - before;
  };
}

/** Text put in at an offset of the text as it was. */
interface Inserted {
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
