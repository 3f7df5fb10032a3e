import { type Dirent, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Beyond these the search ends: it is help for a person, and has to be quick. */
const mostFiles = 5_000;
const largestFileBytes = 1_048_576;

/** Not the application's sources: what others wrote, and what tools made of them. */
const otherFolders = new Set(['node_modules', 'dist', 'build', 'out', 'coverage']);
const sourceFile = /(?<!\.d)\.[cm]?[jt]sx?$/;

/** The files below a folder that people write programs in, those above first. */
export function sourcesIn(folder: string): string[] {
  const found: string[] = [];
  const folders = [folder];
  for (let next = folders.shift(); next !== undefined && found.length < mostFiles; next = folders.shift()) {
    for (const entry of entriesOf(next)) {
      if (entry.isDirectory() && !entry.name.startsWith('.') && !otherFolders.has(entry.name))
        folders.push(join(next, entry.name));
      else if (entry.isFile() && sourceFile.test(entry.name) && found.length < mostFiles)
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

/** The text of one; `undefined` where it is too long to have been written by people. Throws what reading throws. */
export function sourceOf(path: string): string | undefined {
  return statSync(path).size > largestFileBytes ? undefined : readFileSync(path, 'utf8');
}
