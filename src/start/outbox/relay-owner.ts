import { createHash, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { isAlive, ownStamp, type ProcessStamp, wholeSpace } from '../../ground/claims/process-stamp.ts';

const ownerPattern = /^(.*:\d+):([0-9a-f]{32})\.(\d+)\.(\d+)\.(\d+):[0-9a-f-]{36}$/;

/**
 * A name of its own among all relays that share a table: `<host>:<pid>:<thread>:<random>`. The thread, where the system tells all of
 * it, so that relays of the same host know when it is gone.
 */
export function newOwner(): string {
  const stamp = exactStamp();
  const thread = stamp === undefined ? '' : `${stamp.space}.${stamp.pid}.${stamp.task}.${stamp.began}:`;
  return `${hostname()}:${process.pid}:${thread}${randomUUID()}`;
}

/** True only where the thread was of this host and container, and is certainly gone: nobody sends for that owner any more. */
export function isOwnerGone(owner: string): boolean {
  const own = exactStamp();
  const [, , space, pid, task, began] = ownerPattern.exec(owner) ?? [];
  if (own === undefined || space === undefined) return false;
  return !isAlive({ space, pid: Number(pid), task: Number(task), began: Number(began) }, own);
}

/** As a person looks for it: the host and the number of the process. */
export function shownOwner(owner: string): string {
  return ownerPattern.exec(owner)?.[1] ?? /^.*?:\d+(?=:)/.exec(owner)?.[0] ?? owner.slice(0, 100);
}

function exactStamp(): ProcessStamp | undefined {
  const space = wholeSpace();
  const stamp = ownStamp();
  if (space === undefined || stamp.task === 0 || stamp.began === 0) return undefined;
  return { ...stamp, space: createHash('sha256').update(space).digest('hex').slice(0, 32) };
}
