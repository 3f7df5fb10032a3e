import { SvcError } from '../../errors.ts';

export function toSvcError(error: unknown, directory: string): SvcError {
  if (error instanceof SvcError) return error;
  const code = (error as NodeJS.ErrnoException)?.code ?? 'unknown error';
  const hint = code === 'ENOSPC' || code === 'EDQUOT' ? ': the disk is full' : '';
  return failed(directory, `${code}${hint}`);
}

export function failed(directory: string, why: string): SvcError {
  return new SvcError(
    'SVC_ADAPTERS_BACKUP_FAILED',
    `the backup folder "${directory}" cannot be written: ${why}`,
  );
}

export function full(message: string): SvcError {
  return new SvcError('SVC_ADAPTERS_BACKUP_FULL', message);
}
