import { statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { isFile } from '../../ground/files/folders.ts';
import { isOpenToStrangers } from '../../ground/files/foreign-file.ts';
import { hasManifest, readManifest } from '../../ground/files/manifest.ts';
import { fileVariable } from './env.ts';

/** In the order in which they are taken when a folder holds several. */
export const fileNames: readonly string[] = ['yaml', 'yml', 'json', 'mjs', 'ts'].map(
  (ending) => `svc.config.${ending}`,
);

export interface FoundFile {
  /** Absolute. */
  readonly path: string;
  /** `SVC_CONFIG` or `--config`, which asked for this very file: it has to be there. */
  readonly namedBy?: string | undefined;
  /** Further configuration files of the same folder, which are not read. */
  readonly ignored: readonly string[];
}

/** Who can name a file, the strongest first, and which one. */
export type NamedFile = Readonly<Record<string, string | undefined>>;

/** The configuration file: the one that is named, else the first from the working directory up to the project's root. */
export function findFile(cwd: string, named: NamedFile): FoundFile | undefined {
  for (const [namedBy, name = ''] of Object.entries(named))
    if (name.trim() !== '') return { path: resolve(cwd, name.trim()), namedBy, ignored: [] };
  for (const folder of searchFolders(cwd)) {
    const [first, ...ignored] = filesIn(folder);
    if (first !== undefined) return { path: join(folder, first), ignored };
  }
  return undefined;
}

/** Where `findFile` looked in vain, and what to do. */
export function notFoundMessage(cwd: string): string {
  const folders = searchFolders(cwd);
  const last = folders.length > 1 ? ` and the folders above it up to ${folders.at(-1)}` : '';
  return (
    `no configuration: looked for svc.config.{yaml,yml,json,mjs,ts} in ${cwd}${last}, ` +
    `and for environment variables that begin with SVC_. ${beyond(folders.at(-1) ?? cwd)}` +
    `Create svc.config.yaml (npx --no svc init), or name a file in ${fileVariable}.`
  );
}

/** A file above the project, which earlier versions took. */
function beyond(last: string): string {
  for (let folder = dirname(last); ; folder = dirname(folder)) {
    const [first] = filesIn(folder);
    if (first !== undefined) return `${join(folder, first)} lies outside the project and is not read. `;
    if (dirname(folder) === folder) return '';
  }
}

function filesIn(folder: string): string[] {
  return fileNames.filter((name) => exists(join(folder, name)));
}

function exists(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // A folder that may not be looked into, or a file in the place of a folder.
    return false;
  }
}

/** Files that mark the root of a workspace, beside `workspaces` in its package.json. */
const workspaceFiles = ['pnpm-workspace.yaml', 'lerna.json', 'rush.json'];

/** What a package.json holds that only tells Node how to read the files of one folder, as in `dist/cjs`. */
const markerFields = ['type', 'sideEffects', 'private'];

/**
 * Where a configuration is looked for, nearest first: from `cwd` to the nearest package.json of a project, and on to the root
 * of the workspace it belongs to. Without a package.json, `cwd` alone. What lies beyond is none of the application's, nor is
 * a folder above in which others may put files.
 */
function searchFolders(cwd: string): readonly string[] {
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
