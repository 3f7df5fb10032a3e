import { checkOutboxOf, checkRulesOf, outboxMistakes, shownInClear } from '../../config/check/check.ts';
import type { Config } from '../../config/config.ts';
import { formats, hasFormat } from '../../config/schema/schema.ts';
import {
  type TargetField,
  type TargetFields,
  targetDefaults,
  targetFields,
} from '../../config/schema/target.ts';
import { SvcError } from '../../ground/errors.ts';
import { headerNameProblem, headerText, headerTextForm, maxHeaders } from '../../ground/event-fields.ts';
import { loadChunk } from '../../ground/lifecycle.ts';
import { isNamedValues, optionsProblem, plainObject } from '../../ground/names.ts';
import type { PathRule } from '../../ground/pii-rule.ts';
import type { CapturePlan, ExpressionScope } from '../call.ts';
import type * as Language from '../expression/compile.ts';
import type { Selector } from '../expression/compile.ts';
import { isUsable } from '../wrap/wrap.ts';

export type PlanFields = TargetFields<string | Selector, unknown>;

/** Loaded for the first expression. */
function language(): typeof Language {
  return loadChunk(import.meta.url, '../expression/compile.ts') as typeof Language;
}

/**
 * Compiles a target.
 *
 * @throws SvcError if an expression does not parse, or uses a name that the function does not have
 */
export function makePlan(
  id: string,
  origin: CapturePlan['origin'],
  fields: PlanFields,
  defaultEventType: string,
  parameterNames: readonly string[] | undefined,
): CapturePlan {
  const select = payloadOf(fields, parameterNames);
  const outbox = outboxPlan(fields, parameterNames);
  return {
    id,
    origin,
    eventType: fields.eventType || defaultEventType,
    severity: fields.severity ?? targetDefaults.severity,
    topic: fields.topic,
    phase: fields.phase ?? targetDefaults.phase,
    failOnError: outbox !== undefined || (fields.failOnError ?? targetDefaults.failOnError),
    callback: fields.callback,
    when: fields.when === undefined ? undefined : language().whenSelector(fields.when, parameterNames),
    payload: fields.payload === undefined ? select : declared(select),
    outbox,
    afterCommit: fields.afterCommit ?? targetDefaults.afterCommit,
    key: fields.key === undefined ? outbox?.aggregateId : language().keySelector(fields.key, parameterNames),
    headers: fields.headers && headerSelector(fields.headers, parameterNames),
    notes: notesOf(fields, parameterNames),
  };
}

