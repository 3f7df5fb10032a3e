import { Command } from 'commander';
import { type RecoveryOptions, withRecoveryOptions } from '../../../src/cli/recovery.ts';

/** What a command line means to `svc dlq` and `svc backup`, without their own options. */
export function recoveryOptions(args: readonly string[]): RecoveryOptions {
  const command = withRecoveryOptions(new Command()).option('--config <file>').exitOverride();
  return command.parse([...args], { from: 'user' }).opts();
}
