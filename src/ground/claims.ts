import { closeSync, lstatSync, openSync, readdirSync, readFileSync, readlinkSync, unlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';

// files that record which thread holds something: a worker id, a backup folder.

/** An empty file that holds everything in its name: `<subject>.<space>.<pid>.<task>.<began>.<random>`. */
export interface Claim {
  readonly file: string;
  /** The claimed object, unique in this folder. */
  readonly subject: string;
  readonly stamp: ProcessStamp;
}

const claimName = /^(\w+)\.([0-9a-f]{8})\.(\d+)\.(\d+)\.(\d+)\.[0-9a-f]{12}$/;

/** Whether to trust a claim whose thread may be alive: a thread of another host or container cannot be checked. */
type Belief = (claim: Claim) => boolean;

/** The claims in a folder, as one thread makes and sees them. */
export function claimsIn(folder: string, own: ProcessStamp = ownStamp()) {
  const remove = ({ file }: Claim): void => {
    try {
      unlinkSync(join(folder, file));
    } catch {
      // Another process has removed it.
    }
  };

  const list = (): Claim[] =>
    readdirSync(folder).flatMap((file) => {
      const match = claimName.exec(file);
      if (match === null) return [];
      const [, subject = '', space = '', pid, task, began] = match;
      return [
        { file, subject, stamp: { space, pid: Number(pid), task: Number(task), began: Number(began) } },
      ];
    });

  /** The valid claims. Claims of ended threads, and those that are not believed, are removed. */
  const standing = (claims: readonly Claim[], isBelieved: Belief): Claim[] =>
    claims.filter((claim) => {
      const stands = isAlive(claim.stamp, own) && isBelieved(claim);
      if (!stands) remove(claim);
      return stands;
    });

  return {
    own,
    /**
     * Creates the file first; a thread that then sees no rival holds the subject. Of two concurrent claims at least the later
     * one sees the other and steps back. Names are never reused, so removing the claim of a dead process never hits a living
     * one, unlike with lock files.
     */
    add(subject: string): Claim {
      const { space, pid, task, began } = own;
      const file = `${subject}.${space}.${pid}.${task}.${began}.${randomDigits()}`;
      closeSync(openSync(join(folder, file), 'wx', 0o600));
      return { file, subject, stamp: own };
    },
    remove,
    list,
    standing,
    /** The other valid claims of the same subject. */
    rivalsOf(claim: Claim, isBelieved: Belief): Claim[] {
      const same = list().filter(({ subject, file }) => subject === claim.subject && file !== claim.file);
      return standing(same, isBelieved);
    },
    /** Milliseconds since the file was created or touched; negative for a time in the future, `Infinity` if the file is gone. */
    ageOf({ file }: Claim, nowMs: number): number {
      try {
        return nowMs - lstatSync(join(folder, file)).mtimeMs;
      } catch {
        return Number.POSITIVE_INFINITY;
      }
    },
  };
}

/** 12 hexadecimal digits. Not a secret: they only make the claims of one thread unique. */
function randomDigits(): string {
  return Math.floor(Math.random() * 2 ** 48)
    .toString(16)
    .padStart(12, '0');
}

/** Identifies one thread of one process, so that other processes can tell whether it is alive. */
export interface ProcessStamp {
  /** The scope in which `pid` is unique: host, boot and pid namespace. 8 hexadecimal digits. */
  readonly space: string;
  readonly pid: number;
  /** The thread id of the operating system, and its start tick; 0 if the system does not tell. */
  readonly task: number;
  readonly began: number;
}

const bootId = '/proc/sys/kernel/random/boot_id';
const pidNamespace = '/proc/self/ns/pid';

/**
 * The full scope, for stores shared by unrelated machines, in which a short hash could collide. `undefined` if the system does
 * not tell all of it. Two machines restored from the same image of a running one have the same scope.
 */
export function wholeSpace(): string | undefined {
  const [boot, pids] = [read(bootId), link(pidNamespace)];
  // Few processes have their own time namespace, which start ticks are relative to.
  return boot === '' || pids === ''
    ? undefined
    : [hostname(), boot, pids, link('/proc/self/ns/time')].join('|');
}

/** As a management server names its process. */
export function stampText({ space, pid, began }: ProcessStamp): string {
  return `${space}.${pid}.${began}`;
}

/** The calling thread. */
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
 * False only if the thread has certainly ended. A reused process id is recognized by its start tick; without one the thread
 * counts as alive, which wastes an id but never shares one.
 */
export function isAlive(stamp: ProcessStamp, own: ProcessStamp): boolean {
  if (stamp.space !== own.space) return true;
  if (!isRunning(stamp.pid)) return false;
  if (stamp.task === 0 || stamp.began === 0 || own.began === 0) return true;
  const thread = threadOf(stamp.pid, stamp.task);
  // Some systems hide the processes of other users.
  if (thread === undefined) return threadOf(stamp.pid, stamp.pid) === undefined;
  return thread.began === stamp.began && !thread.isOver;
}

/** False only if no process of this host or container has this id. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/**
 * Fields 3 and 22 of the thread's `stat`: its state, and its start in ticks since boot. The second field is a name in
 * parentheses that can hold any character. An ended thread stays listed until its exit status is read.
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
 * A 32-bit hash with good distribution for similar texts (FNV-1a, with the final mix of MurmurHash3). Not cryptographic: a
 * start must not wait for `node:crypto` to load.
 */
export function spreadHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
