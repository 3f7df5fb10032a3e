import { type ExecFileOptions, execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { hostEnvironment } from '../e2e/support/run-app.ts';

export interface CommandEnd {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const main = resolve(import.meta.dirname, '../../src/cli/main.ts');

/** `svc <args>` of this checkout, as a process of its own. */
export function runSvc(args: readonly string[], options: ExecFileOptions = {}): Promise<CommandEnd> {
  return runProgram(process.execPath, [main, ...args], options);
}

/** Any program, with the variables of this machine and none that steers svc, but those in `env`. */
export function runProgram(
  program: string,
  args: readonly string[],
  { env, ...options }: ExecFileOptions = {},
): Promise<CommandEnd> {
  const all = { timeout: 90_000, ...options, env: { ...hostEnvironment(), ...env } };
  return new Promise((done) => {
    execFile(program, [...args], { ...all, encoding: 'utf8' }, (error, stdout, stderr) =>
      done({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}
