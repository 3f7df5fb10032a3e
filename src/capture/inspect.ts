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
 * For `svc check`, without loading the application: which targets can be patched (`patched`) and which cannot (`failed`).
 * Exports of a package are known when it is loaded: a package that is there is `pending`.
 */
export function inspect(targets: readonly CaptureTarget[], options: { baseDir: string }): TargetReport[] {
  return targets.map((target) => {
    const record = new TargetRecord(target, () => {});
    try {
      check(record, options.baseDir);
    } catch (error) {
      record.failed(error instanceof Error ? error.message : 'unknown error');
    }
    return record.report();
  });
}

function check(record: TargetRecord, baseDir: string): void {
  const { functionPath, module } = record.target;
  const path = parseFunctionPath(functionPath);
  const located = isProblem(path) ? path : locate(module, baseDir);
  if (isProblem(located)) record.failed(located.problem);
  else if ('specifier' in located) checkPackage(record, located.specifier, located.from);
  else for (const file of located.paths) checkFile(record, file);
}

function checkPackage(record: TargetRecord, specifier: string, from: string): void {
  const { functionPath, id } = record.target;
  const slotFor = (names: readonly string[] | undefined) => record.slotFor(names);
  const problem = inspectPackageTarget({ id, specifier, functionPath, baseDir: from, slotFor });
  if (problem === undefined) record.note('a package: its exports are known when it is loaded');
  else record.failed(problem);
}

function checkFile(record: TargetRecord, file: string): void {
  const { functionPath, id } = record.target;
  const typed = /\.[mc]?tsx?$/.test(file);
  const goal = /\.m[jt]s$/.test(file) ? 'module' : 'unknown';
  findAll(file, readFileSync(file, 'utf8'), { goal, typed }, [{ id, functionPath }], {
    found(_, parameterNames, defaulted) {
      record.slotFor(parameterNames);
      const used = defaultsUsed(record.target.expressions ?? [], parameterNames ?? [], defaulted ?? []);
      if (used.length > 0) record.note(defaultsNote(used));
      record.patched();
      return true;
    },
    problem(_, reason) {
      if (record.state !== 'patched') record.failed(reason);
    },
  });
}
