import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  lstatSync,
  readdirSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs';
import { access, lstat, open, readdir, stat, unlink, utimes } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { claimsIn } from '../../ground/claims.ts';
import { SvcError } from '../../ground/errors.ts';
import { makeFolders } from '../../ground/files.ts';
import type { StoredEvent } from '../../publish/recovery-source.ts';
import type { BackupEvent } from '../../publish/tier.ts';
import { codeOf, makeFolderSync, routesFolder, segmentNames } from './segment.ts';

/** `platform`, `execute` and `env` replace those of the process in tests. */
export interface DirectoryOptions {
  readonly platform?: NodeJS.Platform;
  readonly execute?: Execute;
  readonly env?: NodeJS.ProcessEnv;
  /** Whether to use the named folder only, and no folder within it. */
  readonly isExact?: boolean;
  /** Called with one line when permissions were corrected. */
  readonly onRestricted?: (line: string) => void;
}

/** The bits of the group and of all others. */
const rightsOfOthers = 0o077;
const [everybodyWrites, sticky] = [0o002, 0o1000];
const superuser = 0;

/**
 * Creates the folder if it is missing, and returns the real path of the folder for events. Only this user can read or write
 * that folder, and no other user can exchange it. It has mode 0700 and is not a symbolic link. It is the named folder, or
 * `svc-backup-<uid>` within it if the named one is a volume of root, or is shared.
 *
 * svc corrects the permissions of a folder that it made. Kubernetes widens them on every volume with `fsGroup`. Synchronous,
 * and done once: a handful of system calls.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY`
 */
export function openBackupDirectory(path: string, options: DirectoryOptions = {}): string {
  return openOrLook(path, options, false);
}

/** `isLook`: creates nothing, and returns the folder in which a missing one would be created. */
function openOrLook(path: string, options: DirectoryOptions, isLook: boolean): string {
  const { platform = process.platform } = options;
  make(path, platform);
  check(path);
  if (platform === 'win32') {
    restrictToOwner(path, options);
    return realpathSync(path);
  }
  const own = needsOwnFolder(path) ? ownFolderIn(path) : path;
  if (own !== path && options.isExact)
    throw refused(
      path,
      `other users have access to it, or it belongs to root: chmod 700 ${path}, or name another folder`,
    );
  if (own !== path) {
    if (isLook && !existsSync(own)) {
      checkAbove(join(realpathSync(path), basename(own)));
      return path;
    }
    make(own, platform);
    check(own);
    const { uid } = lstatSync(own);
    if (uid !== process.getuid?.()) throw refused(own, belongsToAnother(uid));
  }
  const real = realpathSync(own);
  checkAbove(real);
  setRight(own, options);
  return real;
}

/** The folder with the events, usable or not. Creates nothing. */
export function placeOfEvents(path: string): string {
  const own = ownFolderIn(path);
  return existsSync(own) ? own : path;
}

/** Device and inode, which differ if another folder takes its place. `undefined`: it does not exist. */
export function identityOf(directory: string): string | undefined {
  const found = lstatSync(directory, { throwIfNoEntry: false });
  return found && `${found.dev}:${found.ino}`;
}

function make(path: string, platform: NodeJS.Platform): void {
  try {
    const isNew = makeFolders(path);
    // The umask changes the mode of mkdir.
    if (isNew && platform !== 'win32') chmodSync(path, 0o700);
  } catch (error) {
    throw refused(
      path,
      `it cannot be created (${codeOf(error)}): check svc.broker.dlq-backup-path and its permissions`,
    );
  }
}

function check(path: string): void {
  const found = lstatSync(path);
  if (found.isSymbolicLink()) throw refused(path, 'it is a symbolic link: use the path of the folder itself');
  if (!found.isDirectory()) throw refused(path, 'it is not a folder');
}

/** Whether events go to a folder within: the named one is a volume of root, or is shared, or the inner one exists. */
function needsOwnFolder(path: string): boolean {
  if (existsSync(ownFolderIn(path))) return true;
  const found = lstatSync(path);
  if (found.uid === process.getuid?.()) return isWide(found) && !isOfSvc(path);
  if (found.uid !== superuser) throw refused(path, belongsToAnother(found.uid));
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    const mine = process.getuid?.();
    throw refused(
      path,
      `it belongs to root, and this user (id ${mine}) cannot write to it. Give it to this user (chown ${mine}, or fsGroup in Kubernetes), or name another folder`,
    );
  }
}

