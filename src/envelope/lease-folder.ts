import { closeSync, lstatSync, openSync, readdirSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolders } from '../ground/files/folders.ts';
import { isAlive, type ProcessStamp } from './process-stamp.ts';

/** A claim is an empty file whose name says it all: `<worker id>.<space>.<pid>.<task>.<began>.<random>`. */
export interface Claim {
  readonly file: string;
  readonly workerId: number;
  readonly stamp: ProcessStamp;
}

const claimName = /^(\d{1,4})\.([0-9a-f]{8})\.(\d+)\.(\d+)\.(\d+)\.[0-9a-f]{12}$/;
/** A claim from another host or container cannot be asked whether it lives: it is believed for this long. */
const foreignClaimMs = 7 * 24 * 3_600_000;

/**
 * Makes the folder, open to this user alone. Throws when that is impossible, and with `ownOnly` when it is somebody
 * else's: anybody can make any folder below a common temporary one, and its owner could remove our claims.
 */
export function openLeaseFolder(folder: string, ownOnly: boolean): void {
  makeFolders(folder);
  const stat = lstatSync(folder);
  if (!stat.isDirectory()) throw new Error('it is not a directory');
  const uid = process.getuid?.();
  if (ownOnly && uid !== undefined && stat.uid !== uid) throw new Error('it belongs to another user');
}

/**
 * The file is created first; whoever then sees no other living claim of the same worker id holds it. Of two that claim at
 * once, at least the later one sees the other and steps back. Names are never used twice, so removing the claim of a dead
 * process can never hit a living one, which is where takeovers of lock files go wrong.
 */
export function addClaim(folder: string, workerId: number, stamp: ProcessStamp): Claim {
  const { space, pid, task, began } = stamp;
  const file = `${workerId}.${space}.${pid}.${task}.${began}.${randomDigits()}`;
  closeSync(openSync(join(folder, file), 'wx', 0o600));
  return { file, workerId, stamp };
}

/** 12 hexadecimal digits. Not a secret: they tell apart the claims of one thread. */
function randomDigits(): string {
  return Math.floor(Math.random() * 2 ** 48)
    .toString(16)
    .padStart(12, '0');
}

export function removeClaim(folder: string, file: string): void {
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
    const [, id, space = '', pid, task, began] = match;
    const stamp = { space, pid: Number(pid), task: Number(task), began: Number(began) };
    claims.push({ file, workerId: Number(id), stamp });
  }
  return claims;
}

/** The claims that stand; those of dead threads, and foreign ones of last week, are removed on the way. */
export function standingClaims(
  folder: string,
  claims: readonly Claim[],
  own: ProcessStamp,
  nowMs: number,
): Claim[] {
  return claims.filter((claim) => {
    const stands =
      claim.stamp.space === own.space ? isAlive(claim.stamp, own) : isRecent(folder, claim.file, nowMs);
    if (!stands) removeClaim(folder, claim.file);
    return stands;
  });
}

function isRecent(folder: string, file: string, nowMs: number): boolean {
  try {
    return nowMs - statSync(join(folder, file)).mtimeMs < foreignClaimMs;
  } catch {
    return false;
  }
}
