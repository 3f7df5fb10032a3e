import { isNamedValues } from '../../ground/named-values.ts';
import { nearestName } from '../../ground/nearest-names.ts';
import type { PathRule } from '../../ground/pii-rule.ts';
import { camelCase, kebabCase } from '../schema/option.ts';
import { type TargetConfig, targetId } from '../schema/target.ts';
import { type TargetField, targetFields } from '../schema/target-fields.ts';
import { shownInClear } from './across/key-in-clear.ts';
import type { Setting } from './flatten.ts';
import { checkRulesOf } from './pii-rules.ts';
import { describeType, emptyValue, type Problem, printable, problemsOf } from './problem.ts';
import { shownName } from './shown-name.ts';
import { checkHeadersOf, checkOutboxOf, outboxMistakes } from './target-parts.ts';
import { checkValue } from './value.ts';

/** A target that cannot be used, and everything that is wrong with it. The other targets are not affected. */
export interface TargetProblem {
  /** Position in `svc.targets`, from 0. */
  readonly index: number;
  /** As in `TargetConfig`, as far as it is known. */
  readonly id: string;
  readonly problems: readonly Problem[];
}

export interface CheckedTargets {
  readonly targets: readonly TargetConfig[];
  readonly targetProblems: readonly TargetProblem[];
  readonly warnings: readonly Problem[];
  /** Mistakes of the list as a whole. */
  readonly problems: readonly Problem[];
}

/** What the rest of the configuration says that targets depend on. */
export interface AroundTargets {
  /** Rules for all payloads. */
  readonly fields: readonly PathRule[];
  readonly isOutboxOn: boolean;
}

/** Checks the entries of `svc.targets` one by one. */
export function checkTargets(
  setting: Setting | undefined,
  { fields, isOutboxOn }: AroundTargets,
): CheckedTargets {
  const targets: TargetConfig[] = [];
  const targetProblems: TargetProblem[] = [];
  const warnings: Problem[] = [];
  if (setting === undefined) return { targets, targetProblems, warnings, problems: [] };
  if (!Array.isArray(setting.value)) {
    const fix = 'Write one entry with module and function for each function to capture';
    const got = describeType(setting.value);
    return {
      targets,
      targetProblems,
      warnings,
      problems: [{ name: setting.name, message: 'must be a list', got, where: setting.where(), fix }],
    };
  }
  const firstOf = new Map<string, number>();
  for (const [index, entry] of Array.from(setting.value as unknown[]).entries()) {
    const one = checkTarget(entry, index, setting, isOutboxOn);
    if (one.problems.length === 0) checkKey(one, fields);
    const first = firstOf.get(one.id);
    if (first !== undefined) {
      const message = `is the same function as svc.targets[${first}]`;
      one.problems.push({ name: one.name, message, where: one.where(), fix: 'Keep one of them' });
    } else if (one.isNamed) firstOf.set(one.id, index);
    if (one.problems.length > 0)
      targetProblems.push({ index, id: printable(one.id), problems: one.problems });
    else {
      const target = one.target();
      targets.push(target);
      warnings.push(...warningsOf(target, one.name));
    }
  }
  return { targets, targetProblems, warnings, problems: [] };
}

function checkKey(one: CheckedTarget, fields: readonly PathRule[]): void {
  const target = one.target();
  for (const { field, message } of shownInClear(target, [...(target.pii ?? []), ...fields])) {
    const isKey = field === 'key';
    const fix = isKey ? 'Take another field for the key; the default is the event id' : 'Take another field';
    one.problems.push({ name: `${one.name}.${field}`, message, where: one.where(), fix });
  }
}

/** No field of a target is a secret, and what looks like the name of one is shown: it may be that of another version. */
const shownField = (key: string): string =>
  /^[a-z][a-z_-]{0,39}$/i.test(key) ? key : shownName(key, fieldNames);

const fieldNames: readonly string[] = targetFields.map((field) => field.name);

type Values = ReadonlyMap<string, unknown>;

interface CheckedTarget {
  readonly id: string;
  /** True when module and function are known, so that the id means something. */
  readonly isNamed: boolean;
  readonly name: string;
  readonly problems: Problem[];
  readonly where: () => string;
  readonly target: () => TargetConfig;
}

