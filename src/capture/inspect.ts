import { readFileSync } from 'node:fs';
import { defaultsNote, defaultsUsed } from './declare/default-parameters.ts';
import { inspectPackageTarget } from './packages/hook.ts';
import type { TargetReport } from './report.ts';
import { parseFunctionPath } from './source/find/function-path.ts';
import { locate } from './source/locate.ts';
import { findAll } from './source/rewrite-text.ts';
import { isProblem } from './source/wrapper-place.ts';
import { type CaptureTarget, TargetRecord } from './target-record.ts';

/**
 * For `svc check`, without loading the application: which targets are there (`found`) and which cannot be captured (`failed`).
 * Exports of a package are known when it is loaded: a package that is there is `pending`.
 */
export function inspect(targets: readonly CaptureTarget[], options: { baseDir: string }): TargetReport[] {
  const inFiles: InFiles = new Map();
  const records = targets.map((target) => {
    const record = new TargetRecord(target, () => {});
    guarded([record], () => check(record, options.baseDir, inFiles));
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

function check(record: TargetRecord, baseDir: string, inFiles: InFiles): void {
  const { functionPath, module } = record.target;
  const path = parseFunctionPath(functionPath);
  const located = isProblem(path) ? path : locate(module, baseDir);
  if (isProblem(located)) record.failed(located.problem);
  else if ('specifier' in located) checkPackage(record, located.specifier, located.from);
  else
    for (const file of located.paths) {
      const list = inFiles.get(file);
      if (list) list.push(record);
      else inFiles.set(file, [record]);
    }
}

function checkPackage(record: TargetRecord, specifier: string, from: string): void {
  const { functionPath, id } = record.target;
  const slotFor = (names: readonly string[] | undefined) => record.slotFor(names);
  const problem = inspectPackageTarget({ id, specifier, functionPath, baseDir: from, slotFor });
  if (problem === undefined) record.note('a package: its exports are known when it is loaded');
  else record.failed(problem);
}

function checkFile(records: readonly TargetRecord[], file: string): void {
  const typed = /\.[mc]?tsx?$/.test(file);
  const goal = /\.m[jt]s$/.test(file) ? 'module' : 'unknown';
  // By their places in the list: one target may be configured twice.
  const sought = records.map(({ target }, index) => ({ id: `${index}`, functionPath: target.functionPath }));
  const recordOf = (id: string) => records[Number(id)] as TargetRecord;
  findAll(file, readFileSync(file, 'utf8'), { goal, typed }, sought, {
    found(id, parameterNames, defaulted) {
      const record = recordOf(id);
      guarded([record], () => {
        record.slotFor(parameterNames);
        const used = defaultsUsed(record.target.expressions ?? [], parameterNames ?? [], defaulted ?? []);
        if (used.length > 0) record.note(defaultsNote(used));
        record.found();
      });
      return true;
    },
    problem(id, reason) {
      const record = recordOf(id);
      if (record.state !== 'found') record.failed(reason);
    },
  });
}
