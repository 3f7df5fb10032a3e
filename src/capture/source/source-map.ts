import { readFileSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { changeableByOthers } from '../../ground/files.ts';
import { mapUrl } from './listed-places.ts';
import { segmentsWasm } from './segments-wasm.ts';
import type { Problem } from './wrapper-place.ts';

interface SourceMap {
  readonly sources: readonly (string | null)[];
  readonly sourceRoot: string;
  readonly mappings: Buffer;
  content(source: number): string | undefined;
  names(): readonly string[];
}

/** A map, or a part of one, with its start in the text. Lines and columns count from 0. */
interface MapPart {
  readonly line: number;
  readonly column: number;
  readonly map: SourceMap;
}

function partsOf(json: Buffer): MapPart[] {
  const map = readInPlace(json);
  if (map !== undefined) return [{ line: 0, column: 0, map }];
  const whole = parsed(json);
  const { sections } = whole as { sections?: { offset?: { line: number; column: number }; map: unknown }[] };
  if (sections === undefined) return [{ line: 0, column: 0, map: mapOf(whole) }];
  if (!Array.isArray(sections)) throw damaged('its sections are not a list');
  return sections.map(({ offset, map }) => {
    if (offset === undefined) throw damaged('its sections have no offset');
    return { line: offset.line, column: offset.column, map: mapOf(map) };
  });
}

/** Reads a map without decoding its sources' texts: only one is needed. `undefined` if the whole map must be parsed. */
function readInPlace(json: Buffer): SourceMap | undefined {
  const values = valuesIn(json);
  const mappings = values?.get('mappings');
  if (mappings?.[0] !== '"'.charCodeAt(0) || mappings.includes('\\')) return undefined;
  const value = (key: string): unknown => {
    const bytes = values?.get(key);
    return bytes && parsed(bytes);
  };
  try {
    const map = mapOf({
      mappings: mappings.subarray(1, -1),
      sources: value('sources'),
      sourceRoot: value('sourceRoot'),
    });
    return {
      ...map,
      content(source) {
        const texts = values?.get('sourcesContent');
        const text = texts && textsIn(texts, map.sources.length)?.[source];
        if (text !== undefined) return parsed(text) as string;
        return texts && mapOf({ ...map, sourcesContent: parsed(texts) }).content(source);
      },
      names: () => mapOf({ ...map, names: value('names') }).names(),
    };
  } catch {
    return undefined;
  }
}

function mapOf(json: unknown): SourceMap {
  const map = (json ?? {}) as Readonly<Record<string, unknown>>;
  const isText = (each: unknown) => each === null || typeof each === 'string';
  const mappings = typeof map.mappings === 'string' ? Buffer.from(map.mappings) : map.mappings;
  if (!Buffer.isBuffer(mappings) || !Array.isArray(map.sources) || !map.sources.every(isText))
    throw damaged('no sources, or no mappings');
  const texts = map.sourcesContent ?? [];
  if (!Array.isArray(texts) || !texts.every(isText)) throw damaged('its texts are not strings');
  return {
    mappings,
    sources: map.sources,
    sourceRoot: String(map.sourceRoot ?? ''),
    content: (source) => texts[source] ?? undefined,
    names: () => (map.names ?? []) as string[],
  };
}

function parsed(json: Buffer): unknown {
  try {
    return JSON.parse(json.toString());
  } catch {
    throw damaged('no JSON');
  }
}

function damaged(reason: string): Error {
  return new Error(`it is damaged: ${reason}`);
}

/** One mapping: an offset of the text, and its position in the source. Lines and columns count from 0. */
export interface Mapping {
  readonly at: number;
  readonly line: number;
  readonly column: number;
  /** Index of the name in the source; -1 if the map gives none. */
  readonly name: number;
}

export interface MappedSource {
  content(): string | undefined;
  /** In text order. `undefined`: the map does not fit the text. */
  mappings(): Mapping[] | undefined;
  /** Read only if the source's text is missing: a bundle has tens of thousands. */
  names(): readonly string[];
}

/** The sources of a map that are the file at `path`; several if a map has parts. `roots`: base folders for `webpack://`. */
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
      const { map } = part;
      return [
        {
          content: () => map.content(index),
          mappings: () => mappingsOf(part, index, text),
          names: map.names,
        },
      ];
    }),
  );
}

/** Possible paths of a source: only compared with target files, never opened. */
function pathsOf(source: string, sourceRoot: string, folder: string, roots: readonly string[]): string[] {
  const plain = source.replace(/\?[^/]*$/, '');
  // webpack://name/./src/a.ts, turbopack:///[project]/src/a.ts: relative to a folder known only to the bundler.
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

function realPath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
}

