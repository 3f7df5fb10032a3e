import { SvcError } from '../../ground/errors.ts';

export function toSvcError(error: unknown, directory: string): SvcError {
  return error instanceof SvcError ? error : failed(directory, reasonOf(error));
}

/** The same for who takes events out of the folder. */
export function unusable(error: unknown, directory: string): SvcError {
  if (error instanceof SvcError) return error;
  const { path, syscall } = error as NodeJS.ErrnoException;
  const where = path === undefined ? '' : ` (${syscall} ${path})`;
  return new SvcError(
    'SVC_ADAPTERS_BACKUP_FAILED',
    `the backup folder "${directory}" cannot be used: ${reasonOf(error)}${where}`,
  );
}

/** Of one file among others that can be read. */
export function unreadableBecause(error: unknown): string {
  return error instanceof SvcError ? error.message : `it cannot be read (${codeOf(error)})`;
}

function reasonOf(error: unknown): string {
  const code = codeOf(error);
  return hints[code] === undefined ? code : `${code}: ${hints[code]}`;
}

export function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException | undefined)?.code ?? 'unknown error';
}

export function isDiskFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(codeOf(error));
}

const diskFull = 'the disk is full';
const hints: Readonly<Record<string, string>> = {
  ENOSPC: diskFull,
  EDQUOT: diskFull,
  EROFS: 'the file system is read-only',
  EACCES: 'no right to',
  EXDEV: 'recovered/ is on another file system',
};

export function failed(directory: string, why: string): SvcError {
  return new SvcError(
    'SVC_ADAPTERS_BACKUP_FAILED',
    `the backup folder "${directory}" cannot be written: ${why}`,
  );
}

export function missing(message: string): SvcError {
  return new SvcError('SVC_ADAPTERS_BACKUP_FAILED', message);
}

export function tooLarge(bytes: number, maxBytes: number): SvcError {
  return full(
    `an event of ${bytes} bytes is more than the local backup stores in one piece (${maxBytes} bytes)`,
  );
}

export function full(message: string): SvcError {
  return new SvcError('SVC_ADAPTERS_BACKUP_FULL', message);
}
