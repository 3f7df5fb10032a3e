import { lstatSync, realpathSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

const [ofGroup, ofOthers, sticky] = [0o020, 0o002, 0o1000];
const superuser = 0;

/** Why a file is not used, and what to do. */
interface Mistake {
  readonly message: string;
  readonly fix: string;
}

/**
 * Why a configuration that was found, and not named, may be the work of another user: code is run with all rights and secrets
 * of the application, and what is no code still says where its events go. `undefined` where it may be used, and on systems
 * without owners.
 */
export function foreignFile(path: string, isCode: boolean): Mistake | undefined {
  const user = process.geteuid?.();
  if (user === undefined) return undefined;
  try {
    const folder = realpathSync(dirname(path));
    // A link, and what it leads to: whoever made either chose what is read.
    const places = new Set([join(folder, basename(path)), realpathSync(path)]);
    for (const place of places) {
      const mistake = isCode ? changeableCode(place, user) : foreignData(place, user);
      if (mistake !== undefined) return mistake;
    }
  } catch {
    // What is not there, or may not be looked at, is said when it is read.
  }
  return undefined;
}

/**
 * Why others than the user of this process, the superuser and the owner of `beside` may change a file. `undefined` if they may not, or if that
 * is not known. Rights of folders and groups don't count: Kubernetes gives both to mounted secrets.
 */
export function changeableByOthers(path: string, beside?: Stats): string | undefined {
  const user = process.geteuid?.();
  if (user === undefined) return undefined;
  try {
    const file = statSync(path);
    if (isForeign(file, user) && file.uid !== beside?.uid)
      return `another user owns it (uid ${file.uid}; svc runs as uid ${user})`;
    const isAsOpen = beside !== undefined && (beside.mode & ofOthers) !== 0;
    return (file.mode & ofOthers) === 0 || isAsOpen
      ? undefined
      : `others may write it (mode ${modeOf(file)})`;
  } catch {
    // Whoever reads the file says that it is missing.
    return undefined;
  }
}

/** Whether others than the user of this process, the superuser and the owner of `cwd` can put files into a folder. */
export function isOpenToStrangers(folder: string, cwd: string): boolean {
  const user = process.geteuid?.();
  if (user === undefined) return false;
  try {
    const stats = statSync(folder);
    return (stats.mode & ofOthers) !== 0 || ![user, superuser, statSync(cwd).uid].includes(stats.uid);
  } catch {
    return false;
  }
}

/** The file and each folder that it lies in: with any of them, another user could put something else in its place. */
function changeableCode(path: string, user: number): Mistake | undefined {
  const file = lstatSync(path);
  if (isForeign(file, user)) {
    const message = `is code that another user owns (uid ${file.uid}; svc runs as uid ${user}), and is not run`;
    return { message, fix: `Give it to uid ${user} or the superuser, ${orName}` };
  }
  if (!file.isSymbolicLink() && isOpen(file)) {
    const message = `is code that others may write (mode ${modeOf(file)}), and is not run`;
    return { message, fix: `Take that right away (chmod go-w), ${orName}` };
  }
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const stats = statSync(folder);
    const lies = `is code in a folder that ${folder === dirname(path) ? '' : 'lies in one that '}`;
    if (isForeign(stats, user)) {
      const message = `${lies}another user owns (${folder}, uid ${stats.uid}), and is not run`;
      return { message, fix: `Give the folder to uid ${user} or the superuser, ${orName}` };
    }
    if ((stats.mode & sticky) === 0 && isOpen(stats)) {
      const message = `${lies}others may write (${folder}, mode ${modeOf(stats)}), and is not run`;
      return { message, fix: `Take that right away (chmod go-w), ${orName}` };
    }
    if (dirname(folder) === folder) return undefined;
  }
}

function foreignData(path: string, user: number): Mistake | undefined {
  const [file, folder] = [lstatSync(path), statSync(dirname(path))];
  if (!isForeign(file, user) || (folder.mode & ofOthers) === 0) return undefined;
  const message = `is of another user (uid ${file.uid}) in a folder that everybody may write, and is not read`;
  return { message, fix: `Start svc in a folder of its own, ${orName}` };
}

function isForeign({ uid }: Stats, user: number): boolean {
  return uid !== user && uid !== superuser;
}

/** A group that bears the number of its user is that user's own, as most systems make one for each. */
function isOpen({ mode, uid, gid }: Stats): boolean {
  return (mode & ofOthers) !== 0 || ((mode & ofGroup) !== 0 && gid !== uid);
}

function modeOf({ mode }: Stats): string {
  return (mode & 0o7777).toString(8);
}

const orName = 'or name the file in SVC_CONFIG (--config for commands) if you trust whoever can change it';
