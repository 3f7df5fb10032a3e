import { lstat, readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { routesFolder } from './store-files.ts';

const oldTemporaryMs = 3_600_000;

/** What a killed process left half-written. */
export async function removeOldTemporaries(directory: string, nowMs: number): Promise<void> {
  await removeOldIn(directory, nowMs);
  await removeOldIn(join(directory, routesFolder), nowMs);
}

async function removeOldIn(directory: string, nowMs: number): Promise<void> {
  // Through a link, files of others would be removed.
  const folder = await lstat(directory).catch(() => undefined);
  if (folder?.isDirectory() !== true) return;
  for (const name of await readdir(directory).catch(() => [])) {
    if (!name.startsWith('.') || !name.endsWith('.tmp')) continue;
    const path = join(directory, name);
    const found = await lstat(path).catch(() => undefined);
    if (found !== undefined && nowMs - found.mtimeMs > oldTemporaryMs) await unlink(path).catch(() => {});
  }
}
