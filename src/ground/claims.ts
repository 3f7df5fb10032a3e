import { closeSync, lstatSync, openSync, readdirSync, readFileSync, readlinkSync, unlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';

// files that say which thread holds something: a worker id, a backup folder.

/** An empty file whose name says it all: `<subject>.<space>.<pid>.<task>.<began>.<random>`. */
export interface Claim {
  readonly file: string;
  /** What is claimed, of all that can be in this folder. */
  readonly subject: string;
  readonly stamp: ProcessStamp;
}

const claimName = /^(\w+)\.([0-9a-f]{8})\.(\d+)\.(\d+)\.(\d+)\.[0-9a-f]{12}$/;

/**
 * The file is created first; whoever then sees no rival holds the subject. Of two that claim at once, at least the later one
 * sees the other and steps back. Names are never used twice, so removing the claim of a dead process can never hit a living
 * one, which is where takeovers of lock files go wrong.
 */
export function addClaim(folder: string, subject: string, stamp: ProcessStamp): Claim {
  const { space, pid, task, began } = stamp;
  const file = `${subject}.${space}.${pid}.${task}.${began}.${randomDigits()}`;
  closeSync(openSync(join(folder, file), 'wx', 0o600));
  return { file, subject, stamp };
}

/** 12 hexadecimal digits. Not a secret: they tell apart the claims of one thread. */
function randomDigits(): string {
  return Math.floor(Math.random() * 2 ** 48)
    .toString(16)
    .padStart(12, '0');
}

export function removeClaim(folder: string, { file }: Claim): void {
  try {
    unlinkSync(join(folder, file));
  } catch {
    // Somebody tidied up before us.
  }
}

export function listClaims(folder: string): Claim[] {
  const claims: Claim[] = [];
  for (const file of readdirSync(folder)) {
    const match = claimName.exec(file);
    if (match === null) continue;
    const [, subject = '', space = '', pid, task, began] = match;
    claims.push({
      file,
      subject,
      stamp: { space, pid: Number(pid), task: Number(task), began: Number(began) },
    });
  }
  return claims;
}

/** Whether a claim holds whose thread is not known to be gone: one from another host or container cannot be asked. */
export type Belief = (claim: Claim) => boolean;

/** The claims that stand; those of threads that are gone, and those that are not believed, are removed on the way. */
export function standingClaims(
  folder: string,
  claims: readonly Claim[],
  own: ProcessStamp,
  isBelieved: Belief,
): Claim[] {
  return claims.filter((claim) => {
    const stands = isAlive(claim.stamp, own) && isBelieved(claim);
    if (!stands) removeClaim(folder, claim);
    return stands;
  });
}

/** The other claims of the same subject that stand. */
export function rivalsOf(folder: string, claim: Claim, isBelieved: Belief): Claim[] {
  const same = listClaims(folder).filter(
    ({ subject, file }) => subject === claim.subject && file !== claim.file,
  );
  return standingClaims(folder, same, claim.stamp, isBelieved);
}

/** Since its file was made or touched; negative where that is to come, `Infinity` where the file is gone. */
export function ageOf(folder: string, { file }: Claim, nowMs: number): number {
  try {
    return nowMs - lstatSync(join(folder, file)).mtimeMs;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Names one thread of one process so that others can tell whether it still lives. */
export interface ProcessStamp {
  /** The space that `pid` is unique in: host, boot and pid namespace. 8 hexadecimal digits. */
  readonly space: string;
  readonly pid: number;
  /** The thread's number for the operating system, and the tick it began in; 0 where the system does not tell. */
  readonly task: number;
  readonly began: number;
}

const bootId = '/proc/sys/kernel/random/boot_id';
const pidNamespace = '/proc/self/ns/pid';

/**
 * The space in full, for what machines share that know nothing of each other: a short hash could be that of another one. `undefined` where
 * the system does not tell all of it. Two machines restored from one image of a running one have the same.
 */
export function wholeSpace(): string | undefined {
  const [boot, pids] = [read(bootId), link(pidNamespace)];
  // The time of its own, in which the begin of a process is told, is what few have.
  return boot === '' || pids === ''
    ? undefined
    : [hostname(), boot, pids, link('/proc/self/ns/time')].join('|');
}

/** In one word, as a management server names its process. */
export function stampText({ space, pid, began }: ProcessStamp): string {
  return `${space}.${pid}.${began}`;
}

/** The thread that calls. */
export function ownStamp(): ProcessStamp {
  const space = [hostname(), read(bootId), link(pidNamespace)].join('|');
  const task = Number(/\/task\/(\d+)$/.exec(link('/proc/thread-self'))?.[1] ?? 0);
  return {
    space: spreadHash(space).toString(16).padStart(8, '0'),
    pid: process.pid,
    task,
    began: threadOf(process.pid, task)?.began ?? 0,
  };
}

/**
 * False only when the thread is certainly gone. A number that was given to another process is told apart by its begin,
 * where the system tells it; else it counts as alive, which wastes an id and never shares one.
 */
export function isAlive(stamp: ProcessStamp, own: ProcessStamp): boolean {
  if (stamp.space !== own.space) return true;
  if (!isRunning(stamp.pid)) return false;
  if (stamp.task === 0 || stamp.began === 0 || own.began === 0) return true;
  const thread = threadOf(stamp.pid, stamp.task);
  // Some systems hide processes of other users from each other.
  if (thread === undefined) return threadOf(stamp.pid, stamp.pid) === undefined;
  return thread.began === stamp.began && !thread.isOver;
}

/** False only when no process of this host, or container, has this number. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/**
 * Fields 3 and 22 of the thread's `stat`: its state, and its begin in ticks since boot. The second field is a name in brackets that
 * can hold anything. A thread that is over stays there until somebody has asked how it ended.
 */
function threadOf(pid: number, task: number): { began: number; isOver: boolean } | undefined {
  const stat = read(`/proc/${pid}/task/${task}/stat`);
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return stat === '' ? undefined : { began: Number(fields[19]), isOver: /[ZX]/.test(fields[0] ?? '') };
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function link(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/**
 * 32 bits that differ for texts that differ little (FNV-1a, with the last mixing step of MurmurHash3). Not cryptographic: a
 * start must not wait for `node:crypto` to load.
 */
export function spreadHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
