import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { foreignFile } from '../../ground/files.ts';
import type { SourceTarget } from './rewrite-text.ts';
import type { Found } from './wrapper-place.ts';

/** A file beside the configuration: `svc manifest` writes it, a start reads it. */
export const listName = 'svc.manifest.json';

interface ListedTarget extends SourceTarget, Pick<Found, 'place' | 'parameterNames' | 'defaulted'> {
  /** Found by a source map: not in the file that the target names. */
  readonly isBuilt: boolean;
}

interface ListedFile {
  readonly hash: string;
  readonly targets: readonly ListedTarget[];
}

/** The list as a start reads it, with absolute paths. Plain data: it is sent to the loader thread. */
interface Listed {
  /** Files and folders that were searched: their unlisted files have no targets. */
  readonly searched: readonly string[];
  readonly files: ReadonlyMap<string, ListedFile>;
}

const nothingListed: Listed = { searched: [], files: new Map() };

export interface PlaceList {
  readonly version: 1;
  readonly searched: readonly string[];
  readonly files: Readonly<Record<string, ListedFile>>;
}

/**
 * A 64-bit hash, without the byte order mark, which Node strips before it compiles. It tells one build from another and
 * is not a protection; the start must not wait for `node:crypto` to load.
 */
export function hashOf(text: string): string {
  let [one, other] = [0x811c9dc5, 0x9747b28c];
  for (let at = text.charCodeAt(0) === 0xfeff ? 1 : 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    one = Math.imul(one ^ code, 0x01000193);
    other = Math.imul((other << 13) | (other >>> 19), 0x85ebca6b) ^ code;
  }
  return [one, other].map((half) => (half >>> 0).toString(16).padStart(8, '0')).join('');
}

/**
 * The list beside the configuration; empty without one. `onProblem`: the list is unreadable or not trusted. Its entries
 * are inserted into code, so it must belong to this user or the superuser, and hold only names.
 */
export function readList(baseDir: string, onProblem: (reason: string) => void): Listed {
  const path = join(baseDir, listName);
  if (!existsSync(path)) return nothingListed;
  try {
    const foreign = foreignFile(path, true);
    if (foreign !== undefined)
      throw new Error(
        `it ${foreign.message}: run svc manifest as the user of the application or as the superuser`,
      );
    const { version, searched, files } = JSON.parse(readFileSync(path, 'utf8')) as PlaceList;
    if (version !== 1) throw new Error('another version of svc made it');
    const absolute = Object.entries(files).map(([file, each]) => [resolve(baseDir, file), each] as const);
    const isWell = Object.values(files).every(({ targets }) => targets.every(({ place }) => isPlace(place)));
    if (!isWell) throw new Error('svc manifest did not write it: run svc manifest again');
    const gone = absolute.find(([file]) => !existsSync(file));
    if (gone !== undefined) throw new Error(`${gone[0]} no longer exists: run svc manifest after each build`);
    return { searched: searched.map((each) => resolve(baseDir, each)), files: new Map(absolute) };
  } catch (error) {
    onProblem(error instanceof SyntaxError ? 'no JSON' : (error as Error).message);
    return nothingListed;
  }
}

const identifier = /^[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u;

/** Names and offsets are inserted as they are; everything else becomes a string literal. */
function isPlace(place: ListedTarget['place']): boolean {
  const isAt = (at: unknown): boolean => Number.isInteger(at) && (at as number) >= 0;
  switch (place.form) {
    case 'binding':
      return isAt(place.at) && typeof place.name === 'string' && identifier.test(place.name);
    case 'nameless':
      return isAt(place.at) && isAt(place.nameAt);
    case 'method':
      return isAt(place.at) && typeof place.key === 'string';
    case 'value':
      return isAt(place.start) && isAt(place.end) && Array.isArray(place.path);
    default:
      return false;
  }
}

const comment = 'sourceMappingURL=';

/** The URL in the last source map comment of a text, if any. Does not search the whole text. */
export function mapUrl(text: string): string | undefined {
  const at = text.lastIndexOf(comment);
  if (at === -1 || !/\/[/*][#@][ \t]$/.test(text.slice(Math.max(0, at - 4), at))) return undefined;
  const [url = ''] = /^[^\s*]*/.exec(text.slice(at + comment.length)) ?? [];
  return url === '' ? undefined : url;
}
