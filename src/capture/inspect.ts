import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { createRequire, isBuiltin } from 'node:module';
import { dirname, join, relative, resolve, sep } from 'node:path';
import type { Node, Program } from 'oxc-parser';
import type { Config } from '../config/config.ts';
import type { TargetConfig } from '../config/schema/target.ts';
import { scriptsBelow } from './bundlers.ts';
import { planOfTarget } from './declare/make-plan.ts';
import { parseExpression } from './expression/compile.ts';
import { inspectPackageTarget } from './packages/hook.ts';
import { inPlaceOf, type TargetReport } from './report.ts';
import { compiledFrom } from './source/compiled-from.ts';
import { type Follower, follower } from './source/follow-export.ts';
import { parseFunctionPath } from './source/function-path.ts';
import { inspectBuilt } from './source/inspect-built.ts';
import { entryFile } from './source/late-start.ts';
import { hashOf, readList } from './source/listed-places.ts';
import { isEsModule, lineAt, parse } from './source/parse-text.ts';
import { findAll, type SourceEvents } from './source/rewrite-text.ts';
import { memberPath, stringOf, walk } from './source/syntax.ts';
import {
  buildsOf,
  filesFor,
  filesOfPackage,
  inBuilds,
  locate,
  missingFile,
  shownPath,
  untold,
} from './source/target-files.ts';
import { isProblem, messageOf } from './source/wrapper-place.ts';
import { type CaptureTarget, TargetRecord } from './target-record.ts';

/** How the application loads a package, by its specifier; `undefined` if unknown. */
type LoadedBy = (specifier: string) => ReadonlySet<string> | undefined;

/**
 * For `svc check`, without loading the application: which targets exist (`found`) and which cannot be captured
 * (`failed`). Exports that a package computes are known only once it is loaded: `pending`.
 */
export function inspect(
  targets: readonly CaptureTarget[],
  options: {
    readonly baseDir: string;
    readonly loadedBy?: LoadedBy;
  },
): TargetReport[] {
  const { baseDir, loadedBy } = options;
  const inFiles: InFiles = new Map();
  let made: Follower | undefined;
  const follow = () => (made ??= follower());
  const records = targets.map((target) => {
    const record = new TargetRecord(
      target,
      () => {},
      // A start meets a build when it loads it; here the build may never be loaded.
      (build) => loadedBy?.(target.module)?.has(build) === true,
    );
    guarded([record], () => check(record, baseDir, inFiles, follow));
    return record;
  });
  // Once for each file, as a start does: it may have thousands of targets.
  for (const [file, list] of inFiles)
    guarded(
      list.map(({ record }) => record),
      () => checkFile(list, file),
    );
  return records.map((record) => record.report());
}

type InFiles = Map<string, PendingTargets[]>;

interface PendingTargets {
  readonly record: TargetRecord;
  /** The builds of its package that this file belongs to. */
  readonly builds: readonly string[];
}

function guarded(records: readonly TargetRecord[], work: () => void): void {
  try {
    work();
  } catch (error) {
    for (const record of records) record.failed(messageOf(error));
  }
}

function check(record: TargetRecord, baseDir: string, inFiles: InFiles, follow: () => Follower): void {
  const { functionPath, module } = record.target;
  const path = parseFunctionPath(functionPath);
  const located = isProblem(path) ? path : locate(module, baseDir);
  if (isProblem(located)) record.failed(located.problem);
  else if ('specifier' in located) checkPackage(record, located.specifier, located.from, follow);
  else
    for (const file of located.paths) {
      const list = inFiles.get(file);
      const pending = { record, builds: located.builds?.get(file) ?? [] };
      if (list) list.push(pending);
      else inFiles.set(file, [pending]);
    }
}