const ownFolderIn = (path: string): string => join(path, `svc-backup-${process.getuid?.()}`);
const isWide = ({ mode }: Stats): boolean => (mode & (rightsOfOthers | sticky)) !== 0;
const belongsToAnother = (uid: number): string =>
  `it belongs to another user (id ${uid}): run as that user, or chown it`;

/** Names that only svc uses: a folder with nothing else was made by svc. */
const namesOfSvc = /^(\.lock|recovered|routes|too-large|\.[0-9a-f]{16}\.tmp|\d+(-\d+)?\.json)$/;

function isOfSvc(directory: string): boolean {
  const names = readdirSync(directory);
  const isMade = (name: string): boolean => namesOfSvc.test(name) || segmentNames.test(name);
  // Event ids of the application may have any form.
  return names.some(isMade) && names.every((name) => isMade(name) || /^segment-|\.json$/.test(name));
}

/** Removes the rights of others from the folder at once, and then from its content. */
function setRight(directory: string, { onRestricted }: DirectoryOptions): void {
  const { mode } = lstatSync(directory);
  if ((mode & rightsOfOthers) === 0) return;
  try {
    chmodSync(directory, 0o700);
  } catch (error) {
    throw refused(directory, `other users have access to it (${codeOf(error)}): chmod 700 ${directory}`);
  }
  const was = (mode & 0o7777).toString(8);
  onRestricted?.(
    `the backup folder "${directory}" had mode ${was}, which Kubernetes sets with fsGroup: svc has set it to 700, and its files to 600`,
  );
  void restrictFiles(directory).catch(() => {});
}

/** Sets files to 0600 and folders to 0700 if this user owns them, without following links. */
async function restrictFiles(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
    const file = await open(path, flags).catch(() => undefined);
    if (file === undefined) continue;
    try {
      const found = await file.stat();
      if (found.uid !== process.getuid?.()) continue;
      if ((found.mode & rightsOfOthers) !== 0) await file.chmod(found.isDirectory() ? 0o700 : 0o600);
      if (found.isDirectory()) await restrictFiles(path);
    } finally {
      await file.close();
    }
  }
}

/**
 * Checks whether the folder can be created and written, without creating it, so that a problem shows at start and not in an
 * outage.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY`
 */
export async function checkBackupDirectory(path: string, options: DirectoryOptions = {}): Promise<void> {
  const isThere = (await lstat(path).catch(() => undefined)) !== undefined;
  const isPosix = (options.platform ?? process.platform) !== 'win32';
  const place = isThere && isPosix ? openOrLook(path, options, true) : path;
  for (let at = resolve(place); ; at = dirname(at)) {
    const found = await stat(at).catch(() => undefined);
    if (found === undefined && at !== dirname(at)) continue;
    const why = found?.isDirectory() ? await unwritable(at) : 'ENOTDIR';
    if (why === undefined) return;
    throw refused(
      path,
      `${at} cannot be written to (${why}): check svc.broker.dlq-backup-path and its permissions`,
    );
  }
}

/**
 * A warning if the folder belongs to one release of a deployment. The process was then started below a symbolic link such as
 * `current`, and the folder is below the working directory. `undefined`: no warning.
 */
export function besideLink(path: string, cwd = process.cwd(), shown = process.env.PWD): string | undefined {
  if (shown === undefined || shown === cwd || !`${resolve(path)}/`.startsWith(`${cwd}/`)) return undefined;
  try {
    // The value is old: its shell has changed the directory since.
    if (realpathSync(shown) !== cwd) return undefined;
  } catch {
    return undefined;
  }
  return `the backup folder "${path}" is in ${cwd}, but the process was started in ${shown}, a link to it. If a deployment changes that link, the next release does not send events that wait here. Set svc.broker.dlq-backup-path to an absolute path`;
}

function unwritable(directory: string): Promise<string | undefined> {
  return access(directory, constants.W_OK | constants.X_OK).then(() => undefined, codeOf);
}

/**
 * Any user could exchange our folder in one that all users may write to, unless that is sticky like /tmp. A volume of root is
 * accepted anyway, because containers get one. There, each file must belong to this user, and `identityOf` detects an exchanged
 * folder.
 */
function checkAbove(real: string): void {
  for (let above = dirname(real); ; above = dirname(above)) {
    const { mode, uid } = statSync(above);
    if ((mode & everybodyWrites) !== 0 && (mode & sticky) === 0 && uid !== superuser) {
      throw refused(
        real,
        `every user may rename entries of ${above}: choose another place, or chmod +t ${above}`,
      );
    }
    if (above === dirname(above)) return;
  }
}

