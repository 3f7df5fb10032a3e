// capture/: from the functions of an application to the calls that svc sees. Its top level holds what all its folders share.

import type Cluster from 'node:cluster';
import { existsSync, readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { isMainThread } from 'node:worker_threads';
import { clock } from '../ground/clock.ts';
import { loadChunk } from '../ground/lifecycle.ts';
import { inLines, logger } from '../observe/logger.ts';
import type { OnCall } from './call.ts';
import type * as Packages from './packages/hook.ts';
import type { PackagePatch, PackageTarget } from './packages/hook.ts';
import { inPlaceOf, type TargetReport, writeMaps } from './report.ts';
import { runtimeTargets } from './source/capture-runtime.ts';
import type * as Compiled from './source/compiled-from.ts';
import { parseFunctionPath } from './source/function-path.ts';
import { hookSource, type PackageWork } from './source/hook-source.ts';
import { entryFile, whyTooLate } from './source/late-start.ts';
import { listName, mapUrl, readList } from './source/listed-places.ts';
import { hasSoundSyncHooks, isRequiredPreload, preloadedBy } from './source/node-hooks.ts';
import { isEsModule } from './source/parse-text.ts';
import type { BuiltFile, SourceTarget } from './source/rewrite-text.ts';
import { buildsOf, inBuilds, locate, missingFile, shownPath } from './source/target-files.ts';
import { isProblem } from './source/wrapper-place.ts';
import { type CaptureTarget, TargetRecord } from './target-record.ts';
import { hideWrappers } from './wrap/imitate.ts';

/** The capture of a process or worker thread, from before its modules load to its end. */
interface Capture {
  /** Sets the receiver of calls; `null` turns all wrappers into plain calls. */
  setOnCall(onCall: OnCall | null): void;
  /** `isOver`: the process ends, so a target that is not loaded never was. */
  report(isOver?: boolean): TargetReport[];
  /** Hooks no further modules; captured functions run on without events. */
  close(): void;
}

interface PrepareOptions {
  /** Absolute: relative paths of targets start here. */
  readonly baseDir: string;
  /** Packages to change when they are loaded, through the same hooks. */
  readonly patches?: readonly PackagePatch[];
  /** Called after the state of a target has changed. */
  readonly onChange?: () => void;
}

/** After the first module of the application: by then a process has loaded what it needs. */
const unloadedAfterMs = 30_000;

/**
 * Makes Node deliver the targets' functions wrapped, from the next module that loads. Own files are changed while they
 * are read; packages are patched when they are loaded. Never throws: problems are in the report.
 */
export function prepare(targets: readonly CaptureTarget[], options: PrepareOptions): Capture {
  const { baseDir } = options;
  const preparedMs = clock.monotonic();
  if (targets.length > 0) {
    hideWrappers();
    // Before a module of the application imports `node:util/types`.
    syncBuiltinESMExports();
  }
  const records = new Map<string, TargetRecord>();
  const doubles: TargetRecord[] = [];
  const failures = createFailureLog();
  for (const target of targets) {
    const record = new TargetRecord(target, () => {
      failures.changed(record);
      options.onChange?.();
    });
    if (records.has(target.id)) {
      doubles.push(record);
      record.failed('this target is configured more than once');
      continue;
    }
    records.set(target.id, record);
    record.resume(baseDir);
  }
  const { files, missing, packages } = sort(records, baseDir);
  const patches = options.patches?.map((patch) => ({ ...patch, baseDir })) ?? [];
  const ofPackages =
    packages.length + patches.length === 0
      ? undefined
      : guarded(
          () => {
            const { hookPackages } = loadChunk(import.meta.url, './packages/hook.ts') as typeof Packages;
            return hookPackages(
              packages,
              {
                patched: (id, builds) => records.get(id)?.patched(undefined, builds),
                failed: (id, reason, builds) => records.get(id)?.failed(reason, builds),
                isPatched: (id, builds) => records.get(id)?.isDone(builds) === true,
              },
              { preloadedBy: preloadedBy() },
              patches,
            );
          },
          (reason) => {
            for (const { id } of packages) records.get(id)?.failed(reason);
          },
        );
  const source = guarded(
    () => hookFiles(files, missing, ofPackages, records, options),
    (reason) => {
      for (const list of [...files.values(), ...missing.values()])
        for (const { id } of list) records.get(buildsOf(id).id)?.failed(reason);
    },
  );

  ofPackages?.install();

  const ownIds = new Set([...files.values(), ...missing.values()].flat().map(({ id }) => buildsOf(id).id));
  const insteadOf = createInsteads(files, () => source?.namesakes ?? new Set(), baseDir);

  /** The report of a target that is not loaded: whether it may still be. */
  function unseen(report: TargetReport, module: string, isOver: boolean): TargetReport {
    // A worker thread loads only what it needs.
    if (!isMainThread) return report;
    const isOwn = ownIds.has(report.id);
    // For CommonJS, the module cache answered at the start.
    const late = isOwn && !/\.c[jt]s$/.test(module) ? source?.tooLate() : undefined;
    const instead = insteadOf(report.id, isOver);
    const sinceMs = source === undefined ? preparedMs : source.firstOwnMs();
    const isDue = isOver || (sinceMs !== undefined && clock.monotonic() - sinceMs >= unloadedAfterMs);
    if (instead === undefined && !isDue) return late === undefined ? report : { ...report, reason: late };
    // The primary process of a cluster leaves the work to its workers.
    if (hasForked()) return report;
    const when = isOver ? 'was never loaded' : `was not loaded within ${unloadedAfterMs / 1_000} s`;
    const reason = isOwn
      ? `its file ${when}: where the application is built, ${writeMaps}, or name in module the file that is loaded`
      : `its package ${when}`;
    return {
      ...report,
      state: 'unloaded',
      reason: instead === undefined ? (late ?? reason) : inPlaceOf(instead),
    };
  }

  function report(isOver = false): TargetReport[] {
    source?.takeIn();
    failures.tell();
    return [...records.values(), ...doubles].map((record) => {
      const report = record.report();
      const isUnseen = report.state === 'pending' && report.calls === 0;
      return isUnseen ? unseen(report, record.target.module, isOver) : report;
    });
  }

  return {
    setOnCall(onCall) {
      for (const record of records.values()) record.setOnCall(onCall);
    },
    report,
    close() {
      for (const [id, record] of records) {
        record.rest(baseDir);
        runtimeTargets().delete(id);
      }
      source?.close();
      ofPackages?.close();
    },
  };
}

/** The files that are loaded instead of targets' files, for display; looked up again when more files are loaded. */
function createInsteads(
  files: ReadonlyMap<string, readonly SourceTarget[]>,
  namesakes: () => ReadonlySet<string>,
  baseDir: string,
): (id: string, isOver: boolean) => string | undefined {
  const known = { key: '', insteads: new Map<string, string>() };
  return (id, isOver) => {
    const loaded = namesakes();
    const key = `${loaded.size} ${isOver}`;
    if (known.key !== key) {
      known.key = key;
      known.insteads.clear();
      const entry = isOver ? entryFile() : undefined;
      const all = [...loaded, ...(entry === undefined ? [] : [entry])];
      for (const [file, list] of all.length > 0 ? files : []) {
        const instead = compiledParts().compiledFrom(file, all, baseDir, isOver);
        if (instead !== undefined)
          for (const { id } of list) known.insteads.set(buildsOf(id).id, shownPath(instead, baseDir));
      }
    }
    return known.insteads.get(id);
  };
}

/** Loaded late, because it reads source maps: a process that loads the files its targets name does not need it. */
function compiledParts(): typeof Compiled {
  return loadChunk(import.meta.url, './source/compiled-from.ts') as typeof Compiled;
}

function hasForked(): boolean {
  const cluster = process.getBuiltinModule('node:cluster') as unknown as typeof Cluster;
  return cluster.isPrimary && Object.keys(cluster.settings).length > 0;
}

interface Sorted {
  readonly files: Map<string, SourceTarget[]>;
  /** Missing files, which may be sources of files that exist. */
  readonly missing: Map<string, SourceTarget[]>;
  readonly packages: PackageTarget[];
}

/** Assigns each target to the mechanism that captures it, or reports why none does. */
function sort(records: ReadonlyMap<string, TargetRecord>, baseDir: string): Sorted {
  const files = new Map<string, SourceTarget[]>();
  const missing = new Map<string, SourceTarget[]>();
  const packages: PackageTarget[] = [];
  const unreachable = whyNoModules();
  const locations = new Map<string, ReturnType<typeof locate>>();
  for (const [id, record] of records) {
    const { functionPath, module } = record.target;
    const path = parseFunctionPath(functionPath);
    if (isProblem(path)) {
      record.failed(path.problem);
      continue;
    }
    const located = guarded(
      () => locations.get(module) ?? locate(module, baseDir),
      (reason) => record.failed(reason),
    );
    if (!located) continue;
    locations.set(module, located);
    const wanted = isProblem(located) && runsBuild(baseDir) ? missingFile(module, baseDir) : undefined;
    if (isProblem(located) && wanted === undefined) record.failed(located.problem);
    else if ('specifier' in located) {
      const { specifier, from } = located;
      packages.push({
        id,
        specifier,
        functionPath,
        baseDir: from,
        slotFor: (names) => record.slotFor(names),
      });
      addRuntimeTarget(functionPath, path.result, record);
    } else {
      if (isProblem(located)) {
        record.note(located.problem);
        missing.set(wanted ?? '', [...(missing.get(wanted ?? '') ?? []), { id, functionPath }]);
      }
      const { paths, builds: buildsAt } = isProblem(located) ? { paths: [], builds: undefined } : located;
      for (const file of paths) {
        const builds = buildsAt?.get(file);
        files.set(file, [...(files.get(file) ?? []), { id: inBuilds(id, builds ?? []), functionPath }]);
        // Stays in the list: a require hook may still compile it to CommonJS, or it is loaded again.
        const late = whyTooLate(file);
        const missed = unreachable !== undefined && isEsModule(file) ? unreachable : undefined;
        if (late !== undefined && !record.isDone(builds)) record.failed(late, builds);
        else if (missed === undefined || record.isDone(builds)) continue;
        // Modules that `require` can load are captured when loaded that way.
        else if (paths.every(isEsModule)) record.failed(missed, builds);
        else record.note(missed);
      }
      addRuntimeTarget(functionPath, path.result, record);
    }
  }
  return { files, missing, packages };
}

function addRuntimeTarget(
  functionPath: string,
  result: readonly string[] | undefined,
  record: TargetRecord,
): void {
  runtimeTargets().set(record.target.id, {
    functionPath,
    result,
    slotFor: (names) => record.slotFor(names),
    patched: (builds) => record.patched(undefined, builds),
    failed: (reason, builds) => record.failed(reason, builds),
  });
}

function hookFiles(
  files: ReadonlyMap<string, SourceTarget[]>,
  missing: ReadonlyMap<string, SourceTarget[]>,
  packages: PackageWork | undefined,
  records: ReadonlyMap<string, TargetRecord>,
  { baseDir }: PrepareOptions,
): ReturnType<typeof hookSource> | undefined {
  const work: PackageWork = packages ?? { pending: [], ran() {} };
  if (files.size + missing.size + work.pending.length === 0) return undefined;
  const shown = (built: BuiltFile) => shownPath(built.file, baseDir);
  const placeIn = (built: BuiltFile | undefined) =>
    built && [`in ${shown(built)}`, built.remark].filter((each) => each !== undefined).join(', ');
  const events: Parameters<typeof hookSource>[3] = {
    found(part, parameterNames, _, built) {
      const { id, builds } = buildsOf(part);
      const record = records.get(id);
      try {
        record?.slotFor(parameterNames);
        record?.patched(placeIn(built), builds);
        return record !== undefined;
      } catch (error) {
        record?.failed(messageOf(error), builds);
        return false;
      }
    },
    problem(part, reason, built) {
      const { id, builds } = buildsOf(part);
      const record = records.get(id);
      // Of two chunks, or two files of one build, the one with the function counts.
      if (record === undefined || record.isDone(builds)) return;
      if (built?.isDropped) record.note(`${reason} (${shown(built)})`);
      else record.failed(built ? `${reason} (${shown(built)})` : reason, builds);
    },
    inserted(part, built) {
      const { id, builds } = buildsOf(part);
      // The inserted call may have reported already.
      const record = records.get(id);
      if (record?.isUntold(builds)) record.patched(placeIn(built), builds);
    },
    unreadMap: (file, reason) =>
      logger.warn(...inLines(`the source map of ${shownPath(file, baseDir)} is not used: ${reason}`)),
    unlisted: (file) =>
      logger.warn(
        ...inLines(
          `${listName} does not fit ${shownPath(file, baseDir)}, which is read instead: run svc manifest after each build`,
        ),
      ),
  };
  const reason = whyCoverageDiffers();
  if (reason !== undefined)
    logger.warn(
      ...inLines(
        `coverage of files with targets is not right, since ${reason}, or measure it with SVC_ENABLED=false`,
      ),
    );
  const listed = readList(baseDir, (reason) => logger.warn(...inLines(`${listName} is not used: ${reason}`)));
  // A source map leads to a source, whatever build it belongs to.
  const plain = [...files].map(([file, list]) => [file, list.map(withoutBuilds)] as const);
  const pending = { files: new Map([...plain, ...missing]), baseDir, listed };
  return hookSource(files, pending, work, events);
}

const withoutBuilds = (target: SourceTarget): SourceTarget => ({ ...target, id: buildsOf(target.id).id });

/** Logs once for each target that it is not captured, and why. Delayed, because another file or a later load may have it. */
function createFailureLog(): { changed(record: TargetRecord): void; tell(): void } {
  const told = new Set<TargetRecord>();
  const waiting = new Set<TargetRecord>();
  const tell = (): void => {
    for (const record of waiting) {
      const { id, state, reason } = record.report();
      if (state !== 'failed' || told.has(record)) continue;
      told.add(record);
      logger.warn(...inLines(`target ${id} is not captured: ${reason}`));
    }
    waiting.clear();
  };
  return {
    tell,
    changed(record) {
      const { id, state } = record.report();
      if (state === 'failed') {
        if (waiting.size === 0) setImmediate(tell).unref();
        waiting.add(record);
      } else {
        logger.debug(`target ${id}: ${state}`);
        if (state === 'patched' && told.delete(record)) logger.info(`target ${id} is captured now`);
      }
    },
  };
}

function guarded<T>(work: () => T, onFailure: (reason: string) => void): T | undefined {
  try {
    return work();
  } catch (error) {
    onFailure(messageOf(error));
    return undefined;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error';
}

/** Whether this process may run a build of missing sources: a listed one, that of Next.js, or an entry with a source map. */
function runsBuild(baseDir: string): boolean {
  if (['.next/BUILD_ID', listName].some((file) => existsSync(join(baseDir, file)))) return true;
  const entry = entryFile();
  if (entry === undefined) return false;
  try {
    return existsSync(`${entry}.map`) || mapUrl(readFileSync(entry, 'utf8')) !== undefined;
  } catch {
    return false;
  }
}

/** Why the coverage of files with targets is not that of their own text; `undefined` if it is, or coverage is off. */
function whyCoverageDiffers(): string | undefined {
  const has = (...flags: string[]) => process.execArgv.some((each) => flags.includes(each));
  const runsTests = has('--experimental-test-coverage');
  const isElsewhere = has('--test') && !has('--test-isolation=none', '--experimental-test-isolation=none');
  if (runsTests && !isElsewhere)
    return 'the tests run in the process of the reporter: run them with node --test, each file in its own process';
  if (process.env.NODE_V8_COVERAGE && !hasSoundSyncHooks())
    return `Node ${process.versions.node} loads ES modules through another thread: use Node 22.22.3, 24.11.1 or later`;
  return undefined;
}

/** Why ES modules cannot be captured in this process; `undefined` if they can. */
function whyNoModules(): string | undefined {
  if (hasSoundSyncHooks() || !isRequiredPreload()) return undefined;
  return `with --require, Node ${process.versions.node} captures CommonJS only, but this file is an ES module. Use --import svc/register, or Node 22.22.3, 24.11.1 or later`;
}
