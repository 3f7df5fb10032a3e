import { realpathSync } from 'node:fs';
import { basename, isAbsolute, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ReadMap } from './read-map.ts';
import { segmentsWasm } from './segments-wasm.ts';
import type { MapPart } from './source-map.ts';

/** One mapping: an offset of the text, and where that is in the source; lines and columns from 0. */
export interface Mapping {
  readonly at: number;
  readonly line: number;
  readonly column: number;
  /** Which of the map's names stands there in the source; -1 where it does not say. */
  readonly name: number;
}

/** A source file, as a map has it. */
export interface MappedSource {
  /** Its text; `undefined` where the map does not hold it. */
  content(): string | undefined;
  /** In the order of the text. `undefined`: the map does not fit the text. */
  mappings(): Mapping[] | undefined;
  /** Wanted where nobody has its text: a bundle has tens of thousands. */
  names(): readonly string[];
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

/** What is used of it: the types of Node leave it to those of the browser. */
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

/** 64 is a comma, 65 a semicolon. */
const characters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/,;';
let compiled: object | undefined;

/**
 * Five numbers for each segment of one source (see scripts/segments.wat); `undefined` where this is no text of mappings. To keep the others, of a
 * bundle a million, is what makes decoding dear.
 *
 * @throws an error that says what to do where there is no WebAssembly
 */
function segmentsOf(mappings: Buffer, source: number): Int32Array | undefined {
  const { WebAssembly: wasm } = globalThis as { WebAssembly?: Wasm };
  if (wasm === undefined)
    throw new Error('it needs WebAssembly, which --jitless takes away: use svc manifest');
  compiled ??= new wasm.Module(Buffer.from(segmentsWasm, 'base64'));
  // One for each text: its memory goes with it.
  const { memory, segmentsOf } = new wasm.Instance(compiled).exports;
  const [from, end] = [288, 288 + mappings.length];
  const found = (end + 4) & ~3;
  // 20 bytes for a segment, whose text has at least five with its comma.
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
