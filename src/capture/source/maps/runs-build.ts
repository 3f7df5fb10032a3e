import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { entryFile } from '../late-start.ts';
import { listName } from './listed-places.ts';
import { mapUrl } from './map-url.ts';

/** Whether this process may run what was built from files that are not there: one that is listed, Next.js' build, or an entry with a source map. */
export function runsBuild(baseDir: string): boolean {
  if (['.next/BUILD_ID', listName].some((file) => existsSync(join(baseDir, file)))) return true;
  const entry = entryFile();
  if (entry === undefined) return false;
  try {
    return existsSync(`${entry}.map`) || mapUrl(readFileSync(entry, 'utf8')) !== undefined;
  } catch {
    return false;
  }
}
