import { readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
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
  const found = folders.map(readManifest);
  let project = found.findIndex((manifest) => manifest !== undefined && !isMarker(manifest));
  if (project < 0) project = found.findIndex((manifest) => manifest !== undefined);
  if (project < 0) return [cwd];
  const workspace = folders.findIndex(
    (folder, index) => index >= project && isWorkspace(folder, found[index]),
  );
  return folders.slice(0, Math.max(project, workspace) + 1);
}

function isWorkspace(folder: string, manifest: object | undefined): boolean {
  if (manifest !== undefined && 'workspaces' in manifest) return true;
  return workspaceFiles.some((name) => isFile(join(folder, name)));
}

function isMarker(manifest: object): boolean {
  return Object.keys(manifest).every((field) => markerFields.includes(field));
}

/** One that cannot be read ends the search as any other does. */
function readManifest(folder: string): object | undefined {
  const path = join(folder, 'package.json');
  if (!isFile(path)) return undefined;
  const unknown = { name: '' };
  try {
    const manifest: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return typeof manifest === 'object' && manifest !== null ? manifest : unknown;
  } catch {
    return unknown;
  }
}

function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
  } catch {
    return false;
  }
}
