import { accessSync, constants, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Config } from '../../config/config.ts';
import { checkBackupFolder } from '../adapters.ts';

/** A folder that a process writes to. */
export interface FolderReport {
  /** As the documentation writes the option. */
  readonly name: string;
  readonly folder: string;
  /** One line. */
  readonly problem?: string;
}

/**
 * Whether this user may write where the configuration has files go: of the backup by the check of the start, which corrects the
 * rights of a folder of svc's own. Makes nothing.
 */
export async function inspectFolders({ broker, idGenerator }: Config): Promise<FolderReport[]> {
  const { backup, dlqBackupPath } = broker;
  const named: readonly (readonly [name: string, folder: string | undefined])[] = [
    ['svc.broker.file.path', broker.client === 'file' ? broker.file.path : undefined],
    ['svc.id-generator.lease-path', idGenerator.type === 'snowflake' ? idGenerator.leasePath : undefined],
  ];
  const others = named.flatMap(([name, folder]) =>
    folder === undefined ? [] : reportOf(name, folder, problemOf(folder)),
  );
  if (!backup.localEnabled) return others;
  const problem = await checkBackupFolder(dlqBackupPath);
  return [reportOf('svc.broker.dlq-backup-path', dlqBackupPath, problem), ...others];
}

function reportOf(name: string, folder: string, problem: string | undefined): FolderReport {
  return { name, folder, ...(problem !== undefined && { problem }) };
}

/** One that is not there yet is made in the nearest folder above that is. */
function problemOf(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    try {
      const found = statSync(at, { throwIfNoEntry: false });
      if (found === undefined && dirname(at) !== at) continue;
      if (!found?.isDirectory()) return `${at} is no folder`;
      accessSync(at, constants.W_OK | constants.X_OK);
      return undefined;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOTDIR' && dirname(at) !== at) continue;
      return `this user may not write in ${at} (${code})`;
    }
  }
}
