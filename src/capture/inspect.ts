import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { defaultsNote, defaultsUsed } from './declare/default-parameters.ts';
import { inspectPackageTarget } from './packages/hook.ts';
import type { TargetReport } from './report.ts';
import { type Follower, follower } from './source/exports/follow-export.ts';
import { buildsOf, filesOfPackage, untold } from './source/exports/package-files.ts';
import { parseFunctionPath } from './source/find/function-path.ts';
import { isEsModule } from './source/is-es-module.ts';
import { locate } from './source/locate.ts';
import { findAll, type SourceEvents } from './source/rewrite-text.ts';
import { isProblem } from './source/wrapper-place.ts';
import { type CaptureTarget, TargetRecord } from './target-record.ts';

/** How the application loads a package, by its specifier; `undefined` where that is not known. */
export type LoadedBy = (specifier: string) => ReadonlySet<string> | undefined;

/**
 * For `svc check`, without loading the application: which targets are there (`found`) and which cannot be captured (`failed`).
 * What a package only computes is known when it is loaded, and `pending`.
 */
export function inspect(
  targets: readonly CaptureTarget[],
  options: { readonly baseDir: string; readonly loadedBy?: LoadedBy },
): TargetReport[] {
  const { baseDir, loadedBy } = options;
  const inFiles: InFiles = new Map();
  let made: Follower | undefined;
  const follow = () => (made ??= follower());
  const records = targets.map((target) => {
    const record = new TargetRecord(
      target,
      () => {},
      // A start hears of a build when it loads it: here it may be one that is never loaded.
      (build) => loadedBy?.(target.module)?.has(build) === true,
    );
    guarded([record], () => check(record, baseDir, inFiles, follow));
    return record;
  });
  // As a start does it: once for each file, whose targets may be thousands.
  for (const [file, list] of inFiles) guarded(list, () => checkFile(list, file));
  return records.map((record) => record.report());
}

type InFiles = Map<string, TargetRecord[]>;

function guarded(records: readonly TargetRecord[], work: () => void): void {
  try {
    work();
  } catch (error) {
    for (const record of records) record.failed(error instanceof Error ? error.message : 'unknown error');
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
      if (list) list.push(record);
      else inFiles.set(file, [record]);
    }
}

/** Follows the export as a start does, when it loads the package. */
function checkPackage(record: TargetRecord, specifier: string, from: string, follow: () => Follower): void {
  const { functionPath, id } = record.target;
  const slotFor = (names: readonly string[] | undefined) => record.slotFor(names);
  const problem = inspectPackageTarget({ id, specifier, functionPath, baseDir: from, slotFor });
  if (problem !== undefined) {
    record.failed(problem);
    return;
  }
  const events = eventsOf(() => record);
  const sought = { specifier, from, targets: [{ id, functionPath }], patch: undefined };
  for (const [file, { targets, missing }] of filesOfPackage(sought, follow)) {
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

const known = 'a package: what it exports is known when it is loaded';

function eventsOf(recordOf: (id: string) => TargetRecord): SourceEvents {
  return {
    found(part, parameterNames, defaulted) {
      const { id, builds } = buildsOf(part);
      const record = recordOf(id);
      guarded([record], () => {
        record.slotFor(parameterNames);
        const used = defaultsUsed(record.target.expressions ?? [], parameterNames ?? [], defaulted ?? []);
        if (used.length > 0) record.note(defaultsNote(used));
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
      recordOf(id).unseen(`${reason}: it may be there when the package has run`, builds);
      return true;
    },
  };
}

function checkFile(records: readonly TargetRecord[], file: string): void {
  const typed = /\.[mc]?tsx?$/.test(file);
  const goal = /\.m[jt]s$/.test(file) ? 'module' : 'unknown';
  // By their places in the list: one target may be configured twice.
  const sought = records.map(({ target }, index) => ({ id: `${index}`, functionPath: target.functionPath }));
  const events = eventsOf((id) => records[Number(id)] as TargetRecord);
  findAll(file, readFileSync(file, 'utf8'), { goal, typed }, sought, events);
}
