// maps/: a target's function in what a compiler or bundler made of its file, by the source map.

import { readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { changeableByOthers } from '../../../ground/files/foreign-file.ts';
import type { Problem } from '../wrapper-place.ts';
import { mapUrl } from './map-url.ts';
import { type MapPart, partsOf } from './source-map.ts';

/** Of a bundle of thousands of files. A start that reads more would be noticed. */
const largestBytes = 32_000_000;

export interface ReadMap {
  /** The folder that the map's sources start from. */
  readonly folder: string;
  readonly parts: readonly MapPart[];
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
      if (open !== undefined) return { problem: `${open}, and the map decides where svc inserts its calls` };
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

/** Only files of this machine: a map that stands elsewhere is for tools. */
function pathOf(url: string, file: string): string | undefined {
  try {
    const full = new URL(url, pathToFileURL(file));
    return full.protocol === 'file:' ? fileURLToPath(full) : undefined;
  } catch {
    return undefined;
  }
}
