import { realpathSync } from 'node:fs';
import { createRequire, isBuiltin } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { installedManifest, isFile, type Manifest, nearestManifest } from '../../ground/files.ts';

/** How a module loads another one: it decides the conditions of package.json and the rules for extensions. */
type Way = 'import' | 'require';

/** The real path of a specifier's file; `undefined` for a missing file or a Node module. Loads nothing. */
export function resolveSpecifier(specifier: string, from: string, way: Way): string | undefined {
  try {
    if (isBuiltin(specifier) || specifier.startsWith('node:')) return undefined;
    const found = way === 'require' ? createRequire(from).resolve(specifier) : imported(specifier, from);
    return found === undefined || !isFile(found) ? undefined : realpathSync(found);
  } catch {
    return undefined;
  }
}

/** `@scope/name/sub` -> `@scope/name`. */
export function packageName(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
}

function imported(specifier: string, from: string): string | undefined {
  const plain = specifier.replace(/[?#](?!.*node_modules).*$/s, (rest) =>
    specifier.startsWith('#') ? rest : '',
  );
  const folder = path.dirname(from);
  if (plain.startsWith('file:')) return fileURLToPath(plain);
  if (/^\.{0,2}\//.test(plain)) return path.resolve(folder, decodeURIComponent(plain));
  const around = nearestManifest(folder);
  if (plain.startsWith('#')) {
    const target = around && targetOf(around.imports, plain);
    if (around === undefined || target === undefined) return undefined;
    return target.startsWith('./') ? path.join(around.folder, target) : imported(target, from);
  }
  const name = packageName(plain);
  const subpath = `.${plain.slice(name.length)}`;
  if (around?.name === name && around.exports !== undefined) return exported(around, subpath);
  const manifest = installedManifest(name, folder);
  return manifest && exported(manifest, subpath);
}

function exported({ folder, exports, main }: Manifest, subpath: string): string | undefined {
  if (exports !== undefined && exports !== null) {
    const target = targetOf(asSubpaths(exports), subpath);
    return target === undefined ? undefined : path.join(folder, target);
  }
  if (subpath !== '.') return path.join(folder, subpath);
  const tried =
    main === undefined ? [] : [main, `${main}.js`, `${main}.json`, `${main}.node`, `${main}/index.js`];
  return [...tried, 'index.js'].map((each) => path.join(folder, each)).find(isFile);
}

function asSubpaths(exports: unknown): unknown {
  const isMap = typeof exports === 'object' && exports !== null && !Array.isArray(exports);
  return isMap && Object.keys(exports).some((key) => key.startsWith('.')) ? exports : { '.': exports };
}

/** The value of a key in an `exports` or `imports` map: the exact one, else that of the longest pattern. */
function targetOf(map: unknown, key: string): string | undefined {
  if (typeof map !== 'object' || map === null) return undefined;
  const entries = map as Record<string, unknown>;
  if (Object.hasOwn(entries, key) && !key.includes('*')) return holding(entries[key], '');
  const patterns = Object.keys(entries)
    .map((pattern) => [pattern, ...pattern.split('*')] as const)
    .filter(
      ([, before = '', after]) =>
        after !== undefined &&
        key.startsWith(before) &&
        key.endsWith(after) &&
        key.length > before.length + after.length,
    )
    .sort(
      ([one, start = ''], [other, begin = '']) => begin.length - start.length || other.length - one.length,
    );
  const [best] = patterns;
  if (best === undefined) return undefined;
  const [pattern, before = '', after = ''] = best;
  return holding(entries[pattern], key.slice(before.length, key.length - after.length));
}

function holding(value: unknown, star: string): string | undefined {
  if (typeof value === 'string') return value.replaceAll('*', star);
  if (Array.isArray(value)) return holding(value[0], star);
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [condition, each] of Object.entries(value)) {
    if (!conditions().has(condition)) continue;
    const found = holding(each, star);
    if (found !== undefined) return found;
  }
  return undefined;
}

let known: ReadonlySet<string> | undefined;

function conditions(): ReadonlySet<string> {
  known ??= new Set(['node', 'import', 'module-sync', 'node-addons', 'default', ...givenConditions()]);
  return known;
}

export const nodeFlags = (): string[] => [
  ...(process.env.NODE_OPTIONS ?? '').split(/\s+/),
  ...process.execArgv,
];

function givenConditions(): string[] {
  const flags = nodeFlags();
  return flags.flatMap((flag, at) => {
    const [name, value] = flag.split('=', 2);
    if (name !== '-C' && name !== '--conditions') return [];
    return [value ?? flags[at + 1] ?? ''];
  });
}