function checkPackage(record: TargetRecord, specifier: string, from: string, follow: () => Follower): void {
  const { functionPath, id } = record.target;
  const slotFor = (names: readonly string[] | undefined) => record.slotFor(names);
  const problem = inspectPackageTarget({ id, specifier, functionPath, baseDir: from, slotFor });
  if (problem !== undefined) {
    record.failed(problem);
    return;
  }
  const events = eventsOf(() => record);
  const pending = { specifier, from, targets: [{ id, functionPath }], patch: undefined };
  for (const [file, { targets, missing }] of filesOfPackage(pending, follow)) {
    for (const each of missing) events.problem(each.id, each.problem);
    const goal = isEsModule(file) ? 'module' : 'unknown';
    const [told, inserted] = goal === 'unknown' ? untold(targets, events) : [events];
    const inText = targets.filter((each) => each.functionPath !== '');
    if (inText.length > 0) findAll(file, readFileSync(file, 'utf8'), { goal, typed: false }, inText, told);
    if (inserted?.size !== 0) continue;
    const builds = targets.flatMap((each) => buildsOf(each.id).builds ?? []);
    record.unseen(known, [...new Set(builds)]);
  }
  if (isBuiltin(specifier)) record.note(known);
}

const known = 'a package: its exports are known once it is loaded';

function eventsOf(recordOf: (id: string) => TargetRecord): SourceEvents {
  return {
    found(part, parameterNames, defaulted) {
      const { id, builds } = buildsOf(part);
      const record = recordOf(id);
      guarded([record], () => {
        record.slotFor(parameterNames);
        const note = defaultsNote(record.target.expressions ?? [], parameterNames ?? [], defaulted ?? []);
        if (note !== undefined) record.note(note);
        record.found(builds);
      });
      return true;
    },
    problem(part, reason) {
      const { id, builds } = buildsOf(part);
      const record = recordOf(id);
      if (!record.isDone(builds)) record.failed(reason, builds);
    },
    unseen(part, reason) {
      const { id, builds } = buildsOf(part);
      recordOf(id).unseen(`${reason}: it may exist once the package has run`, builds);
      return true;
    },
  };
}

/** A note about parameters with a default that expressions use: they see only the caller's arguments. `defaulted`: positions. */
function defaultsNote(
  expressions: readonly string[],
  names: readonly string[],
  defaulted: readonly number[],
): string | undefined {
  const used = new Set(expressions.flatMap(namesIn));
  const parameters = defaulted
    .filter((index) => [names[index] || undefined, `p${index}`, `a${index}`].some((name) => used.has(name)))
    .map((index) => names[index] || `p${index}`);
  if (parameters.length === 0) return undefined;
  const [one, ...more] = parameters;
  const subject =
    more.length > 0 ? `parameters ${parameters.join(', ')} have defaults` : `parameter ${one} has a default`;
  return `${subject}, which expressions do not see: undefined if the caller omits it`;
}

function namesIn(text: string): (string | undefined)[] {
  try {
    const positions = [...text.matchAll(/\bargs\s*\[\s*(\d+)\s*\]/g)].map(([, index]) => `p${index}`);
    return [...parseExpression(text).variables, ...positions];
  } catch {
    // The error is reported elsewhere, with the column.
    return [];
  }
}

function checkFile(list: readonly PendingTargets[], file: string): void {
  const typed = /\.[mc]?tsx?$/.test(file);
  const goal = /\.m[jt]s$/.test(file) ? 'module' : 'unknown';
  // By index: one target may be configured twice.
  const pending = list.map(({ record: { target }, builds }, index) => ({
    id: inBuilds(`${index}`, builds),
    functionPath: target.functionPath,
  }));
  const events = eventsOf((id) => (list[Number(id)] as PendingTargets).record);
  findAll(file, readFileSync(file, 'utf8'), { goal, typed }, pending, events);
}

interface Followed {
  /** Real paths of the application's own files. Includes some that are not loaded where loaders differ. */
  readonly files: ReadonlySet<string>;
  /** Places that name a file only at run time, or one that is not found: `src/plugins.js:12`. */
  readonly unknown: readonly string[];
  /** How packages are loaded, by specifier: `import`, `require` or both. Excludes what only a TypeScript loader decides. */
  readonly packages: ReadonlyMap<string, ReadonlySet<string>>;
}

/** The search ends after this many files. Applications have fewer. */
const maxFiles = 5_000;
const script = /\.[cm]?[jt]sx?$/;

