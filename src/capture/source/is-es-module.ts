import { dirname } from 'node:path';
import { nearestManifest } from '../../ground/manifest.ts';

/** Whether Node loads the file as an ES module, by its name and its package. Plain syntax detection is not foreseen here. */
export function isEsModule(path: string): boolean {
  if (/\.m[jt]s$/.test(path)) return true;
  return !/\.c[jt]s$/.test(path) && nearestManifest(dirname(path))?.type === 'module';
}