/** Most targets publish their result: its selection needs no expression. */
function payloadOf(
  fields: PlanFields,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => unknown {
  const { payload, payloadIndex = -1 } = fields;
  const select = () => language().payloadSelector(fields, parameterNames);
  if (payload !== undefined || payloadIndex !== -1) return select();
  return (call) => {
    const { result } = call;
    // Otherwise the selector throws the reason.
    return isUsable(result) ? result : select()(call);
  };
}

function outboxPlan(
  fields: PlanFields,
  parameterNames: readonly string[] | undefined,
): CapturePlan['outbox'] {
  if (fields.outbox === undefined) return undefined;
  const { aggregateType, aggregateId, result } = fields.outbox;
  return {
    aggregateType,
    aggregateId: language().aggregateIdSelector(aggregateId, parameterNames),
    result,
  };
}

const callbackNames = new Set(['callback', 'cb', 'done', 'next']);

function notesOf({ callback, phase }: PlanFields, names: readonly string[] | undefined): string[] {
  const last = names?.at(-1) ?? '';
  if (callback !== undefined || phase === 'BEFORE' || !callbackNames.has(last)) return [];
  return [`published when the function returns, not when its parameter ${last} is called (callback: last)`];
}

/** Fails if a declared payload is missing, instead of publishing an empty event. */
function declared(select: (call: ExpressionScope) => unknown): (call: ExpressionScope) => unknown {
  return (call) => {
    const payload = select(call);
    if (payload === undefined)
      throw new SvcError('SVC_CAPTURE_EXPRESSION', 'the payload expression returned nothing');
    return payload;
  };
}

/** `OrderService.prototype.create` publishes `OrderService.create`; `default` publishes the name of its module. */
export function defaultEventType(functionPath: string, module: string): string {
  if (functionPath === 'default') return module.replace(/^.*[\\/]/, '').replace(/\.[^.]+$/, '');
  return functionPath.replace('.prototype.', '.').replace('()', '');
}

const known = new Map(
  targetFields.filter((field) => !field.configuredOnly).map((field) => [field.name as string, field]),
);

/**
 * Checks the fields of a target in code.
 *
 * @throws SvcError that names the field, never its value
 */
export function checkDeclaration(fields: PlanFields): void {
  const problem = optionsProblem(fields, [...known.keys()]);
  if (problem !== undefined) throw wrong(isNamedValues(fields) ? problem : `${problem}, and come first`);
  for (const [name, value] of Object.entries(fields)) {
    const must = value === undefined ? undefined : whatItMust(known.get(name) as TargetField, value);
    if (must !== undefined) throw wrong(`${name} ${must}`);
  }
}

/** `undefined` for a valid value, and for fields checked where they are read: `payloadIndex`, `headers`, `outbox` and `pii`. */
function whatItMust(
  { type, values = [], format, orFunction }: TargetField,
  value: unknown,
): string | undefined {
  const isText = typeof value === 'string';
  const unless = (isRight: boolean, says: string) => (isRight ? undefined : says);
  switch (type) {
    case 'boolean':
      return unless(typeof value === 'boolean', 'must be true or false');
    case 'enum':
      return unless(
        isText && values.includes(value),
        `must be ${values.length > 1 ? 'one of ' : ''}${values.join(', ')}`,
      );
    case 'string':
      if (orFunction)
        return unless(isText || typeof value === 'function', 'must be an expression or a function');
      if (format === 'topic') return unless(isText && hasFormat(format, value), formats[format].says);
      return unless(isText, 'must be a string');
    default:
      return undefined;
  }
}

function wrong(what: string): SvcError {
  return new SvcError('SVC_CAPTURE_RULE', what);
}

/**
 * Returns the function that selects the headers of a call, as texts; null and undefined are left out.
 *
 * @throws SvcError `SVC_CAPTURE_HEADERS` for an invalid header name, and for an expression that does not fit the
 *   function. The returned function throws the errors of its expressions, and `SVC_CAPTURE_HEADERS` for an invalid
 *   value
 */
function headerSelector(
  spec: Readonly<Record<string, string | Selector>>,
  parameterNames: readonly string[] | undefined,
): (call: ExpressionScope) => Readonly<Record<string, string>> {
  if (!isNamedValues(spec)) throw headersError(`headers must be ${plainObject}`);
  const entries = Object.entries(spec);
  if (entries.length > maxHeaders) throw headersError(`there can be at most ${maxHeaders} headers`);
  const selectors = entries.map(([name, given], index) => {
    const problem = headerNameProblem(name);
    if (problem !== undefined) throw headersError(`header ${index + 1} ${problem}`);
    return { name, select: language().selector(given, `${name} header`, parameterNames) };
  });
  return (call) => {
    const headers: Record<string, string> = {};
    for (const { name, select } of selectors) {
      const text = headerText(select(call));
      if (text === undefined) throw headersError(`the header ${name} must be ${headerTextForm}`);
      if (text !== null) headers[name] = text;
    }
    return headers;
  };
}

function headersError(message: string): SvcError {
  return new SvcError('SVC_CAPTURE_HEADERS', message);
}

/** A note about parameters with a default that expressions use: they see only the caller's arguments. `defaulted`: positions. */
export function defaultsNote(
  expressions: readonly string[],
  names: readonly string[],
  defaulted: readonly number[],
): string | undefined {
  const used = new Set(expressions.flatMap(namesIn));
  const parameters = defaulted
    .filter((index) => [names[index] || undefined, `p${index}`, `a${index}`].some((name) => used.has(name)))
    .map((index) => names[index] || `p${index}`);
  if (parameters.length === 0) return undefined;
  const [one, ...more] = parameters;
  const subject =
    more.length > 0 ? `parameters ${parameters.join(', ')} have defaults` : `parameter ${one} has a default`;
  return `${subject}, which expressions do not see: undefined if the caller omits it`;
}

function namesIn(text: string): (string | undefined)[] {
  try {
    const positions = [...text.matchAll(/\bargs\s*\[\s*(\d+)\s*\]/g)].map(([, index]) => `p${index}`);
    return [...language().parseExpression(text).variables, ...positions];
  } catch {
    // The error is reported elsewhere, with the column.
    return [];
  }
}

/** The fields of a target in code, with its `outbox` checked. Throws the reason why its function cannot be captured. */
export function withOutbox(fields: PlanFields, { outbox: { enabled } }: Pick<Config, 'outbox'>): PlanFields {
  if (fields.outbox === undefined) return fields;
  const checked = checkOutboxOf(fields.outbox);
  if (!checked.ok)
    throw wrongOfDeclaredOutbox([checked, ...(checked.more ?? [])].map(({ message }) => `outbox ${message}`));
  const outbox = checked.value as PlanFields['outbox'];
  const mistakes = outboxMistakes({ ...fields, outbox }, enabled);
  if (mistakes.length > 0)
    throw wrongOfDeclaredOutbox(mistakes.map(({ field, message }) => `${field} ${message}`));
  return { ...fields, outbox };
}

function wrongOfDeclaredOutbox(says: readonly string[]): SvcError {
  return new SvcError('SVC_CAPTURE_RULE', says.join('; '));
}

type Fields = Parameters<typeof shownInClear>[0] & { readonly pii?: unknown };

/** The `pii` of a target in code. Throws the reason why its function cannot be captured. */
export function declaredRules(fields: Fields, { pii }: Pick<Config, 'pii'>): readonly PathRule[] {
  if (!pii.enabled) return [];
  const checked = fields.pii === undefined ? undefined : checkRulesOf(fields.pii, true);
  if (checked?.ok === false) {
    const says = [checked, ...(checked.more ?? [])].map(({ message }) => message);
    throw new SvcError('SVC_PROTECT_RULE', `pii ${says.join('; ')}`);
  }
  const rules = checked?.value ?? [];
  refuseInClear(fields, rules, { pii });
  return rules;
}

/** Throws if the key, the aggregate id or a header of a target reads a field that these rules, or the global ones, protect. */
export function refuseInClear(
  fields: Parameters<typeof shownInClear>[0],
  rules: readonly PathRule[],
  { pii }: Pick<Config, 'pii'>,
): void {
  if (!pii.enabled) return;
  const inClear = shownInClear(fields, [...rules, ...pii.fields]).map(
    ({ field, message }) => `${field} ${message}`,
  );
  if (inClear.length > 0) throw new SvcError('SVC_PROTECT_RULE', `${inClear.join('; ')}. Use another field`);
}
