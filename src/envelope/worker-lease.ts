import { lstatSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import {
  addClaim,
  ageOf,
  type Belief,
  type Claim,
  listClaims,
  removeClaim,
  rivalsOf,
  standingClaims,
} from '../ground/claims/claims.ts';
import { ownStamp, type ProcessStamp } from '../ground/claims/process-stamp.ts';
import { systemClock } from '../ground/clock.ts';
import { makeFolders } from '../ground/files/folders.ts';
import type { Logger } from '../observe/logger.ts';
import { deriveWorkerId } from './derive-worker-id.ts';
import { checkWorkerId, maxWorkerId } from './snowflake.ts';

const workerCount = maxWorkerId + 1;
/** Each attempt that fails met another process in the same microseconds, and the next id is drawn anew. */
const maxAttemptCount = 50;
/** A claim from another host or container cannot be asked whether it lives: it is believed for this long. */
const foreignClaimMs = 7 * 24 * 3_600_000;

export interface WorkerLeaseOptions {
  /** A configured worker id, 0 to 1023. Default: derived and leased. */
  readonly workerId?: number | undefined;
  /** Folder that the processes of this host lease in. Default: `svc-workers-<uid>` in the system's temporary folder. */
  readonly directory?: string | undefined;
  readonly logger?: Logger | undefined;
  /** For tests. Default: drawn by `deriveWorkerId`. */
  readonly startAt?: number | undefined;
}

export interface WorkerLease {
  readonly workerId: number;
  /** False: another thread of this host may use the same id; a warning was logged. */
  readonly exclusive: boolean;
  /** Gives the id back. Done by itself at exit; a process that is killed is noticed by the next one. */
  release(): void;
}

/**
 * A worker id that no other process or worker thread of this host has, as long as they share the folder. Synchronous.
 *
 * Hosts do not see each other: there the id is only drawn at random, and two may meet by chance (with 10 processes in about
 * 4 of 100 deployments), which the random sequence of Snowflake ids makes harmless nearly always. Where it must be certain,
 * configure a worker id for each process: a configured id is never changed; one that another process of this host uses too
 * is named in a warning.
 *
 * Throws `SVC_ENVELOPE_WORKER_ID` for a configured id out of range, and nothing else: with an unusable folder, or none of
 * the 1,024 ids free, the derived id is used and a warning logged.
 */
export function leaseWorkerId(options: WorkerLeaseOptions = {}): WorkerLease {
  const configured = options.workerId === undefined ? undefined : checkWorkerId(options.workerId);
  const folder = options.directory ?? join(tmpdir(), `svc-workers-${userName()}`);
  const wanted = configured ?? options.startAt ?? deriveWorkerId(workerCount);
  const risk = 'event ids can repeat if another process uses it too';
  try {
    openLeaseFolder(folder, options.directory === undefined);
    const own = ownStamp();
    if (configured !== undefined) return keepConfigured(folder, configured, own, options.logger);
    const claim = claimFreeId(folder, wanted, own);
    if (claim !== undefined) return held(folder, claim, true);
    options.logger?.warn(`no worker id is free on this host; using ${wanted}: ${risk}`);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
    options.logger?.warn(`worker ids cannot be leased in ${folder} (${reason}); using ${wanted}: ${risk}`);
  }
  return { workerId: wanted, exclusive: false, release: () => {} };
}

/**
 * Makes the folder, open to this user alone. Throws when that is impossible, and with `ownOnly` when it is somebody
 * else's: anybody can make any folder below a common temporary one, and its owner could remove our claims.
 */
function openLeaseFolder(folder: string, ownOnly: boolean): void {
  makeFolders(folder);
  const stat = lstatSync(folder);
  if (!stat.isDirectory()) throw new Error('it is not a directory');
  const uid = process.getuid?.();
  if (ownOnly && uid !== undefined && stat.uid !== uid) throw new Error('it belongs to another user');
}

function claimFreeId(folder: string, startAt: number, own: ProcessStamp): Claim | undefined {
  let wanted: number | undefined = startAt;
  for (let attempt = 0; attempt < maxAttemptCount && wanted !== undefined; attempt++) {
    const claim = addClaim(folder, String(wanted), own);
    if (rivalsOf(folder, claim, believedIn(folder, own)).length === 0) return claim;
    removeClaim(folder, claim);
    wanted = drawFreeId(folder, own);
  }
  return undefined;
}

/** At random: processes that met once would meet again at the next number. */
function drawFreeId(folder: string, own: ProcessStamp): number | undefined {
  const claims = listClaims(folder);
  const free = freeIds(claims);
  // Asking all claims whether they live takes a while, so only when nothing is free without.
  const choice =
    free.length > 0 ? free : freeIds(standingClaims(folder, claims, own, believedIn(folder, own)));
  return choice[Math.floor(Math.random() * choice.length)];
}

function freeIds(claims: readonly Claim[]): number[] {
  const taken = new Set(claims.map(({ subject }) => Number(subject)));
  return Array.from({ length: workerCount }, (_, id) => id).filter((id) => !taken.has(id));
}

function believedIn(folder: string, own: ProcessStamp): Belief {
  return (claim) =>
    claim.stamp.space === own.space || ageOf(folder, claim, systemClock.now()) < foreignClaimMs;
}

function keepConfigured(
  folder: string,
  id: number,
  own: ProcessStamp,
  logger: Logger | undefined,
): WorkerLease {
  const claim = addClaim(folder, String(id), own);
  const [other] = rivalsOf(folder, claim, believedIn(folder, own));
  if (other !== undefined) {
    logger?.warn(
      `worker id ${id} is configured, but process ${other.stamp.pid} uses it too: event ids can repeat`,
    );
  }
  return held(folder, claim, other === undefined);
}

function held(folder: string, claim: Claim, exclusive: boolean): WorkerLease {
  const release = (): void => {
    process.removeListener('exit', release);
    removeClaim(folder, claim);
  };
  process.once('exit', release);
  return { workerId: Number(claim.subject), exclusive, release };
}

function userName(): string {
  return String(process.getuid?.() ?? userInfo().username);
}
