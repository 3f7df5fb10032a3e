import { basename, dirname, resolve } from 'node:path';
import type { Config } from '../../config/config.ts';
import type { RecoveryPlace } from '../../start/commands/recovery.ts';
import { recoveryGroup } from '../../start/tiers/dlq-waiting.ts';
import { WrongUse } from '../wrong-use.ts';
import { type Action, runRecoveryCommand } from './recovery-command.ts';
import type { RecoveryOptions } from './recovery-options.ts';

/** `svc dlq list|recover`: dead letters, and their way back to the topics that the events were meant for. */
export function runDlq(options: RecoveryOptions, action: Action): Promise<number> {
  return runRecoveryCommand(options, action, ({ broker }) => {
    const topic = options.dlqTopic ?? broker.dlqTopic;
    if (topic === undefined)
      throw new WrongUse('no dead letter topic: set svc.broker.dlq-topic, or give --dlq-topic');
    return { kind: 'dlq', topic, group: options.group ?? recoveryGroup };
  });
}

/** `svc backup list|restore`: events in backup files or in S3, and their way back to their topics. */
export function runBackup(options: RecoveryOptions, action: Action): Promise<number> {
  return runRecoveryCommand(options, action, (config) =>
    options.s3 ? s3Place(options, config) : localPlace(options, config, action === 'list'),
  );
}

function s3Place({ dir, file }: RecoveryOptions, { broker }: Config): RecoveryPlace {
  if (dir !== undefined || file !== undefined)
    throw new WrongUse(
      '--s3 means the bucket, --dir and --file mean files of this machine: give one of them',
    );
  if (broker.backup.s3Bucket === undefined) throw new WrongUse('no bucket: set svc.broker.backup.s3-bucket');
  return { kind: 's3' };
}

export function localPlace(
  { dir, file }: RecoveryOptions,
  { broker }: Config,
  isList: boolean,
): Extract<RecoveryPlace, { kind: 'local' }> {
  if (file === undefined) {
    const directory = dir === undefined ? broker.dlqBackupPath : resolve(dir);
    return { kind: 'local', directory, file, withAside: isList };
  }
  // A bare name is one in the folder, anything else is a path.
  const isName = basename(file) === file;
  const folder = isName ? (dir ?? broker.dlqBackupPath) : dirname(resolve(file));
  return { kind: 'local', directory: resolve(folder), file: basename(file), withAside: false };
}
