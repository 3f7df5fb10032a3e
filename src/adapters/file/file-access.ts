import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { SvcError } from '../../ground/errors.ts';
import type { AskAccess } from '../../publish/broker-access.ts';
import { toSendFailure } from './file-failure.ts';

/** Whether the folder of the topic files can be written, or made. Makes nothing. */
export function createFileAccess({ directory }: { readonly directory: string }): AskAccess {
  return async () => {
    try {
      await checkFolder(resolve(directory));
    } catch (error) {
      throw new SvcError('SVC_ADAPTERS_NOT_REACHABLE', toSendFailure(error, directory).message);
    }
    return { cluster: undefined, topics: [], group: undefined };
  };
}

async function checkFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT' || dirname(folder) === folder) throw error;
    return undefined;
  });
  // The nearest one that is there decides.
  if (found === undefined) return checkFolder(dirname(folder));
  if (!found.isDirectory()) throw Object.assign(new Error('not a directory'), { code: 'ENOTDIR' });
  await access(folder, constants.W_OK | constants.X_OK);
}
