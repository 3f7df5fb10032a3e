import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The parts of a package.json that say where modules are. */
export interface Manifest {
  readonly folder: string;
  readonly name: string | undefined;
  readonly type: string | undefined;
  readonly main: string | undefined;
  readonly exports: unknown;
  readonly imports: unknown;
}

/** The package.json that is in force for a folder. */
export function nearestManifest(folder: string): Manifest | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const found = readManifest(at);
    if (found || dirname(at) === at) return found;
  }
}

export function readManifest(folder: string): Manifest | undefined {
  const file = join(folder, 'package.json');
  try {
    if (!existsSync(file)) return undefined;
    const raw = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
    const text = (key: string) => (typeof raw[key] === 'string' ? raw[key] : undefined);
    return {
      folder,
      name: text('name'),
      type: text('type'),
      main: text('main'),
      exports: raw.exports,
      imports: raw.imports,
    };
  } catch {
    // Not readable as JSON: Node says so itself when it needs the file.
    return undefined;
  }
}

/** Conditions that never hold in Node. */
const foreignConditions = new Set(['types', 'browser', 'deno', 'bun', 'worker', 'react-native']);

/**
 * What an `exports` or `imports` map may give for a key, under any condition: which one holds is settled when the module
 * is loaded, and differs between `import` and `require`.
 */
export function mapped(map: unknown, key: string): string[] {
  if (typeof map === 'string' || Array.isArray(map)) return key === '.' ? leaves(map, '') : [];
  if (typeof map !== 'object' || map === null) return [];
  const entries = map as Record<string, unknown>;
  const isConditions = !Object.keys(entries).some((each) => each.startsWith('.') || each.startsWith('#'));
  if (isConditions) return key === '.' ? leaves(map, '') : [];
  if (key in entries) return leaves(entries[key], '');
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

/** Whether Node loads the file as an ES module, by its name and its package. Plain syntax detection is not foreseen here. */
export function isEsModule(path: string): boolean {
  if (/\.m[jt]s$/.test(path)) return true;
  return !/\.c[jt]s$/.test(path) && nearestManifest(dirname(path))?.type === 'module';
}
