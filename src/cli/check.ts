import { formatInspection } from '../capture/report.ts';
import type { DeclaredFunction } from '../capture/source/declared.ts';
import { formatProblem } from '../config/check/validate.ts';
import { printable, printableJson } from '../observe/logger.ts';
import { checkOnline, formatOnline } from './check-online.ts';
import { checkBundle, formatStart, isStartWell } from './check-start.ts';
import { type Finding, findingsOf, inspectApplication } from './findings.ts';
import { sayUnguarded } from './outbox.ts';
import { settingsInCode } from './wrong-use.ts';

// what would keep an application from starting, and what its services allow.

interface CheckOptions {
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

export interface DoctorOptions {
  readonly config?: string;
  readonly json?: true;
}

const labels = { ok: 'ok', warning: 'WARNING', error: 'ERROR' } as const;

/** `svc doctor`: what svc needs here, in one list, each failure with its fix. Exit code 1: there is one. */
export async function runDoctor(options: DoctorOptions, command: readonly string[]): Promise<number> {
  const application = inspectApplication(options.config, command);
  const findings =
    typeof application === 'string'
      ? noConfiguration(application)
      : findingsOf(application, await checkOnline(application.config, application.ofConfig));
  const count = findings.filter(({ state }) => state === 'error').length;
  if (options.json) process.stdout.write(`${printableJson({ ok: count === 0, findings }, 2)}\n`);
  else {
    process.stdout.write(findings.map(linesOf).join(''));
    process.stderr.write(
      `${count === 0 ? 'nothing is wrong' : `${count} of ${findings.length} are wrong`}\n`,
    );
  }
  return count === 0 ? 0 : 1;
}

function linesOf({ area, state, text, fix }: Finding): string {
  const line = `${labels[state].padEnd(7)}  ${area.padEnd(13)}  ${printable(text)}`;
  return fix === undefined ? `${line}\n` : `${line}\n${' '.repeat(9)}fix: ${printable(fix)}\n`;
}

function noConfiguration(text: string): Finding[] {
  const fix = 'write one: npx --no svc init';
  return [{ area: 'configuration', state: 'error', text: text.replace(` ${settingsInCode}`, ''), fix }];
}
