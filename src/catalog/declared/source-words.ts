import { relative } from 'node:path';
import { sourceOf, sourcesIn } from '../../capture/source/find/source-files.ts';

const tests =
  /(?:^|\/)(?:tests?|__tests__|__mocks__|specs?|e2e|fixtures|seeds?)\/|\.(?:test|spec|e2e|mock)\./;
/** What it publishes is not what the application does. */
export const isTest = (path: string): boolean => tests.test(path.replaceAll('\\', '/'));

const word = /[A-Za-z_$][\w$]*/g;

/** The words of an application's sources, tests left out: what its fields are named, and hardly ever what its data are. */
export function sourceWords(folder: string, isLeftOut: (path: string) => boolean): ReadonlySet<string> {
  const words = new Set<string>();
  for (const path of sourcesIn(folder)) {
    if (isLeftOut(path) || isTest(relative(folder, path))) continue;
    try {
      for (const [found] of sourceOf(path)?.matchAll(word) ?? []) words.add(found);
    } catch {
      // It may be gone meanwhile, or not be readable.
    }
  }
  return words;
}
