import type { PathRule } from '../../ground/pii-rule.ts';
import type { Setting } from './flatten.ts';
import type { Problem } from './problem.ts';
import type { Values } from './validate.ts';

export interface CheckInput {
  readonly values: Values;
  readonly invalid: ReadonlySet<string>;
  /** What was given, valid or not. */
  readonly settings: ReadonlyMap<string, Setting>;
  readonly baseDir: string;
  /** Those for personal data that stand in code, as far as they are known. */
  readonly rules: readonly Pick<PathRule, 'strategy' | 'keyId'>[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface CheckResult {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}
