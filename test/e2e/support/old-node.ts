import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { ensureRuntime } from '../../../scripts/runtimes.ts';

/** A Node 20: one on the PATH, else it is fetched. */
export async function findNode20(): Promise<string> {
  const name = process.platform === 'win32' ? 'node.exe' : 'node';
  const found = (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file) && isNode20(file));
  return found ?? ensureRuntime('20', console.error);
}

function isNode20(file: string): boolean {
  try {
    return execFileSync(file, ['--version'], { encoding: 'utf8', timeout: 10_000 }).startsWith('v20.');
  } catch {
    return false;
  }
}
