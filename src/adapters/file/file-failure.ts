import type { SendFailure } from '../../publish/broker.ts';

/** `unknown_outcome` where a part of the records may stand in the file. */
export function toSendFailure(error: unknown, path: string, mayBeWritten = false): SendFailure {
  const cause = (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.name : 'Error');
  return { kind: mayBeWritten ? 'unknown_outcome' : kindOf(cause), cause, message: messageOf(cause, path) };
}

function messageOf(cause: string, path: string): string {
  switch (cause) {
    case 'ENOSPC':
    case 'EDQUOT':
      return `no space left to write "${path}": free some, or choose another svc.broker.file.path`;
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return `"${path}" may not be written (${cause}): check its permissions and svc.broker.file.path`;
    case 'ENOTDIR':
    case 'EEXIST':
      return `"${path}" cannot be made, for a part of it is not a directory (${cause}): check svc.broker.file.path`;
    case 'EISDIR':
      return `"${path}" is a directory and not a file (EISDIR): move it away`;
    default:
      return `"${path}" could not be written (${cause}): check svc.broker.file.path`;
  }
}

const mayPass = new Set([
  'ENOSPC',
  'EDQUOT',
  'EMFILE',
  'ENFILE',
  'EIO',
  'EAGAIN',
  'EBUSY',
  'ENOMEM',
  'EFBIG',
  'ENOENT',
]);

function kindOf(cause: string): SendFailure['kind'] {
  return mayPass.has(cause) ? 'retriable' : 'fatal';
}
