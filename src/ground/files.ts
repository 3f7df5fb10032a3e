import {
  closeSync,
  createReadStream,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir, userInfo } from 'node:os';
import { basename, dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isAlive, ownStamp, type ProcessStamp } from './claims.ts';
import { SvcError } from './errors.ts';

// folders that svc creates, bounded file reads, and package.json as svc reads it.

/**
 * Creates a folder and its parents, for this user alone. Returns `false` if it exists. Node's `recursive: true` never returns
 * if a file system reports ENOENT below an existing folder, as /proc does. Throws the errors of `mkdirSync`.
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

/** False for a pipe: reading it might never end. */
export function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
  } catch {
    return false;
  }
}

/** The size limit of keys, tokens, certificates and schemas, which are read as a whole. */
const maxFileBytes = 1024 ** 2;

/** The bytes of a file. Throws `EFBIG` after reading more than `most`, which also ends endless devices. */
export function readBoundedSync(path: string, max = maxFileBytes): Buffer {
  const file = openSync(path, 'r');
  try {
    const chunks: Buffer[] = [];
    for (let total = 0; ; ) {
      const chunk = Buffer.allocUnsafe(64 * 1024);
      const bytes = readSync(file, chunk);
      total += bytes;
      if (total > max) throw tooLarge(max);
      if (bytes === 0) return Buffer.concat(chunks);
      chunks.push(chunk.subarray(0, bytes));
    }
  } finally {
    closeSync(file);
  }
}

/** Like {@link readBoundedSync}, but asynchronous. */
export async function readBounded(path: string, max = maxFileBytes): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let total = 0;
  // `end` is inclusive.
  for await (const chunk of createReadStream(path, { end: max })) {
    chunks.push(chunk as Buffer);
    total += (chunk as Buffer).length;
    if (total > max) throw tooLarge(max);
  }
  return Buffer.concat(chunks);
}

const tooLarge = (max: number): Error =>
  Object.assign(new Error(`it has more than ${max} bytes`), { code: 'EFBIG' });

/** The part of package.json that svc reads. A field of the wrong type counts as missing. */
export interface Manifest {
  readonly folder: string;
  readonly fieldNames: readonly string[];
  readonly name: string | undefined;
  readonly version: string | undefined;
  readonly type: string | undefined;
  readonly main: string | undefined;
  readonly exports: unknown;
  readonly scripts: ReadonlyMap<string, string>;
  readonly imports: unknown;
  /** The names of `dependencies` and `optionalDependencies`. */
  readonly dependencies: readonly string[];
  readonly peerDependencies: readonly string[];
  readonly devDependencies: readonly string[];
}

/** The nearest package.json, from a folder upwards, that `wanted` accepts. */
export function nearestManifest(
  start: string,
  isWanted: (manifest: Manifest) => boolean = () => true,
): Manifest | undefined {
  for (let folder = start; ; folder = dirname(folder)) {
    const found = readManifest(folder);
    if (found !== undefined && isWanted(found)) return found;
    if (dirname(folder) === folder) return undefined;
  }
}

/** The package.json of the package that a folder resolves this name to, links included. */
export function installedManifest(name: string, from: string): Manifest | undefined {
  for (let at = from; ; at = dirname(at)) {
    const found = readManifest(join(at, 'node_modules', name));
    if (found !== undefined || dirname(at) === at) return found;
  }
}

/** `undefined` if it is missing or invalid JSON: Node reports that itself when it needs the file. */
export function readManifest(folder: string): Manifest | undefined {
  if (!hasManifest(folder)) return undefined;
  try {
    const raw = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>;
    const text = (key: string) => (typeof raw[key] === 'string' ? raw[key] : undefined);
    return {
      folder,
      fieldNames: Object.keys(raw),
      name: text('name'),
      version: text('version'),
      type: text('type'),
      main: text('main'),
      exports: raw.exports,
      scripts: textsOf(raw.scripts),
      imports: raw.imports,
      dependencies: [...namesOf(raw.dependencies), ...namesOf(raw.optionalDependencies)],
      peerDependencies: namesOf(raw.peerDependencies),
      devDependencies: namesOf(raw.devDependencies),
    };
  } catch {
    return undefined;
  }
}

function namesOf(value: unknown): string[] {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
}

function textsOf(value: unknown): Map<string, string> {
  if (typeof value !== 'object' || value === null) return new Map();
  return new Map(Object.entries(value).filter(([, text]) => typeof text === 'string'));
}

/** Whether package.json exists, readable or not. */
export function hasManifest(folder: string): boolean {
  return isFile(join(folder, 'package.json'));
}

