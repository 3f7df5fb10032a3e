import {
  fitsOutboxText,
  headerNameProblem,
  longestOutboxText,
  maxHeaders,
} from '../../ground/event-fields.ts';
import { isNamedValues, nearestName } from '../../ground/names.ts';
import type { PathRule } from '../../ground/pii-rule.ts';
import { camelCase, kebabCase } from '../schema/schema.ts';
import {
  type OutboxFields,
  type TargetConfig,
  type TargetField,
  type TargetFields,
  targetFields,
  targetId,
} from '../schema/target.ts';
import { shownInClear } from './across.ts';
import {
  type Checked,
  checkRulesOf,
  checkValue,
  describeType,
  describeTyped,
  emptyValue,
  type Mistake,
  orMistakes,
  type Problem,
  printable,
  problemsOf,
  type Setting,
  shownName,
} from './validate.ts';

/** An invalid target and all its problems. The other targets are not affected. */
export interface TargetProblem {
  /** Position in `svc.targets`, from 0. */
  readonly index: number;
  /** As in `TargetConfig`. Unknown parts are `?`. */
  readonly id: string;
  readonly problems: readonly Problem[];
}

interface CheckedTargets {
  readonly targets: readonly TargetConfig[];
  readonly targetProblems: readonly TargetProblem[];
  readonly warnings: readonly Problem[];
  /** Problems of the list as a whole. */
  readonly problems: readonly Problem[];
}

/** Other settings that targets depend on. */
export interface AroundTargets {
  /** Rules for all payloads. */
  readonly fields: readonly PathRule[];
  readonly isOutboxOn: boolean;
}

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
    const fix = isKey ? 'Use another field for the key; the default is the event id' : 'Use another field';
    one.problems.push({ name: `${one.name}.${field}`, message, where: one.where(), fix });
  }
}

/** Fields of targets are not secret, so a plain name is shown: it may be one of another version. */
const shownField = (key: string): string =>
  /^[a-z][a-z_-]{0,39}$/i.test(key) ? key : shownName(key, fieldNames);

const fieldNames: readonly string[] = targetFields.map((field) => field.name);

type Values = ReadonlyMap<string, unknown>;

interface CheckedTarget {
  readonly id: string;
  /** Module and function are known, so the id is unique. */
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
  // Computed only for a message.
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
      // The check for required fields reports it.
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
    const message = 'has both payload and payloadIndex; svc uses payload';
    warnings.push({ name, message, where: target.where, fix: 'Keep one of them' });
  }
  if (target.phase === 'BEFORE' && target.payload === undefined && target.payloadIndex === -1) {
    const message = 'makes its event before the function returns: its payload is always null';
    warnings.push({ name, message, where: target.where, fix: 'Set payload or payloadIndex' });
  }
  if (target.phase === 'BEFORE' && target.callback !== undefined) {
    const message = 'makes its event before the function is called: callback has no effect';
    warnings.push({ name, message, where: target.where, fix: 'Remove callback, or use another phase' });
  }
  return warnings;
}

/** Checks `headers` of a target: expressions or functions by header name. */
export function checkHeadersOf(value: unknown): Checked {
  if (!isNamedValues(value)) {
    const fix = 'Write name: expression for each header';
    return { ok: false, message: 'must be an object', got: describeTyped(value), fix };
  }
  const given = Object.entries(value);
  const mistakes: Mistake[] = [];
  if (given.length > maxHeaders) mistakes.push({ message: `must hold at most ${maxHeaders} headers` });
  for (const [index, [name, expression]] of given.entries()) {
    // By number, because the name may be a misplaced secret.
    const header = `header ${index + 1}`;
    const problem = headerNameProblem(name);
    if (problem !== undefined) mistakes.push({ message: `${header} ${problem}` });
    if (typeof expression === 'function' || (typeof expression === 'string' && expression.trim() !== ''))
      continue;
    const message = `${header} must be an expression or a function`;
    const fix = 'Put it in quotes; a text needs a second pair: "\'web\'"';
    mistakes.push({ message, got: describeTyped(expression), fix });
  }
  return orMistakes(Object.fromEntries(given), mistakes);
}

