import { lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { isAlive, ownStamp, type ProcessStamp } from '../claims/process-stamp.ts';
import { SvcError } from '../errors.ts';

/** A process with a management server, as other programs of the same user find it. No token and no value of an event stands here. */
export interface ProcessEntry {
  readonly pid: number;
  /** Tells the process from a later one of the same id; `undefined`: an older svc wrote it. */
  readonly stamp?: ProcessStamp | undefined;
  /** Of the management server. */
  readonly port: number;
  readonly address: string;
  /** Whether the server speaks TLS. */
  readonly tls: boolean;
  /** Of the service; `null`: not known. */
  readonly name: string | null;
  /** Of svc. */
  readonly version: string | null;
  /** It was started there; `undefined`: an older svc wrote it. */
  readonly cwd?: string | undefined;
}

/** A path that others may be able to write to tells nothing: each user has a folder, and whose it is is looked at each time. */
export function processFolder(): string {
  return join(tmpdir(), `svc-${userId()}`);
}

/**
 * Writes the entry of this process where `svc status` looks for it; returns what removes it.
 *
 * @throws SvcError SVC_GROUND_PROCESS_FILE where the folder is not this user's own, or cannot be written
 */
export function writeProcessFile(entry: ProcessEntry, folder = processFolder()): () => void {
  const path = join(folder, `${entry.pid}.json`);
  const early = `${path}.tmp`;
  try {
    makeFolder(folder);
    checkFolder(folder);
    removeStale(folder);
    rmSync(early, { force: true });
    // Exclusive, which follows no link; the rename replaces one.
    writeFileSync(early, JSON.stringify(entry), { mode: 0o600, flag: 'wx' });
    renameSync(early, path);
  } catch (error) {
    throw error instanceof SvcError ? error : refusal(folder, (error as NodeJS.ErrnoException).code ?? '');
  }
  return () => {
    try {
      // A later process of the same id, as containers share a folder, has written its own.
      if (readEntry(path)?.port === entry.port) rmSync(path, { force: true });
    } catch {
      // It is found stale by whoever looks next.
    }
  };
}

/**
 * Processes of this user with a management server, by their ids. Files of processes that are gone are removed.
 *
 * @throws SvcError SVC_GROUND_PROCESS_FILE where the folder is not this user's own
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

/** Not recursive: where the folder for temporary files is not there, something else is wrong. */
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
    // There, and somebody else's.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** What is no entry, or not this user's file, is passed over. */
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
  if (!found.isDirectory()) throw refusal(folder, 'it is no folder');
  const uid = process.getuid?.();
  // Windows has neither.
  if (uid === undefined) return;
  if (found.uid !== uid) throw refusal(folder, 'it belongs to another user');
  if ((found.mode & 0o077) !== 0) throw refusal(folder, 'others can use it; its mode must be 700');
}

function refusal(folder: string, why: string): SvcError {
  return new SvcError('SVC_GROUND_PROCESS_FILE', `"${folder}" cannot be used: ${why}`);
}

/** A user id without an entry in /etc/passwd, as containers have, has no name: `userInfo()` throws there. */
function userId(): string {
  return String(process.getuid?.() ?? userInfo().username);
}