const load = createRequire(import.meta.url);

const copies = new Map<string, unknown>();

/**
 * A package of the application, loaded aside: an instrumentation that starts after svc patches a driver only when the application
 * itself loads it. The application's own copy, if it was first. Cached.
 */
export function loadOwnCopy(name: string): unknown {
  if (!copies.has(name)) copies.set(name, loadAside(name));
  return copies.get(name);
}

function loadAside(name: string): unknown {
  const before = new Set(Object.keys(load.cache));
  // An ES module of the application that is loading but has not run: Node 24.0 would report a cycle, permanently.
  const begun = Object.entries(load.cache).filter(
    ([file, module]) => module?.loaded === false && !isOurs(file),
  );
  for (const [file] of begun) delete load.cache[file];
  try {
    return load(name);
  } finally {
    for (const file of Object.keys(load.cache)) if (!before.has(file)) delete load.cache[file];
    for (const [file, module] of begun) load.cache[file] = module;
  }
}

const ourFolder = dirname(fileURLToPath(import.meta.url)) + sep;
const isOurs = (file: string): boolean => file.startsWith(ourFolder);

/** The file of a process with a management server, for other programs of the same user. Holds no token and no event value. */
export interface ProcessEntry {
  readonly pid: number;
  /** Tells the process from a later one with the same id; `undefined`: written by an older svc. */
  readonly stamp?: ProcessStamp | undefined;
  /** Of the management server. */
  readonly port: number;
  readonly address: string;
  readonly tls: boolean;
  /** Name of the service; `null`: unknown. */
  readonly name: string | null;
  /** Version of svc. */
  readonly version: string | null;
  /** Its working directory; `undefined`: written by an older svc. */
  readonly cwd?: string | undefined;
}

/** One folder per user, whose owner is checked at each use: a path that other users can write to is not trustworthy. */
function processFolder(): string {
  return join(tmpdir(), `svc-${userId()}`);
}

/**
 * Writes the entry of this process for `svc status`; returns a function that removes it.
 * @throws SvcError SVC_GROUND_PROCESS_FILE if the folder belongs to another user or is not writable
 */
export function writeProcessFile(entry: ProcessEntry, folder = processFolder()): () => void {
  const path = join(folder, `${entry.pid}.json`);
  const early = `${path}.tmp`;
  try {
    makeFolder(folder);
    checkFolder(folder);
    removeStale(folder);
    rmSync(early, { force: true });
    // Exclusive, which follows no link; the rename replaces the old file.
    writeFileSync(early, JSON.stringify(entry), { mode: 0o600, flag: 'wx' });
    renameSync(early, path);
  } catch (error) {
    throw error instanceof SvcError ? error : refusal(folder, (error as NodeJS.ErrnoException).code ?? '');
  }
  return () => {
    try {
      // A later process with the same id, as in containers with a shared folder, has replaced it.
      if (readEntry(path)?.port === entry.port) rmSync(path, { force: true });
    } catch {
      // The next reader finds it stale.
    }
  };
}

/**
 * The entries of this user's processes with a management server. Removes files of ended processes.
 * @throws SvcError SVC_GROUND_PROCESS_FILE if the folder belongs to another user
 */
export function readProcessFiles(folder = processFolder()): ProcessEntry[] {
  if (lstatSync(folder, { throwIfNoEntry: false }) === undefined) return [];
  checkFolder(folder);
  removeStale(folder);
  const entries = pidsIn(folder).map((pid) => readEntry(join(folder, `${pid}.json`)));
  const own = ownStamp();
  return entries
    .filter((entry) => entry !== undefined)
    .filter(({ stamp }) => stamp === undefined || isAlive(stamp, own))
    .sort((one, other) => one.pid - other.pid);
}

/** Not recursive: without a folder for temporary files something else is wrong. */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function removeStale(folder: string): void {
  for (const pid of pidsIn(folder)) if (!isRunning(pid)) rmSync(join(folder, `${pid}.json`), { force: true });
}

