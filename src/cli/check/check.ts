// check/: what would keep an application from starting, and what its services allow.

import { formatInspection } from '../../capture/report.ts';
import type { DeclaredFunction } from '../../capture/source/declared/declared.ts';
import { formatProblem } from '../../config/check/problem.ts';
import { printableJson } from '../../observe/printable.ts';
import { sayUnguarded } from '../outbox/tables.ts';
import { checkOnline, formatOnline } from './check-online.ts';
import { checkBundle, formatStart, isStartWell } from './check-start.ts';
import { findingsOf } from './findings.ts';
import { inspectApplication } from './inspect-application.ts';

export interface CheckOptions {
  readonly config?: string;
  readonly json?: true;
  readonly online?: true;
  /** Built files, and folders of them. */
  readonly bundle?: readonly string[];
}

/** `svc check`: the patch report, without starting the application; with `--online` what the services that it uses would let it do. */
export async function runCheck(options: CheckOptions, command: readonly string[]): Promise<number> {
  const looksAtStart = options.bundle === undefined || command.length > 0;
  const application = inspectApplication(options.config, command, looksAtStart);
  if (typeof application === 'string') {
    process.stderr.write(`svc: ${application}\n`);
    return 1;
  }
  const { config, ofConfig, problems, reports, refused, declared, start } = application;
  const remarks = application.remarks.map((each) => (typeof each === 'string' ? each : formatProblem(each)));
  const bundle = checkBundle(config, options.bundle ?? []);
  const isApplicationWell = application.isWell && isStartWell(bundle);
  const online = options.online ? () => checkOnline(config, ofConfig) : undefined;
  if (options.json) {
    const answer = await online?.();
    const isWell = isApplicationWell && answer?.ok !== false;
    const document = {
      ok: isWell,
      file: config.file,
      targets: [...reports, ...refused.map(({ id, reason }) => ({ id, state: 'failed', reason }))],
      declared,
      ...(start !== undefined && { start }),
      ...(bundle !== undefined && { bundle }),
      problems: problems.map(formatProblem),
      warnings: remarks,
      ...(answer !== undefined && { online: answer, findings: findingsOf(application, answer) }),
    };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return isWell ? 0 : 1;
  }
  if (config.file !== undefined) process.stdout.write(`configuration ${config.file}\n`);
  for (const remark of remarks) process.stdout.write(`warning: ${remark}\n`);
  for (const problem of problems) process.stdout.write(`error: ${formatProblem(problem)}\n`);
  for (const { id, reason } of refused) process.stdout.write(`error: target ${id}: ${reason}\n`);
  process.stdout.write(`${formatInspection(reports)}\n${formatDeclared(declared)}`);
  if (start !== undefined) process.stdout.write(formatStart(start));
  if (bundle !== undefined) process.stdout.write(formatStart(bundle, 'bundle'));
  const answer = await online?.();
  if (answer !== undefined) process.stdout.write(formatOnline(answer));
  if (answer?.outbox !== undefined) sayUnguarded(answer.outbox.table, answer.outbox.guard);
  return !isApplicationWell || answer?.ok === false ? 1 : 0;
}

function formatDeclared(declared: readonly DeclaredFunction[]): string {
  if (declared.length === 0) return '';
  const lines = declared.map(({ file, line, name, by }) => `  ${name}  ${by}  ${file}:${line}\n`);
  return `declared in code, found by reading: ${declared.length}\n${lines.join('')}`;
}