function mappingsOf({ map, line: firstLine, column: firstColumn }: MapPart, source: number, text: string) {
  const segments = segmentsOf(map.mappings, source);
  if (segments === undefined) return undefined;
  const starts = lineStarts(text);
  const found: Mapping[] = [];
  for (let next = 0; next < segments.length; next += 5) {
    const [index, generated] = [segments[next] as number, segments[next + 1] as number];
    const start = starts[firstLine + index];
    if (start === undefined) return undefined;
    const at = start + generated + (index === 0 ? firstColumn : 0);
    if (at > (starts[firstLine + index + 1] ?? text.length)) return undefined;
    const [line, column] = [segments[next + 2] as number, segments[next + 3] as number];
    found.push({ at, line, column, name: segments[next + 4] as number });
  }
  return found;
}

/** The parts used here: Node's types leave WebAssembly to those of the browser. */
interface Wasm {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (
    module: object,
  ) => {
    readonly exports: {
      readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number };
      segmentsOf(from: number, end: number, source: number, found: number): number;
    };
  };
}

const characters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/,;';
let compiled: object | undefined;

/**
 * Five numbers for each segment of one source (see scripts/segments.wat); `undefined` for invalid mappings. Skipping
 * the segments of other sources, up to a million in a bundle, is what makes decoding fast.
 *
 * @throws an error with the remedy if WebAssembly is unavailable
 */
function segmentsOf(mappings: Buffer, source: number): Int32Array | undefined {
  const { WebAssembly: wasm } = globalThis as { WebAssembly?: Wasm };
  if (wasm === undefined) throw new Error('it needs WebAssembly, which --jitless disables: use svc manifest');
  compiled ??= new wasm.Module(Buffer.from(segmentsWasm, 'base64'));
  // One instance for each text, so that its memory is freed.
  const { memory, segmentsOf } = new wasm.Instance(compiled).exports;
  const [from, end] = [288, 288 + mappings.length];
  const found = (end + 4) & ~3;
  // 20 bytes for a segment; its text has at least five characters with the comma.
  memory.grow(Math.ceil((found + 4 * mappings.length + 20) / 65_536));
  const bytes = new Uint8Array(memory.buffer);
  bytes.fill(66, 0, 256);
  for (let value = 0; value < characters.length; value++) bytes[characters.charCodeAt(value)] = value;
  bytes.set(mappings, from);
  const behind = segmentsOf(from, end, source, found);
  return behind === -1 ? undefined : new Int32Array(memory.buffer, found, (behind - found) / 4);
}

export function lineStarts(text: string): number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

/** The size of a bundle of thousands of files. Reading more would slow the start noticeably. */
const largestBytes = 32_000_000;

interface ReadMap {
  readonly folder: string;
  readonly parts: readonly MapPart[];
}

/**
 * The source map of a file's text; `undefined` without one. A map that does not mention one of `names` is not parsed.
 *
 * @param names base names of the files to look for
 */
