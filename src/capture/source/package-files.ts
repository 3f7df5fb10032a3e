import { realpathSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { installedManifest, readManifest } from '../../ground/files.ts';
import type { Definition, Follower } from './follow-export.ts';
import { parseFunctionPath } from './function-path.ts';
import { packageName, resolveSpecifier, type Way } from './resolve-specifier.ts';
import type { SourceEvents, SourceTarget } from './rewrite-text.ts';
import { isProblem } from './wrapper-place.ts';

/** One package that svc changes where Node loads it. Crosses to the loader thread: plain data. */
export interface SoughtPackage {
  /** As the application imports it: `stripe`, `@scope/name/sub`. */
  readonly specifier: string;
  /** Absolute; where it is resolved from. */
  readonly from: string;
  /** Functions to capture, as configured. */
  readonly targets: readonly SourceTarget[];
  /** What svc changes in its exports is known by this key; `undefined` where there is nothing but targets. */
  readonly patch: string | undefined;
}

/** What is to be done in one file of a package. The ids of its targets are those of `inBuilds`. */
export interface PackageFile {
  readonly targets: readonly SourceTarget[];
  /** What the file would have to export, as the entry of a build, and does not. */
  readonly missing: readonly { readonly id: string; readonly problem: string }[];
  /** Keys of what gets the exports when the file has run. */
  readonly patches: readonly string[];
}

/** Tells what is to be done in a file that is being loaded, by its real path. Asked for every module: the usual no is quick. */
export type PackageFiles = (path: string) => PackageFile | undefined;

/**
 * One target in the builds of its package: what `import` loads, what `require` loads, and the folders of other copies. The same text
 * in the loader thread, and in the calls that are inserted.
 */
function inBuilds(id: string, builds: Iterable<string>): string {
  return [id, ...builds].join('\n');
}

/** The target that is meant, and in which builds of its package; none for a file of the application's own. */
export function buildsOf(id: string): {
  readonly id: string;
  readonly builds: readonly string[] | undefined;
} {
  const [plain = '', ...builds] = id.split('\n');
  return { id: plain, builds: builds.length === 0 ? undefined : builds };
}

interface Sought {
  readonly each: SoughtPackage;
  readonly name: string;
  /** The folder that the application itself gets. */
  readonly folder: string | undefined;
}

/**
 * Reads nothing before the first file of one of the packages, or of what it depends on, is loaded: then the ways of its targets
 * are followed. Never throws. `follow`: made when it is needed, because it loads the parser.
 */
export function packageFiles(
  packages: readonly SoughtPackage[],
  follow: () => Follower,
  events: SourceEvents,
): PackageFiles {
  const byName = new Map<string, Sought[]>();
  const known: Known = new Map();
  const done = new Set<string>();

  const sought = packages
    .filter(({ specifier }) => !isBuiltin(specifier))
    .map((each): Sought => {
      const name = packageName(each.specifier);
      const manifest = installedManifest(name, each.from);
      return { each, name, folder: manifest && realPath(manifest.folder) };
    });
  const listen = (name: string, one: Sought) => {
    const list = byName.get(name) ?? [];
    if (!list.includes(one)) byName.set(name, [...list, one]);
  };
  for (const one of sought) {
    listen(one.name, one);
    if (one.folder === undefined) continue;
    // A package may be installed under another name than its own.
    const own = placeIn(`${one.folder}/`);
    if (own) listen(own.name, one);
    // What it hands on may be loaded before it.
    const manifest = one.each.targets.length > 0 ? readManifest(one.folder) : undefined;
    for (const name of manifest?.dependencies ?? []) listen(name, one);
  }
  if (sought.length === 0) return () => undefined;

  let follower: Follower | undefined;
  const search = ({ each, folder }: Sought, at: string) => {
    const key = `${each.from}\n${each.specifier}\n${at}`;
    if (done.has(key)) return;
    done.add(key);
    // Another copy is found from beside it.
    const from = at === folder ? each.from : (placeIn(`${at}/`)?.owner ?? at);
    followAll(each, from, at === folder ? undefined : at, () => (follower ??= follow()), known);
  };
  /** When the entry itself is loaded: of two builds the other one may stay where it is. */
  const tell = (file: PackageFile | undefined): PackageFile | undefined => {
    for (const { id, problem } of file?.missing ?? []) events.problem(id, problem);
    return file;
  };

  const real = new Map<string, string>();
  /** Of links that Node keeps it is the application's own copy as well. */
  const realFolder = (folder: string): string => {
    const known = real.get(folder) ?? realPath(folder);
    real.set(folder, known);
    return known;
  };

  return (path) => {
    const place = placeIn(path);
    if (place === undefined) return tell(known.get(path));
    const wanted = byName.get(place.name);
    if (wanted === undefined) return tell(known.get(path));
    for (const one of wanted) {
      // Of what it depends on, and under another name, it is the copy of the application.
      const at = one.name === place.name ? realFolder(place.folder) : one.folder;
      if (at !== undefined) search(one, at);
    }
    return tell(known.get(path)) ?? nothing;
  };
}

type Known = Map<
  string,
  { targets: SourceTarget[]; patches: string[]; missing: PackageFile['missing'][number][] }
>;

/** Adds to `known` what is to be done in which file of a package, as a folder sees that. `copy`: the folder of one that the application does not get. */
function followAll(
  each: SoughtPackage,
  from: string,
  copy: string | undefined,
  follow: () => Follower,
  known: Known,
): void {
  const fileOf = (path: string) => {
    const file = known.get(path) ?? { targets: [], patches: [], missing: [] };
    known.set(path, file);
    return file;
  };
  const entries = new Map<string, string[]>();
  for (const way of ['import', 'require'] satisfies Way[]) {
    const entry = resolveSpecifier(each.specifier, join(from, 'noop.js'), way);
    if (entry !== undefined)
      entries.set(entry, copy === undefined ? [...(entries.get(entry) ?? []), way] : [copy]);
  }
  for (const entry of entries.keys())
    if (each.patch !== undefined && !fileOf(entry).patches.includes(each.patch))
      fileOf(entry).patches.push(each.patch);
  for (const target of each.targets) {
    const path = parseFunctionPath(target.functionPath);
    if (isProblem(path)) continue;
    const found = new Map<string, { readonly definition: Definition; readonly builds: Set<string> }>();
    for (const [entry, builds] of entries) {
      const definitions = follow().follow(entry, path.names);
      if (definitions.length === 0)
        fileOf(entry).missing.push({
          id: inBuilds(target.id, builds),
          problem: follow().missing(entry, path.names),
        });
      for (const definition of definitions) {
        const key = `${definition.file}\n${definition.names?.join('.')}`;
        const one = found.get(key) ?? { definition, builds: new Set() };
        for (const build of builds) one.builds.add(build);
        found.set(key, one);
      }
    }
    for (const { definition, builds } of found.values())
      add(fileOf(definition.file).targets, asTarget(inBuilds(target.id, builds), definition, path.result));
  }
}

/** For `svc check`: the same, of a package that the application itself gets, before anything of it is loaded. */
export function filesOfPackage(
  each: SoughtPackage,
  follow: () => Follower,
): ReadonlyMap<string, PackageFile> {
  const known: Known = new Map();
  followAll(each, each.from, undefined, follow, known);
  return known;
}

/** What a text of CommonJS does not show is looked for in its exports: then, it is no problem yet. */
export function untold(targets: readonly SourceTarget[], events: SourceEvents): [SourceEvents, Set<string>] {
  const inserted = new Set<string>();
  const waiting = new Set(targets.filter(({ exported }) => exported !== undefined).map(({ id }) => id));
  const told: SourceEvents = {
    ...events,
    found(id, ...rest) {
      const isTaken = events.found(id, ...rest);
      // A plan that cannot be made for it cannot be made for its export either.
      inserted.add(id);
      return isTaken;
    },
    problem(id, ...rest) {
      if (!waiting.has(id)) events.problem(id, ...rest);
    },
  };
  return [told, inserted];
}

const nothing: PackageFile = { targets: [], patches: [], missing: [] };

function add(list: SourceTarget[], target: SourceTarget): void {
  const { id } = buildsOf(target.id);
  if (!list.some((each) => buildsOf(each.id).id === id && each.functionPath === target.functionPath))
    list.push(target);
}

function asTarget(id: string, definition: Definition, result: readonly string[] | undefined): SourceTarget {
  const { names, exported, isModule, isAssignable } = definition;
  const returned = result === undefined ? '' : `()${result.map((each) => `.${each}`).join('')}`;
  const [binding, ...path] = names ?? [];
  return {
    id,
    // Without names it is looked for in the exports alone.
    functionPath: names === undefined ? '' : names.join('.') + returned,
    exported,
    late:
      isModule && binding !== undefined && binding !== 'default'
        ? { binding, path, isAssignable }
        : undefined,
  };
}

/** The package of a file in node_modules. */
function placeIn(path: string): { name: string; folder: string; owner: string } | undefined {
  const at = Math.max(path.lastIndexOf('/node_modules/'), path.lastIndexOf('\\node_modules\\'));
  if (at < 0) return undefined;
  const start = at + '/node_modules/'.length;
  const [first = '', second = ''] = path.slice(start).split(/[\\/]/, 2);
  const length = first.startsWith('@') ? first.length + 1 + second.length : first.length;
  const name = first.startsWith('@') ? `${first}/${second}` : first;
  return { name, folder: path.slice(0, start + length), owner: path.slice(0, at) };
}

export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
