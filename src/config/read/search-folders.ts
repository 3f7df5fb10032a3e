import { dirname, join } from 'node:path';
import { isFile } from '../../ground/folders.ts';
import { hasManifest, readManifest } from '../../ground/manifest.ts';
import { isOpenToStrangers } from './foreign-file.ts';

/** Files that mark the root of a workspace, beside `workspaces` in its package.json. */
const workspaceFiles = ['pnpm-workspace.yaml', 'lerna.json', 'rush.json'];

/** What a package.json holds that only tells Node how to read the files of one folder, as in `dist/cjs`. */
const markerFields = ['type', 'sideEffects', 'private'];

/**
 * Where a configuration is looked for, nearest first: from `cwd` to the nearest package.json of a project, and on to the root
 * of the workspace it belongs to. Without a package.json, `cwd` alone. What lies beyond is none of the application's, nor is
 * a folder above in which others may put files.
 */
export function searchFolders(cwd: string): readonly string[] {
  const folders = [cwd];
  for (let folder = dirname(cwd); folder !== folders.at(-1); folder = dirname(folder)) {
    if (isOpenToStrangers(folder, cwd)) break;
    folders.push(folder);
  }
  let project = folders.findIndex((folder) => hasManifest(folder) && !isMarker(folder));
  if (project < 0) project = folders.findIndex(hasManifest);
  if (project < 0) return [cwd];
  const workspace = folders.findIndex((folder, index) => index >= project && isWorkspace(folder));
  return folders.slice(0, Math.max(project, workspace) + 1);
}

/** One that cannot be read ends the search as any other does. */
function isMarker(folder: string): boolean {
  return readManifest(folder)?.fieldNames.every((field) => markerFields.includes(field)) ?? false;
}

function isWorkspace(folder: string): boolean {
  if (readManifest(folder)?.fieldNames.includes('workspaces')) return true;
  return workspaceFiles.some((name) => isFile(join(folder, name)));
}
