import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';

const TIMEOUT_MS = 10 * 60_000;

/** Builds the package into `dist`, unless SVC_TARBALL names one that is packed already. */
export function build(): void {
  if (process.env.SVC_TARBALL !== undefined) return;
  const cwd = resolve(import.meta.dirname, '..');
  const { status } = spawnSync('npm', ['run', '--silent', 'build'], {
    ...{ cwd, stdio: 'inherit', timeout: TIMEOUT_MS },
  });
  if (status !== 0) throw new Error('the build failed');
}
