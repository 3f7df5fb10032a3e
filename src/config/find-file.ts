import { statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileVariable } from './env.ts';

/** In the order in which they are taken when a folder holds several. */
export const fileNames: readonly string[] = ['yaml', 'yml', 'json', 'mjs', 'ts'].map(
  (ending) => `svc.config.${ending}`,
);

export interface FoundFile {
  /** Absolute. */
  readonly path: string;
  /** `SVC_CONFIG` named it, so it has to be there. */
  readonly isNamed: boolean;
  /** Further configuration files of the same folder, which are not read. */
  readonly ignored: readonly string[];
}

/** The configuration file: the one that `SVC_CONFIG` names, else the first from the working directory upwards. */
export function findFile(cwd: string, named: string | undefined): FoundFile | undefined {
  if (named !== undefined && named.trim() !== '')
    return { path: resolve(cwd, named.trim()), isNamed: true, ignored: [] };
  for (let folder = cwd; ; folder = dirname(folder)) {
    const [first, ...ignored] = fileNames.filter((name) => exists(join(folder, name)));
    if (first !== undefined) return { path: join(folder, first), isNamed: false, ignored };
    if (dirname(folder) === folder) return undefined;
  }
}

/** Where `findFile` looked in vain, and what to do. */
export function notFoundMessage(cwd: string): string {
  return (
    `no configuration: looked for svc.config.{yaml,yml,json,mjs,ts} in ${cwd} and the folders above it, ` +
    `and for environment variables that begin with SVC_. Create svc.config.yaml, or name a file in ${fileVariable}.`
  );
}

function exists(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // A folder that may not be looked into, or a file in the place of a folder.
    return false;
  }
}
