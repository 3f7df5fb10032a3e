// check/: all that can be wrong with a configuration, found together and said without a value.

import type { Option } from '../schema/option.ts';
import { options } from '../schema/schema.ts';
import type { Setting } from './flatten.ts';
import { type Problem, problemsOf } from './problem.ts';
import { checkValue } from './value.ts';

/** Option name -> checked value, defaults included. A bad value is replaced by its default. */
export type Values = ReadonlyMap<string, unknown>;

export interface Validated {
  readonly values: Values;
  /** Names whose value is refused, and reported already. */
  readonly invalid: ReadonlySet<string>;
  readonly problems: readonly Problem[];
}

/** Checks every setting by itself: type, bounds and form. Reports all problems. */
export function validate(settings: ReadonlyMap<string, Setting>): Validated {
  const values = new Map<string, unknown>();
  const invalid = new Set<string>();
  const problems: Problem[] = [];
  for (const option of options) {
    if (option.default !== undefined) values.set(option.name, option.default);
    const setting = settings.get(option.name);
    if (setting === undefined) continue;
    const checked = checkValue(option, setting.value);
    if (!checked.ok) {
      invalid.add(option.name);
      const message = wordOfSpecification(option, setting) ?? checked.message;
      problems.push(...problemsOf(option.name, { ...checked, message }, setting));
      continue;
    }
    values.set(option.name, checked.value);
  }
  return { values, invalid, problems };
}

/** A blank topic is a missing one. */
function wordOfSpecification(option: Option, setting: Setting): string | undefined {
  const isBlankTopic =
    option.name === 'svc.broker.topic' && typeof setting.value === 'string' && setting.value.trim() === '';
  return isBlankTopic ? topicRequired : undefined;
}

export const topicRequired = 'Kafka topic is required';
