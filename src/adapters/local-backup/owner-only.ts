import { SvcError } from '../../ground/errors.ts';

/** Runs a program without a shell and throws when its exit code is not 0. */
export type Execute = (file: string, args: readonly string[]) => void;

const limitMs = 10_000;

const run: Execute = (file, args) => {
  // Loaded when needed: only Windows needs it.
  const { execFileSync } = process.getBuiltinModule('node:child_process');
  execFileSync(file, [...args], { timeout: limitMs, windowsHide: true, stdio: 'ignore' });
};

/**
 * Windows: removes what the folder inherits and gives its owner alone full control; files made in it follow.
 * Node ignores file modes there.
 *
 * @throws SvcError `SVC_ADAPTERS_BACKUP_DIRECTORY` when the access list could not be set.
 */
export function restrictToOwner(
  directory: string,
  execute: Execute = run,
  env: NodeJS.ProcessEnv = process.env,
): void {
  const user = env.USERNAME;
  if (user === undefined || user === '') throw failed(directory, 'USERNAME is not set');
  const account = env.USERDOMAIN ? `${env.USERDOMAIN}\\${user}` : user;
  const program = env.SystemRoot ? `${env.SystemRoot}\\System32\\icacls.exe` : 'icacls';
  try {
    execute(program, [directory, '/inheritance:r', '/grant:r', `${account}:(OI)(CI)F`]);
  } catch (error) {
    const { code, status } = error as { code?: string; status?: number };
    throw failed(directory, `icacls failed (${code ?? status ?? 'unknown error'})`);
  }
}

function failed(directory: string, why: string): SvcError {
  const message = `the backup folder "${directory}" cannot be closed to others: ${why}`;
  return new SvcError('SVC_ADAPTERS_BACKUP_DIRECTORY', message);
}
