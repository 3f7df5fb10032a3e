import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isAlive } from './processes.ts';

/** The folder of this checkout. */
export const checkoutFolder: string = resolve(dirname(fileURLToPath(import.meta.url)), '../..');

/** Where all that is downloaded, built or run is kept: `.cache/` of the checkout, or the folder named by SVC_CACHE. */
export function cacheFolder(...parts: string[]): string {
  return join(resolve(checkoutFolder, process.env.SVC_CACHE || '.cache'), ...parts);
}

/**
 * Makes a folder once, whoever asks: `build` fills a temporary one, which is renamed when it is whole, so a build that was
 * killed leaves nothing that looks finished. Of several processes that ask at once one builds and the others wait.
 */
export async function ensureFolder(
  folder: string,
  build: (temporary: string) => Promise<void>,
): Promise<string> {
  if (existsSync(folder)) return folder;
  await withLock(`${folder}.lock`, async () => {
    if (existsSync(folder)) return;
    const temporary = `${folder}.tmp-${process.pid}`;
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary, { recursive: true });
    try {
      await build(temporary);
      await rename(temporary, folder);
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
  });
  return folder;
}

/** Runs `work` while holding a lock file with our process id; the lock of a process that has died is taken over. */
export async function withLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  await mkdir(dirname(file), { recursive: true });
  while (!(await takeLock(file))) await sleep(150);
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

async function takeLock(file: string): Promise<boolean> {
  try {
    await writeFile(file, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const holder = Number(await readFile(file, 'utf8').catch(() => ''));
  // An empty file is one that its holder is about to fill.
  if (holder > 0 && !isAlive(holder)) await rm(file, { force: true });
  return false;
}
