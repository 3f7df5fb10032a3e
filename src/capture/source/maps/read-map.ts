// maps/: a target's function in what a compiler or bundler made of its file, by the source map.

import { readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Problem } from '../wrapper-place.ts';

/** Of a bundle of thousands of files. A start that reads more would be noticed. */
const largestBytes = 32_000_000;

/** As the JSON of a map says it; nothing of it is checked yet. */
export interface RawMap {
  readonly sources: readonly (string | null)[];
  readonly sourceRoot?: string | undefined;
  readonly sourcesContent?: readonly (string | null)[] | undefined;
  readonly names?: readonly string[] | undefined;
  readonly mappings: string;
}

/** A map, or a part of one: where it begins in the text, lines and columns from 0. */
export interface MapPart {
  readonly line: number;
  readonly column: number;
  readonly map: RawMap;
}

export interface ReadMap {
  /** The folder that the map's sources start from. */
  readonly folder: string;
  readonly parts: readonly MapPart[];
}

const comment = 'sourceMappingURL=';

/** What the last comment of a text names as its map; `undefined` where it names none. Not a search through all of the text. */
export function mapUrl(text: string): string | undefined {
  const at = text.lastIndexOf(comment);
  if (at === -1 || !/\/[/*][#@][ \t]$/.test(text.slice(Math.max(0, at - 4), at))) return undefined;
  const [url = ''] = /^[^\s*]*/.exec(text.slice(at + comment.length)) ?? [];
  return url === '' ? undefined : url;
}

/**
 * The source map of a file's text; `undefined` where it has none, or none that names one of `names`: then it is not parsed.
 *
 * @param names the files that are looked for, without their folders
 */
export function readMap(file: string, text: string, names: readonly string[]): ReadMap | Problem | undefined {
  const url = mapUrl(text);
  const inline = url?.startsWith('data:') === true ? inlineText(url) : undefined;
  const path = url === undefined ? `${file}.map` : pathOf(url, file);
  let json: string | Buffer;
  try {
    if (inline !== undefined) json = inline;
    else {
      if (path === undefined) return undefined;
      const { size } = statSync(path);
      if (size > largestBytes)
        return {
          problem: `it has ${Math.round(size / 1_000_000)} MB, and the limit is ${Math.round(largestBytes / 1_000_000)}`,
        };
      json = readFileSync(path);
      // Without a comment in the text, the file beside it may be anybody's.
      if (url === undefined && readFileSync(file, 'utf8') !== text) return undefined;
    }
  } catch {
    // A map that is not shipped is no fault: few are.
    return undefined;
  }
  if (!names.some((name) => json.includes(JSON.stringify(name).slice(1, -1)))) return undefined;
  try {
    return { folder: dirname(path ?? file), parts: partsOf(JSON.parse(json.toString())) };
  } catch (error) {
    return {
      problem: `it is damaged: ${error instanceof SyntaxError ? 'no JSON' : error instanceof TypeError ? 'its sections have no offset' : (error as Error).message}`,
    };
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

/** Only files of this machine: a map that stands elsewhere is for tools. */
function pathOf(url: string, file: string): string | undefined {
  try {
    const full = new URL(url, pathToFileURL(file));
    return full.protocol === 'file:' ? fileURLToPath(full) : undefined;
  } catch {
    return undefined;
  }
}

function partsOf(json: unknown): MapPart[] {
  const { sections } = json as { sections?: { offset: { line: number; column: number }; map: unknown }[] };
  if (sections === undefined) return [{ line: 0, column: 0, map: checked(json) }];
  if (!Array.isArray(sections)) throw new Error('its sections are no list');
  return sections.map(({ offset, map }) => ({ line: offset.line, column: offset.column, map: checked(map) }));
}

function checked(json: unknown): RawMap {
  const map = json as Partial<RawMap> | null;
  const isText = (each: unknown) => each === null || typeof each === 'string';
  if (typeof map?.mappings !== 'string' || !Array.isArray(map.sources) || !map.sources.every(isText))
    throw new Error('no sources, or no mappings');
  const texts = map.sourcesContent ?? [];
  if (!Array.isArray(texts) || !texts.every(isText)) throw new Error('its texts are no texts');
  return map as RawMap;
}
