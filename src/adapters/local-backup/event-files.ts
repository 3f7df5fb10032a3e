import { readdirSync } from 'node:fs';
import { SvcError } from '../../ground/errors.ts';
import type { StoredEvent, Unreadable } from '../../publish/recovery-source.ts';
import { openBackupDirectory, toBackupEvent } from './backup-directory.ts';
import { toSvcError } from './private-files.ts';
import { type BackupFormat, storeFiles } from './segment.ts';

/** A folder of event files, and nothing else. */
export interface EventFiles {
  /** One file each, on the disk before it resolves. Gives those that are too large for one. */
  store(events: readonly StoredEvent[]): Promise<Unreadable[]>;
}

/**
 * Makes the folder, or takes an empty one: what is there already would be there twice.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY`; rejects with `SVC_ADAPTERS_BACKUP_FAILED`
 */
export function openEventFiles(path: string, format: BackupFormat): EventFiles {
  const directory = openBackupDirectory(path, { isExact: true });
  if (readdirSync(directory).length > 0)
    throw new SvcError(
      'SVC_ADAPTERS_BACKUP_DIRECTORY',
      `the folder "${path}" is not empty: name one that is, or that is not there yet`,
    );
  return {
    async store(events) {
      const results = await storeFiles(directory, format, events.map(toBackupEvent));
      const tooLarge: Unreadable[] = [];
      for (const [index, result] of results.entries()) {
        if (typeof result === 'string') continue;
        const error = toSvcError(result, path);
        if (error.code !== 'SVC_ADAPTERS_BACKUP_FULL') throw error;
        tooLarge.push({ place: events[index]?.place ?? '', reason: error.message });
      }
      return tooLarge;
    },
  };
}