function pidsIn(folder: string): number[] {
  return readdirSync(folder).flatMap((name) => {
    const pid = /^([1-9]\d{0,9})\.json$/.exec(name)?.[1];
    return pid === undefined ? [] : [Number(pid)];
  });
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // It exists, and belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Skips invalid entries and files of other users. */
function readEntry(path: string): ProcessEntry | undefined {
  try {
    if (!lstatSync(path).isFile()) return undefined;
    const { pid, stamp, port, address, tls, name, version, cwd } = JSON.parse(readFileSync(path, 'utf8'));
    const isWhole = Number.isInteger(pid) && Number.isInteger(port) && typeof address === 'string';
    return isWhole
      ? {
          ...{ pid, port, address, tls: tls === true, name: name ?? null, version: version ?? null },
          ...(isStamp(stamp) && { stamp }),
          ...(typeof cwd === 'string' && { cwd }),
        }
      : undefined;
  } catch {
    return undefined;
  }
}

function isStamp(value: unknown): value is ProcessStamp {
  const { space, pid, task, began } = (value ?? {}) as Record<string, unknown>;
  return typeof space === 'string' && [pid, task, began].every((each) => Number.isInteger(each));
}

function checkFolder(folder: string): void {
  const found = lstatSync(folder);
  if (!found.isDirectory()) throw refusal(folder, 'it is not a folder');
  const uid = process.getuid?.();
  // Windows has neither.
  if (uid === undefined) return;
  if (found.uid !== uid) throw refusal(folder, 'it belongs to another user');
  if ((found.mode & 0o077) !== 0) throw refusal(folder, 'others can use it; its mode must be 700');
}

function refusal(folder: string, why: string): SvcError {
  return new SvcError('SVC_GROUND_PROCESS_FILE', `"${folder}" cannot be used: ${why}`);
}

/** `userInfo()` throws for a user id without an entry in /etc/passwd, as in containers. */
function userId(): string {
  return String(process.getuid?.() ?? userInfo().username);
}

const [ofGroup, ofOthers, sticky] = [0o020, 0o002, 0o1000];
const superuser = 0;

/** Why a file is not used, and the remedy. */
interface Mistake {
  readonly message: string;
  readonly fix: string;
}

/**
 * Why a discovered (not named) configuration may be the work of another user. Code runs with all rights and secrets of the
 * application, and any configuration decides where events go. `undefined` if it may be used, and on systems without file
 * owners.
 */
export function foreignFile(path: string, isCode: boolean): Mistake | undefined {
  const user = process.geteuid?.();
  if (user === undefined) return undefined;
  try {
    const folder = realpathSync(dirname(path));
    // A link and its target: the owner of either decides what is read.
    const places = new Set([join(folder, basename(path)), realpathSync(path)]);
    for (const place of places) {
      const mistake = isCode ? changeableCode(place, user) : foreignData(place, user);
      if (mistake !== undefined) return mistake;
    }
  } catch {
    // A missing or unreadable file is reported when it is read.
  }
  return undefined;
}

/**
 * Why users other than the process's, root and the owner of `beside` may change a file. `undefined` if they may not, or if it
 * is unknown. Rights of folders and groups do not count: Kubernetes gives both to mounted secrets.
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
    // A missing file is reported by its reader.
    return undefined;
  }
}

/** Whether users other than the process's, root and the owner of `cwd` can put files into a folder. */
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

/** Checks the file and each parent folder: another user could replace any of them. */
function changeableCode(path: string, user: number): Mistake | undefined {
  const file = lstatSync(path);
  if (isForeign(file, user)) {
    const message = `is code that another user owns (uid ${file.uid}; svc runs as uid ${user}), and is not run`;
    return { message, fix: `Give it to uid ${user} or the superuser, ${orName}` };
  }
  if (!file.isSymbolicLink() && isOpen(file)) {
    const message = `is code that others may write (mode ${modeOf(file)}), and is not run`;
    return { message, fix: `Remove that permission (chmod go-w), ${orName}` };
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
      return { message, fix: `Remove that permission (chmod go-w), ${orName}` };
    }
    if (dirname(folder) === folder) return undefined;
  }
}

function foreignData(path: string, user: number): Mistake | undefined {
  const [file, folder] = [lstatSync(path), statSync(dirname(path))];
  if (!isForeign(file, user) || (folder.mode & ofOthers) === 0) return undefined;
  const message = `belongs to another user (uid ${file.uid}) in a folder that every user may write, and is not read`;
  return { message, fix: `Start svc in its own folder, ${orName}` };
}

function isForeign({ uid }: Stats, user: number): boolean {
  return uid !== user && uid !== superuser;
}

/** A group with the id of its user is private to that user on most systems. */
function isOpen({ mode, uid, gid }: Stats): boolean {
  return (mode & ofOthers) !== 0 || ((mode & ofGroup) !== 0 && gid !== uid);
}

function modeOf({ mode }: Stats): string {
  return (mode & 0o7777).toString(8);
}

const orName = 'or name the file in SVC_CONFIG (--config for commands) if you trust all who can change it';
