import type { TargetReport } from '../../capture/report.ts';
import {
  type DeclaredFunction,
  type DeclaredRule,
  findDeclared,
} from '../../capture/source/declared/declared.ts';
import { formatProblem, type Problem } from '../../config/check/problem.ts';
import type { Config } from '../../config/config.ts';
import { loadConfig } from '../../config/read/load.ts';
import { piiStrategies } from '../../ground/pii-rule.ts';
import { unsupportedNode } from '../../ground/version.ts';
import { inspectDrivers } from '../../start/commands/inspect-drivers.ts';
import { inspectOtel } from '../../start/commands/inspect-otel.ts';
import { inspectTargets } from '../../start/commands/inspect-targets.ts';
import { settingsInCode } from '../wrong-use.ts';
import { checkStart, isStartWell, type StartCheck } from './check-start.ts';
import { doubtsOf } from './doubts.ts';

/** What reading shows of an application, without a service that it uses. */
export interface ApplicationCheck {
  readonly config: Config;
  /** Of the configuration alone. */
  readonly ofConfig: readonly Problem[];
  /** With those of Node, and of rules in code. */
  readonly problems: readonly Problem[];
  /** Warnings; some are lines alone. */
  readonly remarks: readonly (Problem | string)[];
  readonly reports: readonly TargetReport[];
  readonly refused: readonly { readonly id: string; readonly reason: string }[];
  readonly declared: readonly DeclaredFunction[];
  readonly start: StartCheck | undefined;
  readonly isWell: boolean;
}

/**
 * A line where there is no configuration.
 *
 * @throws WrongUse
 */
export function inspectApplication(
  file: string | undefined,
  command: readonly string[],
  looksAtStart = true,
): ApplicationCheck | string {
  const { config, problems: ofConfig, warnings, targetProblems, notFound } = loadConfig({ file });
  if (notFound !== undefined) return `${notFound} ${settingsInCode}`;
  const seen = looksAtStart ? checkStart(config, command) : undefined;
  const reports = inspectTargets(config, (specifier) => seen?.packages?.get(specifier));
  const failed = new Set(reports.filter(({ state }) => state === 'failed').map(({ id }) => id));
  const start = withoutKnown(seen, failed);
  const { functions: declared, rules, events } = findDeclared(config.baseDir);
  const problems = [...problemsOfNode(), ...ofConfig, ...problemsOfRules(rules, file, ofConfig)];
  const refused = targetProblems.map(({ id, problems: why }) => ({
    id,
    reason: why.map(formatProblem).join('; '),
  }));
  const isWell =
    reports.every(({ state }) => state !== 'failed') &&
    refused.length === 0 &&
    problems.length === 0 &&
    isStartWell(start);
  const doubts = doubtsOf(config, events);
  const remarks = [...warnings, ...doubts, ...inspectDrivers(config), ...inspectOtel(config)];
  return { config, ofConfig, problems, remarks, reports, refused, declared, start, isWell };
}

/** What is wrong with a target is told once, and counted once. */
function withoutKnown(start: StartCheck | undefined, failed: ReadonlySet<string>): StartCheck | undefined {
  if (start?.targets === undefined) return start;
  const { packages: _, ...shown } = start;
  const targets = start.targets.filter(({ id, state }) => state === 'loaded' || !failed.has(id));
  return { ...shown, targets };
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