export function readMap(file: string, text: string, names: readonly string[]): ReadMap | Problem | undefined {
  const url = mapUrl(text);
  const inline = url?.startsWith('data:') === true ? inlineText(url) : undefined;
  const path = url === undefined ? `${file}.map` : pathOf(url, file);
  let json: Buffer;
  try {
    if (inline !== undefined) json = inline;
    else {
      if (path === undefined) return undefined;
      const { size } = statSync(path);
      if (size > largestBytes)
        return {
          problem: `it has ${Math.round(size / 1_000_000)} MB, and the limit is ${Math.round(largestBytes / 1_000_000)}`,
        };
      const open = changeableByOthers(path, statSync(file, { throwIfNoEntry: false }));
      if (open !== undefined) return { problem: `${open}, but the map decides where svc inserts its calls` };
      json = readFileSync(path);
      // Without a comment in the text, a map beside the file may belong to another text.
      if (url === undefined && readFileSync(file, 'utf8') !== text) return undefined;
    }
  } catch {
    // A missing map is normal: few are shipped.
    return undefined;
  }
  if (!names.some((name) => json.includes(JSON.stringify(name).slice(1, -1)))) return undefined;
  try {
    return { folder: dirname(path ?? file), parts: partsOf(json) };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}

function inlineText(url: string): Buffer | undefined {
  const [, encoding, data = ''] = /^data:[^,]*?(;base64)?,(.*)$/s.exec(url) ?? [];
  try {
    return encoding === undefined ? Buffer.from(decodeURIComponent(data)) : Buffer.from(data, 'base64');
  } catch {
    return undefined;
  }
}

/** Only local files: remote maps are for tools. */
function pathOf(url: string, file: string): string | undefined {
  try {
    const full = new URL(url, pathToFileURL(file));
    return full.protocol === 'file:' ? fileURLToPath(full) : undefined;
  } catch {
    return undefined;
  }
}

const [quote, backslash, comma, colon] = [34, 92, 44, 58];
const [opensList, closesList, opensObject, closesObject] = [91, 93, 123, 125];

/**
 * The values of a JSON object as bytes, without parsing them: little of a source map's megabytes is needed. `undefined`
 * for JSON unlike that of compilers and bundlers, which holds strings, numbers and lists of strings: use `JSON.parse`
 * for it. Parsing a value later shows whether it is valid JSON.
 */
function valuesIn(json: Buffer): ReadonlyMap<string, Buffer> | undefined {
  const values = new Map<string, Buffer>();
  let at = skipBlanks(json, 0);
  if (json[at] !== opensObject) return undefined;
  // The character after the first brace, a quote or a line end, follows each comma.
  const endOfList = `],${String.fromCharCode(json[at + 1] ?? closesObject)}`;
  do {
    const key = skipBlanks(json, at + 1);
    const from = valueOfKey(json, key);
    if (from === undefined) return undefined;
    const to = json[from] === opensList ? afterList(json, from, endOfList) : afterPlain(json, from);
    if (to === undefined) return undefined;
    values.set(json.toString('latin1', key + 1, json.indexOf(quote, key + 1)), json.subarray(from, to));
    at = skipBlanks(json, to);
  } while (json[at] === comma);
  return isEnd(json, at) ? values : undefined;
}

/** The elements of a list of strings, with quotes; `undefined` if there are not `count`, or one is not a string. */
function textsIn(list: Buffer, count: number): Buffer[] | undefined {
  const first = skipBlanks(list, 1);
  if (list[first] !== quote) return undefined;
  for (const separator of [', "', ',"']) {
    const starts = [first];
    for (let at = list.indexOf(separator); at !== -1; at = list.indexOf(separator, at + 1))
      if (list[at - 1] === quote && !isEscaped(list, at - 1)) starts.push(at + separator.length - 1);
    if (starts.length === count) {
      const ends = [...starts.slice(1).map((start) => start - separator.length + 1), list.length - 1];
      return starts.map((start, index) => list.subarray(start, ends[index]));
    }
  }
  return undefined;
}

function valueOfKey(json: Buffer, from: number): number | undefined {
  if (json[from] !== quote) return undefined;
  let at = from + 1;
  while (isWord(json[at])) at++;
  if (json[at] !== quote) return undefined;
  at = skipBlanks(json, at + 1);
  return json[at] === colon ? skipBlanks(json, at + 1) : undefined;
}

/** Quotes are escaped, so no string in the list can look like its end and the next key. */
function afterList(json: Buffer, from: number, end: string): number | undefined {
  for (let at = json.indexOf(end, from); at !== -1; at = json.indexOf(end, at + 1))
    if (valueOfKey(json, skipBlanks(json, at + 2)) !== undefined) return at + 1;
  const last = json.lastIndexOf(closesList) + 1;
  return last > from && isEnd(json, skipBlanks(json, last)) ? last : undefined;
}

function afterPlain(json: Buffer, from: number): number | undefined {
  let at = from;
  if (json[at] === quote) {
    do at = json.indexOf(quote, at + 1);
    while (at !== -1 && isEscaped(json, at));
    return at === -1 ? undefined : at + 1;
  }
  while (isWord(json[at])) at++;
  return at === from ? undefined : at;
}

function isEscaped(json: Buffer, at: number): boolean {
  let before = at - 1;
  while (json[before] === backslash) before--;
  return (at - before) % 2 === 0;
}

function isEnd(json: Buffer, at: number): boolean {
  return json[at] === closesObject && skipBlanks(json, at + 1) === json.length;
}

function isWord(byte = 0): boolean {
  const letter = byte | 32;
  return (letter >= 97 && letter <= 122) || (byte >= 48 && byte <= 57) || byte === 95;
}

function skipBlanks(json: Buffer, from: number): number {
  let at = from;
  while (json[at] === 32 || json[at] === 10 || json[at] === 13 || json[at] === 9) at++;
  return at;
}
