import { type Dirent, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** The search ends after this many: it only helps a person, and must be quick. */
const maxFiles = 5_000;
const largestFileBytes = 1_048_576;

const otherFolders = new Set(['node_modules', 'dist', 'build', 'out', 'coverage']);
const sourceFile = /(?<!\.d)\.[cm]?[jt]sx?$/;

export function sourcesIn(folder: string): string[] {
  const found: string[] = [];
  const folders = [folder];
  for (let next = folders.shift(); next !== undefined && found.length < maxFiles; next = folders.shift()) {
    for (const entry of entriesOf(next)) {
      if (entry.isDirectory() && !entry.name.startsWith('.') && !otherFolders.has(entry.name))
        folders.push(join(next, entry.name));
      else if (entry.isFile() && sourceFile.test(entry.name) && found.length < maxFiles)
        found.push(join(next, entry.name));
    }
  }
  return found;
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch {
    return [];
  }
}

/** The text of a file; `undefined` if it is too long for a hand-written one. Throws the error of reading. */
export function sourceOf(path: string): string | undefined {
  return statSync(path).size > largestFileBytes ? undefined : readFileSync(path, 'utf8');
}
