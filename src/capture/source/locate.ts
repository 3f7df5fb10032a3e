import { realpathSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { isAbsolute, join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  asNamed,
  installedManifest,
  type Manifest,
  nearestManifest,
  readManifest,
} from '../../ground/files.ts';
import { inEachForm } from '../../ground/names.ts';
import { resolveSpecifier } from './resolve-specifier.ts';
import { filesFor, ownFile, resolveOwnFile } from './target-files.ts';
import { isProblem, type Problem } from './wrapper-place.ts';

/** Where a target's module is. */
export type Located =
  /** Real paths of own files: usually one, more where a package has a file for `import` and one for `require`. */
  | { readonly paths: readonly string[] }
  /** A package that others wrote, and the folder that resolves it. */
  | { readonly specifier: string; readonly from: string }
  | Problem;

/** Tells the application's own files (workspace packages included) from packages in node_modules. Reads, never loads. */
export function locate(module: string, baseDir: string): Located {
  if (module.startsWith('file:')) return one(resolveOwnFile(fileURLToPath(module), baseDir));
  if (isPath(module)) return one(resolveOwnFile(asNamed(resolve(baseDir, portable(module))), baseDir));
  if (module.startsWith('#')) return imported(module, baseDir);
  if (isBuiltin(module)) return { specifier: module, from: baseDir };
  return (
    ownPackage(module, baseDir) ??
    forgottenDot(module, baseDir) ?? { specifier: asInstalled(module, baseDir), from: baseDir }
  );
}

/** The file that a path names where there is none: what was built from it may be there. */
export function missingFile(module: string, baseDir: string): string | undefined {
  if (!isPath(module)) return undefined;
  const path = asNamed(resolve(baseDir, portable(module)));
  return filesFor(path).length === 0 ? path : undefined;
}

/** A subpath of a package, in the normal form of Unicode that leads somewhere. */
function asInstalled(module: string, baseDir: string): string {
  const forms = inEachForm(module);
  const from = join(baseDir, 'noop.js');
  const isThere = (form: string) =>
    (['import', 'require'] as const).some((way) => resolveSpecifier(form, from, way) !== undefined);
  return (forms.length === 1 ? undefined : forms.find(isThere)) ?? module;
}

function one(path: string | Problem): Located {
  return typeof path === 'string' ? { paths: [path] } : path;
}

function isPath(module: string): boolean {
  return (
    /^\.{1,2}([\\/]|$)/.test(module) ||
    isAbsolute(module) ||
    module.includes('\\') ||
    /^[A-Za-z]:/.test(module)
  );
}

/** A configuration written on Windows works everywhere. */
function portable(module: string): string {
  return sep === '/' ? module.replaceAll('\\', '/') : module;
}

function imported(module: string, baseDir: string): Located {
  const manifest = nearestManifest(baseDir);
  if (!manifest) return { problem: `no package.json for ${module} in this folder or above it` };
  const targets = mapped(manifest.imports, module);
  if (targets.length === 0) return { problem: `the package.json above has no "imports" entry for ${module}` };
  const [first = ''] = targets;
  if (!targets.some((target) => target.startsWith('.'))) return locate(first, manifest.folder);
  return existing(manifest, targets, module, baseDir);
}

/** A workspace package: linked into node_modules, its files elsewhere. Also the package that baseDir is in, by its name. */
function ownPackage(module: string, baseDir: string): Located | undefined {
  const [, name, rest = ''] = /^((?:@[^/]+\/)?[^/]+)(\/.*)?$/.exec(module) ?? [];
  if (name === undefined) return undefined;
  const self = nearestManifest(baseDir);
  const manifest = self?.name === name && self.exports ? self : linked(name, baseDir);
  if (!manifest) return undefined;
  const targets = manifest.exports
    ? mapped(manifest.exports, `.${rest}`)
    : (rest === '' ? [manifest.main ?? 'index.js'] : [rest]).flatMap((path) => {
        const plain = `./${path.replace(/^\.?\//, '')}`;
        return [plain, `${plain}.js`, `${plain}/index.js`];
      });
  if (targets.length === 0) return { problem: `the package ${name} exports no ".${rest}"` };
  return existing(manifest, targets, module, baseDir);
}

/** The manifest of a package whose real place is outside of any node_modules folder. */
function linked(name: string, baseDir: string): Manifest | undefined {
  const found = installedManifest(name, baseDir);
  const real = found && realpathSync(found.folder);
  return real === undefined || real.split(sep).includes('node_modules') ? undefined : readManifest(real);
}

function existing(manifest: Manifest, targets: readonly string[], module: string, baseDir: string): Located {
  const paths = new Set<string>();
  let problem: Problem | undefined;
  for (const target of targets) {
    const found = ownFile(join(manifest.folder, target), baseDir);
    if (typeof found === 'string') paths.add(found);
    else problem ??= found;
  }
  if (paths.size > 0) return { paths: [...paths] };
  return { problem: `${module} leads nowhere: ${problem?.problem ?? 'no file'}` };
}

/** `src/orders.ts` and `src/orders.js` for `./src/orders.ts`. */
function forgottenDot(module: string, baseDir: string): Problem | undefined {
  const file = resolveOwnFile(resolve(baseDir, module), baseDir);
  return isProblem(Object(file)) || readManifest(join(baseDir, 'node_modules', module))
    ? undefined
    : { problem: `${module} is read as the name of a package (did you mean ./${module}?)` };
}

/** Conditions that never hold in Node. */
const foreignConditions = new Set(['types', 'browser', 'deno', 'bun', 'worker', 'react-native']);

/**
 * What an `exports` or `imports` map may give for a key, under any condition: which one holds is settled when the module
 * is loaded, and differs between `import` and `require`.
 */
function mapped(map: unknown, key: string): string[] {
  if (typeof map === 'string' || Array.isArray(map)) return key === '.' ? leaves(map, '') : [];
  if (typeof map !== 'object' || map === null) return [];
  const entries = map as Record<string, unknown>;
  const isConditions = !Object.keys(entries).some((each) => each.startsWith('.') || each.startsWith('#'));
  if (isConditions) return key === '.' ? leaves(map, '') : [];
  const form = inEachForm(key).find((each) => each in entries);
  if (form !== undefined) return leaves(entries[form], '');
  let best: { pattern: string; star: string } | undefined;
  for (const pattern of Object.keys(entries)) {
    const [before, after] = pattern.split('*');
    if (before === undefined || after === undefined) continue;
    const fits = key.startsWith(before) && key.endsWith(after) && key.length > before.length + after.length;
    const isLonger = !best || before.length > (best.pattern.split('*')[0] ?? '').length;
    if (fits && isLonger) best = { pattern, star: key.slice(before.length, key.length - after.length) };
  }
  return best ? leaves(entries[best.pattern], best.star) : [];
}

function leaves(value: unknown, star: string): string[] {
  if (typeof value === 'string') return [value.replaceAll('*', star)];
  if (Array.isArray(value)) return value.flatMap((each) => leaves(each, star));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([condition, each]) =>
    foreignConditions.has(condition) ? [] : leaves(each, star),
  );
}