function refused(path: string, why: string): SvcError {
  return new SvcError('SVC_ADAPTERS_BACKUP_DIRECTORY', `the backup folder "${path}" is not used: ${why}`);
}

/** The right to take events out of a backup folder. One process at a time holds it. */
export interface DirectoryLock {
  release(): void;
}

/** A claim is touched at this interval, and expires after `staleMs`. */
const heartbeatMs = 10_000;
const staleMs = 60_000;

/** @throws SvcError `SVC_ADAPTERS_BACKUP_BUSY` */
export function lockDirectory(directory: string): DirectoryLock {
  const folder = join(directory, '.lock');
  makeFolderSync(folder);
  const claims = claimsIn(folder);
  const claim = claims.add('backup');
  // A heartbeat of the future does not count, because such a claim would hold the folder until then.
  const [rival] = claims.rivalsOf(claim, (other) => Math.abs(claims.ageOf(other, Date.now())) <= staleMs);
  if (rival !== undefined) {
    claims.remove(claim);
    const message = `process ${rival.stamp.pid} is emptying the backup folder "${directory}": try again when it has ended`;
    throw new SvcError('SVC_ADAPTERS_BACKUP_BUSY', message);
  }
  const heartbeat = setInterval(() => {
    const now = new Date();
    utimes(join(folder, claim.file), now, now).catch(() => {});
  }, heartbeatMs);
  heartbeat.unref();
  return {
    release() {
      clearInterval(heartbeat);
      claims.remove(claim);
    },
  };
}

const oldTemporaryMs = 3_600_000;

/** Removes half-written files of killed processes. */
export async function removeOldTemporaries(directory: string, nowMs: number): Promise<void> {
  await removeOldIn(directory, nowMs);
  await removeOldIn(join(directory, routesFolder), nowMs);
}

async function removeOldIn(directory: string, nowMs: number): Promise<void> {
  // Through a link, it would remove files of others.
  const folder = await lstat(directory).catch(() => undefined);
  if (folder?.isDirectory() !== true) return;
  for (const name of await readdir(directory).catch(() => [])) {
    if (!name.startsWith('.') || !name.endsWith('.tmp')) continue;
    const path = join(directory, name);
    const found = await lstat(path).catch(() => undefined);
    if (found !== undefined && nowMs - found.mtimeMs > oldTemporaryMs) await unlink(path).catch(() => {});
  }
}

/** After the whole match: the segment and the number of its line, from 1. Empty for an event file. */
export function lineOf({ place }: Pick<StoredEvent, 'place'>): (string | undefined)[] {
  return /^(segment-.*):(\d+)$/.exec(place) ?? [];
}

export function toBackupEvent({ topic = '', reason = '', storedAt, ...event }: StoredEvent): BackupEvent {
  return { ...event, topic, reason, backedUpAt: storedAt };
}

type Execute = (file: string, args: readonly string[]) => void;

const limitMs = 10_000;

const run: Execute = (file, args) => {
  // Only Windows needs it.
  const { execFileSync } = process.getBuiltinModule('node:child_process');
  execFileSync(file, [...args], { timeout: limitMs, windowsHide: true, stdio: 'ignore' });
};

/**
 * Windows: removes inherited access and gives the owner alone full control, for the folder and the files made in it. Node
 * ignores file modes there.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY` if the access list could not be set.
 */
function restrictToOwner(
  directory: string,
  { execute = run, env = process.env }: Pick<DirectoryOptions, 'execute' | 'env'>,
): void {
  const user = env.USERNAME;
  if (user === undefined || user === '') throw notPrivate(directory, 'USERNAME is not set');
  const account = env.USERDOMAIN ? `${env.USERDOMAIN}\\${user}` : user;
  const program = env.SystemRoot ? `${env.SystemRoot}\\System32\\icacls.exe` : 'icacls';
  try {
    execute(program, [directory, '/inheritance:r', '/grant:r', `${account}:(OI)(CI)F`]);
  } catch (error) {
    const { code, status } = error as { code?: string; status?: number };
    throw notPrivate(directory, `icacls failed (${code ?? status ?? 'unknown error'})`);
  }
}

function notPrivate(directory: string, why: string): SvcError {
  const message = `the backup folder "${directory}" cannot be made private: ${why}`;
  return new SvcError('SVC_ADAPTERS_BACKUP_DIRECTORY', message);
}
