// files/: folders that svc makes, files that it reads within bounds, and package.json as it reads it.

import {
  closeSync,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  type Stats,
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

/** What a file may have that somebody names and svc reads as a whole: keys, tokens, certificates, schemas. */
export const mostFileBytes = 1024 ** 2;

/** The bytes of a file that others may write; throws `EFBIG` before it reads more than `most`, of a device without end too. */
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

const [ofOthers, superuser] = [0o002, 0];

/**
 * Why a file that the configuration names may be changed by others than the user of this process, the superuser and whoever owns `beside`;
 * `undefined`: not so, or not known. Folders are not asked: those of mounted secrets are often open, and their files are not.
 */
export function changeableByOthers(path: string, beside?: Stats): string | undefined {
  const user = process.geteuid?.();
  if (user === undefined) return undefined;
  try {
    const file = statSync(path);
    if (![user, superuser].includes(file.uid) && file.uid !== beside?.uid)
      return `another user owns it (uid ${file.uid}; svc runs as uid ${user})`;
    const isAsOpen = beside !== undefined && (beside.mode & ofOthers) !== 0;
    return (file.mode & ofOthers) === 0 || isAsOpen
      ? undefined
      : `others may write it (mode ${(file.mode & 0o7777).toString(8)})`;
  } catch {
    // What is not there is said where it is read.
    return undefined;
  }
}

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