/** Follows `import`, `export … from`, `require()` and `import()` from the entries through own files, not into node_modules. */
export function followImports(entries: readonly string[], baseDir: string): Followed {
  const files = new Set(entries.map((entry) => realpathSync(entry)));
  const unknown: string[] = [];
  const packages = new Map<string, Set<string>>();
  for (const file of files) {
    if (!script.test(file) || file.split(sep).includes('node_modules')) continue;
    if (files.size > maxFiles) break;
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
      const found =
        specifier === undefined ? undefined : filesOf(specifier, file, isDecided ? by : undefined);
      if (found === undefined) unknown.push(place(lineAt(text, at)));
      else for (const each of found) files.add(each);
    }
  }
  return { files, unknown, packages };
}

interface Specifier {
  readonly specifier: string | undefined;
  readonly at: number;
  readonly by: 'import' | 'require';
}

/** Below the top level only these load a module. Walking a whole file takes three times as long. */
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

function isSpecified({ type }: Node): boolean {
  return (
    type === 'ImportDeclaration' || type === 'ExportAllDeclaration' || type === 'TSExternalModuleReference'
  );
}

/** Own files that a specifier may mean; empty for a package, `undefined` if none. `way`: how it is loaded, if known. */
function filesOf(specifier: string, from: string, way?: Specifier['by']): string[] | undefined {
  const folder = dirname(from);
  if (/^\.{1,2}(\/|$)/.test(specifier)) {
    const [first, ...others] = filesFor(resolve(folder, specifier.replace(/[?#].*$/, '')));
    if (first === undefined) return undefined;
    // TypeScript loaders take `orders.ts` for `./orders.js` even if both exist. Node does not.
    const all = /\.[cm]?js$/.test(from) && /\.[cm]?js$/.test(first) ? [first] : [first, ...others];
    return all.map((file) => realpathSync(file));
  }
  const located = locate(specifier, folder);
  if (isProblem(located)) return undefined;
  if ('paths' in located) {
    const { paths, builds } = located;
    const loaded = paths.filter((path) => way !== undefined && builds?.get(path)?.includes(way));
    return loaded.length > 0 ? loaded : [...paths];
  }
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

/** Finds the configured targets without loading the application. `loadedBy`: how its start loads packages. */
export function inspectTargets(config: Config, loadedBy?: LoadedBy): TargetReport[] {
  const { targets, baseDir } = config;
  const all = targets.map((target) => ({
    id: target.id,
    module: target.module,
    functionPath: target.function,
    expressions: expressionsOf(target),
    makePlan: (names: readonly string[] | undefined) => planOfTarget(target, names, config),
  }));
  return inspect(all, { baseDir, ...(loadedBy && { loadedBy }) });
}

function expressionsOf({ payload, payloadIndex, key, when, headers }: TargetConfig): string[] {
  const chosen = payload ?? (payloadIndex < 0 ? undefined : `#p${payloadIndex}`);
  return [chosen, key, when, ...Object.values(headers ?? {})].filter((each) => typeof each === 'string');
}

/** The modules that a start of the application loads, as far as static imports show. */
export interface StartReport {
  /** Targets in the application's own files. */
  readonly targets: readonly StartedTarget[];
  /** Places that import a module whose name is computed. */
  readonly unknown: readonly string[];
  /** How packages are loaded: `import`, `require`, or both. */
  readonly packages: ReadonlyMap<string, ReadonlySet<string>>;
}

interface StartedTarget {
  readonly id: string;
  /**
   * `unloaded`: another file, compiled from the target's, is loaded. `pending`: no import leads there, but the running application may load
   * it.
   */
  readonly state: 'loaded' | 'unloaded' | 'pending';
  readonly reason?: string;
}

/** Which targets are in files that these entries load: `node dist/main.js` loads nothing of `src`. */
export function inspectStart({ targets, baseDir }: Config, entries: readonly string[]): StartReport {
  const { files, unknown, packages } = followImports(entries, baseDir);
  const unseen = targets.filter((target) => !pathsOf(target, baseDir).some((path) => files.has(path)));
  const built = inspectBuilt(files, unseen, baseDir);
  return {
    unknown,
    packages,
    targets: targets.flatMap((target): StartedTarget[] => {
      const { id } = target;
      const paths = pathsOf(target, baseDir);
      if (paths.length === 0) return [];
      if (!unseen.includes(target)) return [{ id, state: 'loaded' }];
      const inBuilt = built.get(id);
      if (inBuilt !== undefined) return [startedOf(id, inBuilt)];
      const instead = paths
        .map((path) => compiledFrom(path, files, baseDir))
        .find((file) => file !== undefined);
      if (instead === undefined) return [{ id, state: 'pending' }];
      return [{ id, state: 'unloaded', reason: inPlaceOf(shownPath(instead, baseDir)) }];
    }),
  };
}

const startedOf = (id: string, { isFound, remark }: { isFound: boolean; remark: string }): StartedTarget => ({
  id,
  state: isFound ? 'loaded' : 'unloaded',
  reason: remark,
});

/** The candidate files of a target, existing or not; empty for a package. */
function pathsOf({ module }: TargetConfig, baseDir: string): readonly string[] {
  const located = locate(module, baseDir);
  if ('paths' in located) return located.paths;
  const missing = missingFile(module, baseDir);
  return missing === undefined ? [] : [missing];
}

/** Which targets are in built files, according to their source maps. */
export function inspectBundle({ targets, baseDir }: Config, files: readonly string[]): StartedTarget[] {
  const own = targets.filter((target) => pathsOf(target, baseDir).length > 0);
  const built = inspectBuilt(files, own, baseDir);
  return own.map(({ id }) => startedOf(id, built.get(id) ?? { isFound: false, remark: 'in no source map' }));
}

/** Targets of a build that imports do not reach: those listed by `svc manifest`, and those of Next.js. */
function targetsBuilt(config: Config): ReadonlySet<string> {
  const { baseDir } = config;
  const files = [...readList(baseDir, () => {}).files].filter(
    ([file, { hash }]) => hashOf(readFileSync(file, 'utf8')) === hash,
  );
  const listed = files.flatMap(([, { targets }]) => targets.map(({ id }) => id));
  if (!existsSync(join(baseDir, '.next/BUILD_ID'))) return new Set(listed);
  const rest = { ...config, targets: config.targets.filter(({ id }) => !listed.includes(id)) };
  const chunks = rest.targets.length === 0 ? [] : scriptsBelow(join(baseDir, '.next/server'));
  const found = inspectBundle(rest, chunks).filter(({ state }) => state === 'loaded');
  return new Set([...listed, ...found.map(({ id }) => id)]);
}

/**
 * For the running application: targets that cannot be captured, and targets whose file is not the loaded one. Following imports takes
 * time, so it happens only for a TypeScript target in a JavaScript application.
 */
export function targetsUnloaded(
  config: Config,
): readonly { readonly id: string; readonly reason?: string | undefined }[] {
  const entry = entryFile();
  const isTyped = (file: string): boolean => /\.[cm]?tsx?$/.test(file);
  let followed: StartReport['packages'] | undefined;
  const loadedBy: LoadedBy = (specifier) => {
    followed ??= entry === undefined ? new Map() : followImports([entry], config.baseDir).packages;
    return followed.get(specifier);
  };
  const unpatched = inspectTargets(config, loadedBy).filter(({ state }) => state === 'failed');
  const isBuilt = unpatched.length === 0 ? new Set() : targetsBuilt(config);
  const failed = unpatched.filter(({ id }) => !isBuilt.has(id));
  if (entry === undefined || isTyped(entry) || !config.targets.some(({ module }) => isTyped(module)))
    return failed;
  const { targets } = inspectStart(config, [entry]);
  // If the sources are not shipped, the built file counts.
  const isLoaded = new Set(targets.filter(({ state }) => state === 'loaded').map(({ id }) => id));
  return [
    ...failed.filter(({ id }) => !isLoaded.has(id)),
    ...targets.filter(({ state }) => state === 'unloaded'),
  ];
}
