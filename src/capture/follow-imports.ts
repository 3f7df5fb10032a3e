import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, relative, resolve, sep } from 'node:path';
import type { Node, Program } from 'oxc-parser';
import { memberPath, stringOf, walk } from './source/find/syntax.ts';
import { isEsModule } from './source/is-es-module.ts';
import { locate } from './source/locate.ts';
import { filesFor } from './source/own-file.ts';
import { lineAt, parse } from './source/parse-text.ts';
import { isProblem } from './source/wrapper-place.ts';

/** What a start loads, as far as reading shows it. */
export interface Followed {
  /** Real paths of the application's own files. More than it loads, where loaders differ. */
  readonly files: ReadonlySet<string>;
  /** What names a file that only the running application knows, or that reading does not find: `src/plugins.js:12`. */
  readonly unknown: readonly string[];
  /** How packages are loaded, by specifier: `import`, `require`, or both. Without what only a loader of TypeScript decides. */
  readonly packages: ReadonlyMap<string, ReadonlySet<string>>;
}

/** An application has fewer; beyond these the search ends. */
const mostFiles = 5_000;
const script = /\.[cm]?[jt]sx?$/;

/** Follows `import`, `export … from`, `require()` and `import()` of the entries, into own files alone: not into node_modules. */
export function followImports(entries: readonly string[], baseDir: string): Followed {
  const files = new Set(entries.map((entry) => realpathSync(entry)));
  const unknown: string[] = [];
  const packages = new Map<string, Set<string>>();
  for (const file of files) {
    if (!script.test(file) || file.split(sep).includes('node_modules')) continue;
    if (files.size > mostFiles) break;
    const text = readFileSync(file, 'utf8');
    const place = (line: number) => `${relative(baseDir, file).replaceAll('\\', '/')}:${line}`;
    const goal = isEsModule(file) ? 'module' : 'unknown';
    const kind = { goal, typed: /\.[cm]?tsx?$/.test(file) } as const;
    const parsed = parse(file, text, kind, { names: ['require', 'import', 'export'] });
    if (isProblem(parsed)) {
      unknown.push(place(1));
      continue;
    }
    for (const { specifier, at, by } of specifiersIn(parsed.program, callsLoad.test(text))) {
      const isDecided = !(by === 'import' && kind.typed && goal === 'unknown');
      if (specifier !== undefined && isDecided && !/^[./]/.test(specifier))
        packages.set(specifier, (packages.get(specifier) ?? new Set()).add(by));
      const found = specifier === undefined ? undefined : filesOf(specifier, file);
      if (found === undefined) unknown.push(place(lineAt(text, at)));
      else for (const each of found) files.add(each);
    }
  }
  return { files, unknown, packages };
}

interface Specifier {
  /** `undefined`: it is made at run time. */
  readonly specifier: string | undefined;
  readonly at: number;
  readonly by: 'import' | 'require';
}

/** Below the top of a module nothing else can load one, and reading all of a file takes three times as long. */
const callsLoad = /\brequire\b|\bimport\b[^'"]{0,100}\(/;

function specifiersIn(program: Program, isDeep: boolean): Specifier[] {
  const found: Specifier[] = [];
  const add = (node: Node, source: Node | undefined, by: Specifier['by'] = 'import') =>
    found.push({ specifier: source && stringOf(source), at: node.start, by });
  for (const node of walk(program.body, (each) => !isDeep || isSpecified(each)))
    switch (node.type) {
      case 'ImportDeclaration':
        if (node.importKind !== 'type') add(node, node.source);
        break;
      case 'ExportAllDeclaration':
        if (node.exportKind !== 'type') add(node, node.source);
        break;
      case 'ExportNamedDeclaration':
        if (node.source && node.exportKind !== 'type') add(node, node.source);
        break;
      case 'TSExternalModuleReference':
        add(node, node.expression, 'require');
        break;
      case 'ImportExpression':
        add(node, node.source);
        break;
      case 'CallExpression':
        if (memberPath(node.callee) === 'require') add(node, node.arguments[0], 'require');
        break;
    }
  return found;
}

/** There is nothing but the specifier in it. */
function isSpecified({ type }: Node): boolean {
  return (
    type === 'ImportDeclaration' || type === 'ExportAllDeclaration' || type === 'TSExternalModuleReference'
  );
}

/** Own files that a specifier may mean; none for a package, `undefined` where nothing is found. */
function filesOf(specifier: string, from: string): string[] | undefined {
  const folder = dirname(from);
  if (/^\.{1,2}(\/|$)/.test(specifier)) {
    const [first, ...others] = filesFor(resolve(folder, specifier.replace(/[?#].*$/, '')));
    if (first === undefined) return undefined;
    // Loaders of TypeScript take `orders.ts` for `./orders.js` even where both are there; Node alone does not.
    const all = /\.[cm]?js$/.test(from) && /\.[cm]?js$/.test(first) ? [first] : [first, ...others];
    return all.map((file) => realpathSync(file));
  }
  const located = locate(specifier, folder);
  if (isProblem(located)) return undefined;
  if ('paths' in located) return [...located.paths];
  return isInstalled(located.specifier, from) ? [] : undefined;
}

function isInstalled(specifier: string, from: string): boolean {
  const load = createRequire(from);
  try {
    return load.resolve(specifier) !== '';
  } catch (error) {
    const [name = ''] = /^(@[^/]+\/)?[^/]+/.exec(specifier) ?? [];
    const isThere = load.resolve.paths(specifier)?.some((folder) => existsSync(resolve(folder, name)));
    return (error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND' || isThere === true;
  }
}
