import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { load } from 'js-yaml';

/** A recording rule has `record`, an alert `alert`, `labels` and `annotations`. */
export interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface RuleFile {
  readonly groups: readonly {
    readonly name: string;
    readonly interval?: string;
    readonly rules: readonly Rule[];
  }[];
}

export const opsFolder = resolve(import.meta.dirname, '../../../ops');

/** As Prometheus reads them: what an alert reads is recorded first. */
export const ruleFileNames = ['recording-rules.yaml', 'alerts.yaml'] as const;

export const readRuleFile = (name: string): RuleFile =>
  load(readFileSync(join(opsFolder, name), 'utf8')) as RuleFile;

export const recordings = rulesOf('recording-rules.yaml');
export const alerts = rulesOf('alerts.yaml') as readonly (Rule & { readonly alert: string })[];

function rulesOf(name: string): readonly Rule[] {
  return readRuleFile(name).groups.flatMap(({ rules }) => rules);
}

/** Names of the series that an expression of ours reads: of svc, and recorded ones. */
export function seriesIn(expr: string): readonly string[] {
  return [...new Set(expr.match(/\b(?:svc_\w+|job:\w+(?::\w+)?)/g) ?? [])];
}
