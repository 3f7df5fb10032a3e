// check/: what can be known before the application starts.

import { formatReport } from '../../capture/report.ts';
import {
  type DeclaredFunction,
  type DeclaredRule,
  findDeclared,
} from '../../capture/source/find/declared.ts';
import { formatProblem, type Problem } from '../../config/check/problem.ts';
import { loadConfig } from '../../config/read/load.ts';
import { piiStrategies } from '../../ground/pii-rule.ts';
import { unsupportedNode } from '../../ground/version.ts';
import { printableJson } from '../../observe/printable.ts';
import { inspectDrivers } from '../../start/commands/inspect-drivers.ts';
import { inspectTargets } from '../../start/commands/inspect-targets.ts';
import { sayUnguarded } from '../outbox/tables.ts';
import { settingsInCode } from '../wrong-use.ts';
import { checkOnline, formatOnline } from './check-online.ts';
import { checkBundle, checkStart, formatStart, isStartWell } from './check-start.ts';

export interface CheckOptions {
  readonly config?: string;
  readonly json?: true;
  readonly online?: true;
  /** Built files, and folders of them. */
  readonly bundle?: readonly string[];
}

/** `svc check`: the patch report, without starting the application; with `--online` what the services that it uses would let it do. */
export async function runCheck(options: CheckOptions, command: readonly string[]): Promise<number> {
  const {
    config,
    problems: ofConfig,
    warnings,
    targetProblems,
    notFound,
  } = loadConfig({ file: options.config });
  if (notFound !== undefined) {
    process.stderr.write(`svc: ${notFound} ${settingsInCode}\n`);
    return 1;
  }
  const reports = inspectTargets(config);
  const bundle = checkBundle(config, options.bundle ?? []);
  const start = bundle === undefined || command.length > 0 ? checkStart(config, command) : undefined;
  const { functions: declared, rules } = findDeclared(config.baseDir);
  const problems = [...problemsOfNode(), ...ofConfig, ...problemsOfRules(rules, options.config, ofConfig)];
  const refused = targetProblems.map(({ id, problems: why }) => ({
    id,
    reason: why.map(formatProblem).join('; '),
  }));
  const remarks = [...warnings.map(formatProblem), ...inspectDrivers(config)];
  const failed =
    reports.some((report) => report.state === 'failed') ||
    refused.length > 0 ||
    problems.length > 0 ||
    !isStartWell(start) ||
    !isStartWell(bundle);

  const online = options.online ? () => checkOnline(config, ofConfig) : undefined;
  if (options.json) {
    const answer = await online?.();
    const isWell = !failed && answer?.ok !== false;
    const document = {
      ok: isWell,
      file: config.file,
      targets: [...reports, ...refused.map(({ id, reason }) => ({ id, state: 'failed', reason }))],
      declared,
      ...(start !== undefined && { start }),
      ...(bundle !== undefined && { bundle }),
      problems: problems.map(formatProblem),
      warnings: remarks,
      ...(answer !== undefined && { online: answer }),
    };
    process.stdout.write(`${printableJson(document, 2)}\n`);
    return isWell ? 0 : 1;
  }
  if (config.file !== undefined) process.stdout.write(`configuration ${config.file}\n`);
  for (const remark of remarks) process.stdout.write(`warning: ${remark}\n`);
  for (const problem of problems) process.stdout.write(`error: ${formatProblem(problem)}\n`);
  for (const { id, reason } of refused) process.stdout.write(`error: target ${id}: ${reason}\n`);
  process.stdout.write(`${formatReport(reports)}\n${formatDeclared(declared)}`);
  if (start !== undefined) process.stdout.write(formatStart(start));
  if (bundle !== undefined) process.stdout.write(formatStart(bundle, 'bundle'));
  const answer = await online?.();
  if (answer !== undefined) process.stdout.write(formatOnline(answer));
  if (answer?.outbox !== undefined) sayUnguarded(answer.outbox.table, answer.outbox.guard);
  return failed || answer?.ok === false ? 1 : 0;
}

/** What `svc/register` would do nothing in. */
function problemsOfNode(): Problem[] {
  const message = unsupportedNode(process.versions.node);
  if (message === undefined) return [];
  return [
    {
      name: 'svc',
      message: `${message}: nothing is captured here`,
      fix: 'Run the application with a newer Node',
    },
  ];
}

/** What rules in code need and the configuration does not have: the first event with such a value would be refused. */
function problemsOfRules(
  found: readonly DeclaredRule[],
  file: string | undefined,
  known: readonly Problem[],
): Problem[] {
  const rules = found.flatMap(({ strategy, keyId }) => {
    const named = piiStrategies.find((each) => each === strategy);
    return named === undefined ? [] : [{ strategy: named, keyId }];
  });
  if (rules.length === 0) return [];
  const where = [...new Set(found.map((rule) => `${rule.file}:${rule.line}`))].slice(0, 3).join(', ');
  return loadConfig({ file, rules })
    .problems.filter(
      ({ name, message }) => !known.some((one) => one.name === name && one.message === message),
    )
    .map((problem) => ({ ...problem, where }));
}

function formatDeclared(declared: readonly DeclaredFunction[]): string {
  if (declared.length === 0) return '';
  const lines = declared.map(({ file, line, name, by }) => `  ${name}  ${by}  ${file}:${line}\n`);
  return `declared in code, found by reading: ${declared.length}\n${lines.join('')}`;
}
