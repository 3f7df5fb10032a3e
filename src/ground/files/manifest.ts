import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isFile } from './folders.ts';

/** What svc reads of a package.json. A field of the wrong type is one that is not there. */
export interface Manifest {
  readonly folder: string;
  /** The names of all its fields. */
  readonly fieldNames: readonly string[];
  readonly name: string | undefined;
  readonly version: string | undefined;
  readonly type: string | undefined;
  readonly main: string | undefined;
  readonly exports: unknown;
  readonly scripts: ReadonlyMap<string, string>;
  readonly imports: unknown;
  /** The names of `dependencies` and `optionalDependencies`. */
  readonly dependencies: readonly string[];
  /** The names of `peerDependencies`. */
  readonly peerDependencies: readonly string[];
  /** The names of `devDependencies`. */
  readonly devDependencies: readonly string[];
}

/** The nearest package.json that is wanted, from a folder upwards. */
export function nearestManifest(
  start: string,
  isWanted: (manifest: Manifest) => boolean = () => true,
): Manifest | undefined {
  for (let folder = start; ; folder = dirname(folder)) {
    const found = readManifest(folder);
    if (found !== undefined && isWanted(found)) return found;
    if (dirname(folder) === folder) return undefined;
  }
}

/** Of the package that a folder gets by this name, links and all. */
export function installedManifest(name: string, from: string): Manifest | undefined {
  for (let at = from; ; at = dirname(at)) {
    const found = readManifest(join(at, 'node_modules', name));
    if (found !== undefined || dirname(at) === at) return found;
  }
}

/** `undefined` where there is none, and for one that is not readable as JSON: Node says so itself when it needs the file. */
export function readManifest(folder: string): Manifest | undefined {
  if (!hasManifest(folder)) return undefined;
  try {
    const raw = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<string, unknown>;
    const text = (key: string) => (typeof raw[key] === 'string' ? raw[key] : undefined);
    return {
      folder,
      fieldNames: Object.keys(raw),
      name: text('name'),
      version: text('version'),
      type: text('type'),
      main: text('main'),
      exports: raw.exports,
      scripts: textsOf(raw.scripts),
      imports: raw.imports,
      dependencies: [...namesOf(raw.dependencies), ...namesOf(raw.optionalDependencies)],
      peerDependencies: namesOf(raw.peerDependencies),
      devDependencies: namesOf(raw.devDependencies),
    };
  } catch {
    return undefined;
  }
}

function namesOf(value: unknown): string[] {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
}

function textsOf(value: unknown): Map<string, string> {
  if (typeof value !== 'object' || value === null) return new Map();
  return new Map(Object.entries(value).filter(([, text]) => typeof text === 'string'));
}

/** Whether there is one, readable or not. */
export function hasManifest(folder: string): boolean {
  return isFile(join(folder, 'package.json'));
}
