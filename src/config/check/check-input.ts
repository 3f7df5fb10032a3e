import type { Setting } from './flatten.ts';
import type { Problem } from './problem.ts';
import type { Values } from './validate.ts';

export interface CheckInput {
  readonly values: Values;
  readonly invalid: ReadonlySet<string>;
  /** What was given, valid or not. */
  readonly settings: ReadonlyMap<string, Setting>;
  readonly baseDir: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface CheckResult {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}
