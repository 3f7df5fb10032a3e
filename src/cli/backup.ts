import { basename, dirname, resolve } from 'node:path';
import type { Config } from '../config/config.ts';
import type { RecoveryPlace } from '../start/commands/recovery.ts';
import { runRecoveryCommand } from './recovery-command.ts';
import { parseRecoveryOptions, type RecoveryOptions, WrongUse } from './recovery-options.ts';

/** `svc backup list|restore`: events in backup files or in S3, and their way back to their topics. */
export async function runBackup([command, ...args]: readonly string[]): Promise<number> {
  if (command !== 'list' && command !== 'restore') throw new WrongUse('svc backup takes list or restore');
  const isS3 = args.includes('--s3');
  const options = parseRecoveryOptions(
    args.filter((arg) => arg !== '--s3'),
    ['dir', 'file'],
  );
  return runRecoveryCommand(options, command === 'list' ? 'list' : 'send', (config) =>
    isS3 ? s3Place(options, config) : localPlace(options, config, command === 'list'),
  );
}

function s3Place({ own: { dir, file } }: RecoveryOptions, { broker }: Config): RecoveryPlace {
  if (dir !== undefined || file !== undefined)
    throw new WrongUse(
      '--s3 means the bucket, --dir and --file mean files of this machine: give one of them',
    );
  if (broker.backup.s3Bucket === undefined) throw new WrongUse('no bucket: set svc.broker.backup.s3-bucket');
  return { kind: 's3' };
}

function localPlace({ own }: RecoveryOptions, { broker }: Config, isList: boolean): RecoveryPlace {
  const { dir, file } = own;
  if (file === undefined) {
    const directory = dir === undefined ? broker.dlqBackupPath : resolve(dir);
    return { kind: 'local', directory, file, withAside: isList };
  }
  // A bare name is one in the folder, anything else is a path.
  const isName = basename(file) === file;
  const folder = isName ? (dir ?? broker.dlqBackupPath) : dirname(resolve(file));
  return { kind: 'local', directory: resolve(folder), file: basename(file), withAside: false };
}
