// files/: folders that svc makes, and package.json as it reads it.

import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder and those above it, all of them for this user alone. Returns whether it was made; `false` where it is there
 * already. `recursive: true` of Node never comes back where a file system says ENOENT below a folder that is there, as
 * /proc does. Throws what `mkdirSync` throws.
 */
export function makeFolders(path: string): boolean {
  const above = dirname(path);
  if (!existsSync(above) && above !== path) makeFolders(above);
  try {
    mkdirSync(path, { mode: 0o700 });
    return true;
  } catch (error) {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return false;
    throw error;
  }
}

/** A pipe is none: reading it might never end. */
export function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
  } catch {
    return false;
  }
}
