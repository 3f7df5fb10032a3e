import { editDistance } from '../../ground/nearest-names.ts';
import { kebabCase } from '../schema/option.ts';

/**
 * A name that somebody wrote and that is none of the known ones, as a message may show it: words that are known, begin a known
 * one or are nearly one. Others become `?`: what stands in the place of a name may be a password with its colon forgotten.
 */
export function shownName(name: string, known: Iterable<string>): string {
  const words = new Set(['svc', ...known].flatMap((each) => each.split('.').flatMap(wordsOf)));
  return name
    .slice(0, mostCharacters)
    .split('.')
    .map((part) => (isShown(part, words) ? part : '?'))
    .join('.');
}

const mostCharacters = 200;

function isShown(part: string, words: ReadonlySet<string>): boolean {
  const own = wordsOf(part);
  return own.every((word) => {
    if (!/^[a-z0-9]+$/.test(word)) return false;
    return words.has(word) || [...words].some((known) => isNear(word, known));
  });
}

/** `requestTimeoutMs`, `request-timeout-ms` and `request_timeout_ms` have the same words, which a user may also write as one. */
function wordsOf(part: string): string[] {
  const words = kebabCase(part).split(/[-_]/);
  return [...words.filter((word) => word !== '')];
}

function isNear(word: string, known: string): boolean {
  if (word.length > 3 && known.startsWith(word)) return true;
  if (word.length < 4 || known.length < 4 || Math.abs(word.length - known.length) > 2) return false;
  return editDistance(word, known) <= (word.length < 6 ? 1 : 2);
}
