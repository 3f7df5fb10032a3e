import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import type { PathRule } from '../../../ground/pii-rule.ts';
import { variableOf } from '../../schema/option.ts';
import type { Setting } from '../flatten.ts';
import type { Problem } from '../problem.ts';
import type { Values } from '../validate.ts';

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

/** What is given, and what is found to be wrong with it. */
export interface Findings extends CheckInput {
  readonly problems: Problem[];
  readonly warnings: Problem[];
  isGiven(name: string): boolean;
  isEmpty(list: string): boolean;
  where(name: string): string | undefined;
  /** `at`: the option whose place is said. Default: the one that is wrong. */
  add(name: string, message: string, fix?: string, at?: string): void;
  warn(name: string, message: string, fix?: string): void;
  /** A problem where the option is not given. */
  require(name: string, message: string): void;
  /** A problem where the option names a file that cannot be read. */
  mustBeReadable(name: string): void;
}

export function openFindings(input: CheckInput): Findings {
  const { values, settings, baseDir } = input;
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const where = (name: string) => settings.get(name)?.where();
  const isGiven = (name: string) => settings.has(name);
  const add: Findings['add'] = (name, message, fix, at = name) =>
    problems.push({ name, message, where: where(at), fix });
  return {
    ...input,
    ...{ problems, warnings, where, isGiven, add },
    isEmpty: (list) => ((values.get(list) as readonly string[] | undefined) ?? []).length === 0,
    warn: (name, message, fix) => warnings.push({ name, message, where: where(name), fix }),
    require(name, message) {
      const fix = `Set ${name} in the file, or the environment variable ${variableOf(name)}`;
      if (!isGiven(name)) add(name, message, fix);
    },
    mustBeReadable(name) {
      const file = values.get(name);
      const why = typeof file === 'string' ? unreadable(resolve(baseDir, file)) : undefined;
      if (why !== undefined) add(name, why, 'Correct the path or its rights');
    },
  };
}

/** Why a file that is named cannot be read; `undefined`: it can. */
export function unreadable(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK);
    return undefined;
  } catch (error) {
    return `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`;
  }
}
