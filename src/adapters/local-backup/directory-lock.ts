import { utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { addClaim, ageOf, removeClaim, rivalsOf } from '../../ground/claims/claims.ts';
import { ownStamp } from '../../ground/claims/process-stamp.ts';
import { SvcError } from '../../ground/errors.ts';
import { makeFolderSync } from './write-exclusive.ts';

/** The right to take events out of a backup folder; one process at a time has it. */
export interface DirectoryLock {
  release(): void;
}

/** A claim is touched so often, and believed for so long. */
const beatMs = 10_000;
const staleMs = 60_000;

/** @throws SvcError `SVC_ADAPTERS_BACKUP_BUSY` */
export function lockDirectory(directory: string): DirectoryLock {
  const folder = join(directory, '.lock');
  makeFolderSync(folder);
  const claim = addClaim(folder, 'backup', ownStamp());
  // A beat in time to come is none: such a claim would hold the folder for as long.
  const [rival] = rivalsOf(folder, claim, (other) => Math.abs(ageOf(folder, other, Date.now())) <= staleMs);
  if (rival !== undefined) {
    removeClaim(folder, claim);
    const message = `process ${rival.stamp.pid} is emptying the backup folder "${directory}" already: try again when it has ended`;
    throw new SvcError('SVC_ADAPTERS_BACKUP_BUSY', message);
  }
  const beat = setInterval(() => {
    const now = new Date();
    utimes(join(folder, claim.file), now, now).catch(() => {});
  }, beatMs);
  beat.unref();
  return {
    release() {
      clearInterval(beat);
      removeClaim(folder, claim);
    },
  };
}
