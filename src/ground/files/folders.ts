// files/: folders that svc makes, files that it reads within bounds, and package.json as it reads it.

import {
  closeSync,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  statSync,
} from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { inEachForm, isSameName } from '../nearest-names.ts';

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

/** The size limit of keys, tokens, certificates and schemas, which svc reads as a whole. */
export const mostFileBytes = 1024 ** 2;

/** The bytes of a file. Throws `EFBIG` once it has read more than `most`, so that a device without end ends too. */
export function readBoundedSync(path: string, most = mostFileBytes): Buffer {
  const file = openSync(path, 'r');
  try {
    const chunks: Buffer[] = [];
    for (let total = 0; ; ) {
      const chunk = Buffer.allocUnsafe(64 * 1024);
      const bytes = readSync(file, chunk);
      total += bytes;
      if (total > most) throw tooLarge(most);
      if (bytes === 0) return Buffer.concat(chunks);
      chunks.push(chunk.subarray(0, bytes));
    }
  } finally {
    closeSync(file);
  }
}

/** As {@link readBoundedSync}, beside the application's thread. */
export async function readBounded(path: string, most = mostFileBytes): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let total = 0;
  // `end` is the last byte that is read.
  for await (const chunk of createReadStream(path, { end: most })) {
    chunks.push(chunk as Buffer);
    total += (chunk as Buffer).length;
    if (total > most) throw tooLarge(most);
  }
  return Buffer.concat(chunks);
}

const tooLarge = (most: number): Error =>
  Object.assign(new Error(`it has more than ${most} bytes`), { code: 'EFBIG' });

/**
 * The path as the folders have it: a name in either normal form of Unicode (NFC, NFD) is the same name. Of the last one the extension may be missing,
 * or another. The path itself where nothing has such a name.
 */
export function asNamed(path: string): string {
  if (inEachForm(path).length === 1 || existsSync(path)) return path;
  const above = dirname(path);
  if (above === path) return path;
  const folder = asNamed(above);
  const name = basename(path);
  try {
    const names = readdirSync(folder);
    const same = names.find((each) => isSameName(each, name));
    if (same !== undefined) return join(folder, same);
    const stems = [name, name.slice(0, name.length - extname(name).length)];
    for (const stem of stems)
      for (const each of names) {
        const known = basename(each, extname(each));
        if (isSameName(known, stem)) return join(folder, known + name.slice(stem.length));
      }
  } catch {
    // There is no such folder.
  }
  return join(folder, name);
}