type Name = keyof OutboxFields<never>;

const outboxFields: Readonly<Record<Name, (value: unknown) => Checked>> = {
  aggregateType: checkAggregateType,
  aggregateId: (value) => checkValue({ ...optionOf('aggregateId'), orFunction: true }, value),
  result: (value) => checkValue({ ...optionOf('result'), type: 'enum', values: ['transaction'] }, value),
};
const names = Object.keys(outboxFields) as Name[];
const required: readonly Name[] = ['aggregateType', 'aggregateId'];

function optionOf(name: Name) {
  return { name, type: 'string', format: 'text' } as const;
}

function checkAggregateType(value: unknown): Checked {
  const checked = checkValue(optionOf('aggregateType'), value);
  if (!checked.ok || fitsOutboxText(String(checked.value))) return checked;
  return { ok: false, message: `must have at most ${longestOutboxText} bytes in UTF-8` };
}

/** Checks `outbox` of a target. `false`: no outbox. */
export function checkOutboxOf(value: unknown): Checked {
  if (value === false) return { ok: true, value: undefined };
  if (!isNamedValues(value)) {
    const fix = 'Write { aggregateType: Order, aggregateId: "#result.id" }';
    return { ok: false, message: 'must be an object', got: describeTyped(value), fix };
  }
  const found: Partial<Record<Name, unknown>> = {};
  const mistakes: Mistake[] = [];
  for (const [key, given] of Object.entries(value)) {
    const name = names.find((one) => key === one || key === kebabCase(one));
    if (name === undefined) {
      const nearest = nearestName(camelCase(key), names);
      const fix = nearest === undefined ? `Known are ${names.join(', ')}` : `Did you mean ${nearest}?`;
      mistakes.push({ message: 'has an unknown field', fix });
    } else if (given === null) {
      // The check for required fields reports it.
      if (required.includes(name)) continue;
      const { message, fix } = emptyValue(`${key}: "…"`);
      mistakes.push({ message: `${name} ${message}`, fix });
    } else if (given !== undefined) {
      const checked = outboxFields[name](given);
      if (!checked.ok) mistakes.push({ ...checked, message: `${name} ${checked.message}` });
      found[name] = checked.ok ? checked.value : null;
    }
  }
  for (const name of required)
    if (found[name] === undefined) mistakes.push({ message: `${name} is required` });
  return orMistakes(found, mistakes);
}

type Given = Pick<TargetFields<unknown>, 'outbox' | 'afterCommit' | 'phase' | 'callback' | 'failOnError'>;

interface FieldMistake extends Mistake {
  readonly field: keyof Given;
  readonly fix: string;
}

/** Fields that cannot be combined with `outbox`, in the configuration or in code. `given` contains no defaults. */
export function outboxMistakes(given: Given, isOutboxOn: boolean): FieldMistake[] {
  const { outbox, afterCommit, phase = 'AFTER_RETURNING', callback, failOnError } = given;
  if (outbox === undefined) return [];
  const mistakes: FieldMistake[] = [];
  const add = (field: keyof Given, message: string, fix: string) => mistakes.push({ field, message, fix });
  if (!isOutboxOn) {
    const message = 'needs svc.outbox.enabled: true: a direct send would not be part of the transaction';
    add('outbox', message, 'Set svc.outbox.enabled: true, or remove outbox');
  }
  if (phase !== 'AFTER_RETURNING') {
    const message = `${phase} cannot be combined with outbox: an event of a transaction reports a call that succeeded`;
    add('phase', message, 'Use AFTER_RETURNING, or remove outbox');
  }
  if (callback !== undefined) {
    const message = 'cannot be combined with outbox: the transaction may be over when the callback is called';
    add('callback', message, 'Capture a function that returns a promise, or remove outbox');
  }
  if (afterCommit === true) {
    const message = 'cannot be combined with outbox, whose events are always sent after the commit';
    add('afterCommit', message, 'Keep one of them');
  }
  if (failOnError === false) {
    const message = 'false cannot be combined with outbox: an event that is not stored fails its transaction';
    add('failOnError', message, 'Remove failOnError, or remove outbox');
  }
  return mistakes;
}
