import { lstat } from 'node:fs/promises';
import type { Unreadable } from '../../../publish/recovery-source.ts';
import { codeOf } from '../backup-failure.ts';

export const gone = 'it is not there any more';
export const notFile = 'it is not a file';

/** Why it is not read: nothing that was put here to be read out of somewhere else. `undefined`: it is a file. */
export async function whyNot(path: string): Promise<string | undefined> {
  const found = await lstat(path).catch(codeOf);
  if (typeof found === 'string') return found === 'ENOENT' ? gone : `it cannot be read (${found})`;
  return found.isFile() ? undefined : notFile;
}

/** What somebody else has taken out since it was listed is no trouble. */
export function isThere({ reason }: Unreadable): boolean {
  return reason !== gone;
}