function checkTarget(entry: unknown, index: number, setting: Setting, isOutboxOn: boolean): CheckedTarget {
  const name = `${setting.name}[${index}]`;
  const where = () => setting.whereItem(index);
  const problems: Problem[] = [];
  const values = new Map<string, unknown>();
  if (!isNamedValues(entry)) {
    const fix = 'Write an entry with module and function';
    problems.push({ name, message: 'must be an object', got: describeType(entry), where: where(), fix });
  } else {
    readFields(entry, name, where, values, problems);
    for (const { field, message, fix } of outboxMistakes(Object.fromEntries(values), isOutboxOn))
      problems.push({ name: `${name}.${field}`, message, where: where(), fix });
  }
  const module = values.get('module');
  const path = values.get('function');
  const isNamed = typeof module === 'string' && typeof path === 'string';
  const id = targetId(typeof module === 'string' ? module : '?', typeof path === 'string' ? path : '?');
  const target = () => targetOf(values, id, index, where);
  return { id, isNamed, name, problems, where, target };
}

function targetOf(values: Values, id: string, index: number, where: () => string): TargetConfig {
  const implied: Values = new Map(values.has('outbox') ? [['failOnError', true]] : []);
  const known = targetFields.map(({ name, default: byDefault }) => [
    name,
    values.get(name) ?? implied.get(name) ?? byDefault,
  ]);
  // Looked for only when somebody asks.
  const place = {
    id,
    index,
    get where() {
      return where();
    },
  };
  return Object.assign(place, Object.fromEntries(known)) as TargetConfig;
}

function readFields(
  entry: object,
  targetName: string,
  where: () => string,
  values: Map<string, unknown>,
  problems: Problem[],
): void {
  const spelled = new Map<string, string>();
  for (const [key, value] of Object.entries(entry)) {
    const field = targetFields.find(
      (one) => one.name === camelCase(key) && (key === one.name || key === kebabCase(one.name)),
    );
    const add = (problem: Omit<Problem, 'name' | 'where'>) =>
      problems.push({ name: `${targetName}.${shownField(key)}`, where: where(), ...problem });
    if (field === undefined) {
      const nearest = nearestName(key, fieldNames);
      const fix = nearest === undefined ? `Known are ${fieldNames.join(', ')}` : `Did you mean ${nearest}?`;
      add({ message: 'is not a known field of a target', fix });
      continue;
    }
    if (value === undefined) continue;
    if (value === null) {
      // That it is required is said below.
      if (field.required) continue;
      add(emptyValue(`${key}: "#result.id"`));
      continue;
    }
    const first = spelled.get(field.name);
    spelled.set(field.name, key);
    if (first !== undefined) {
      add({ message: `is given twice, as ${first} and as ${key}`, fix: 'Keep one of them' });
      continue;
    }
    const checked = checkField(field, value);
    if (!checked.ok)
      problems.push(...problemsOf(`${targetName}.${key}`, checked, { where, whereItem: where }));
    else if (checked.value !== undefined) values.set(field.name, checked.value);
  }
  for (const field of targetFields) {
    if (field.required && !spelled.has(field.name)) {
      problems.push({ name: `${targetName}.${field.name}`, message: 'is required', where: where() });
    }
  }
}

function checkField(field: TargetField, value: unknown): ReturnType<typeof checkValue> {
  if (field.type === 'rules') return checkRulesOf(value, true);
  if (field.type === 'headers') return checkHeadersOf(value);
  if (field.type === 'outbox') return checkOutboxOf(value);
  return checkValue({ ...field, type: field.type, name: field.name }, value);
}

function warningsOf(target: TargetConfig, name: string): Problem[] {
  const warnings: Problem[] = [];
  if (target.payload !== undefined && target.payloadIndex !== -1) {
    const message = 'has both payload and payloadIndex; payload counts';
    warnings.push({ name, message, where: target.where, fix: 'Keep one of them' });
  }
  if (target.phase === 'BEFORE' && target.payload === undefined && target.payloadIndex === -1) {
    const message = 'makes its event before the function has returned anything: its payload is always null';
    warnings.push({ name, message, where: target.where, fix: 'Set payload or payloadIndex' });
  }
  if (target.phase === 'BEFORE' && target.callback !== undefined) {
    const message = 'makes its event before the function is called: callback has no effect';
    warnings.push({ name, message, where: target.where, fix: 'Remove callback, or take another phase' });
  }
  return warnings;
}
