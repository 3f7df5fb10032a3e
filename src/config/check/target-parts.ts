import {
  fitsOutboxText,
  headerNameProblem,
  longestOutboxText,
  maxHeaders,
} from '../../ground/event-fields.ts';
import { isNamedValues } from '../../ground/named-values.ts';
import { nearestName } from '../../ground/nearest-names.ts';
import { camelCase, kebabCase } from '../schema/option.ts';
import type { OutboxFields, TargetFields } from '../schema/target-fields.ts';
import { describeTyped, emptyValue, type Mistake, orMistakes } from './problem.ts';
import { type Checked, checkValue } from './value.ts';

// Fields of a target that have a form of their own.

/** `headers` of a target: expressions or functions by the names of headers. */
export function checkHeadersOf(value: unknown): Checked {
  if (!isNamedValues(value)) {
    const fix = 'Write name: expression for each header';
    return { ok: false, message: 'must be an object', got: describeTyped(value), fix };
  }
  const given = Object.entries(value);
  const mistakes: Mistake[] = [];
  if (given.length > maxHeaders) mistakes.push({ message: `must hold at most ${maxHeaders} headers` });
  for (const [index, [name, expression]] of given.entries()) {
    // By its number: in the place of a name may stand what nobody may read.
    const header = `header ${index + 1}`;
    const problem = headerNameProblem(name);
    if (problem !== undefined) mistakes.push({ message: `${header} ${problem}` });
    if (typeof expression === 'function' || (typeof expression === 'string' && expression.trim() !== ''))
      continue;
    const message = `${header} must be an expression or a function`;
    const fix = 'Put it in quotes; a text is written with its own: "\'web\'"';
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

/** `outbox` of a target: its fields by themselves. `false`: none. */
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
      mistakes.push({ message: 'has a field that is not known', fix });
    } else if (given === null) {
      // That it is required is said below.
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

/**
 * What `outbox` does not go together with. Of the configuration and of code alike, where `given` holds only what somebody
 * wrote: without the defaults.
 */
export function outboxMistakes(given: Given, isOutboxOn: boolean): FieldMistake[] {
  const { outbox, afterCommit, phase = 'AFTER_RETURNING', callback, failOnError } = given;
  if (outbox === undefined) return [];
  const mistakes: FieldMistake[] = [];
  const add = (field: keyof Given, message: string, fix: string) => mistakes.push({ field, message, fix });
  if (!isOutboxOn) {
    const message =
      'needs svc.outbox.enabled: true, and a direct send instead would not be part of the transaction';
    add('outbox', message, 'Set svc.outbox.enabled: true, or remove outbox');
  }
  if (phase !== 'AFTER_RETURNING') {
    const message = `${phase} cannot go with outbox: an event of a transaction tells of a call that succeeded`;
    add('phase', message, 'Use AFTER_RETURNING, or remove outbox');
  }
  if (callback !== undefined) {
    const message =
      'cannot go with outbox: nothing tells whether the transaction is still open at the callback';
    add('callback', message, 'Take a function that returns a promise, or remove outbox');
  }
  if (afterCommit === true) {
    const message = 'cannot go with outbox, whose events are sent only after the commit anyway';
    add('afterCommit', message, 'Keep one of them');
  }
  if (failOnError === false) {
    const message = 'false cannot go with outbox: an event that is not stored fails its transaction';
    add('failOnError', message, 'Remove failOnError, or remove outbox');
  }
  return mistakes;
}
