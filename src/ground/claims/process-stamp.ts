import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { spreadHash } from './spread-hash.ts';

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
