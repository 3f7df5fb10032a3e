// claims/: files that say which thread holds something: a worker id, a backup folder.

import { closeSync, lstatSync, openSync, readdirSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { isAlive, type ProcessStamp } from './process-stamp.ts';

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
