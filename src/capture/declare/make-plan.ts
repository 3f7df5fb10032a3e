import { checkOutboxOf, checkRulesOf, outboxMistakes, shownInClear } from '../../config/check/check.ts';
import type { Config } from '../../config/config.ts';
import { formats, hasFormat } from '../../config/schema/schema.ts';
import {
  type TargetConfig,
  type TargetField,
  type TargetFields,
  targetDefaults,
  targetFields,
} from '../../config/schema/target.ts';
import { SvcError } from '../../ground/errors.ts';
import { loadChunk } from '../../ground/lifecycle.ts';
import { isNamedValues, optionsProblem } from '../../ground/names.ts';
import type { PathRule } from '../../ground/pii-rule.ts';
import type { CapturePlan, ExpressionScope } from '../call.ts';
import type * as Language from '../expression/compile.ts';
import type { Selector } from '../expression/compile.ts';
import { isUsable } from '../wrap/wrap.ts';
import type { Declaration } from './declarations.ts';

/** Loaded for the first expression. */
function language(): typeof Language {
  return loadChunk(import.meta.url, '../expression/compile.ts') as typeof Language;
}

type PlanFields = TargetFields<string | Selector, unknown>;

/** Throws `SvcError` when the target's expressions do not fit the function. */
export function planOfTarget(
  target: TargetConfig,
  parameterNames: readonly string[] | undefined,
  config: Pick<Config, 'pii'>,
): CapturePlan {
  const params = target.params ?? parameterNames;
  // The check of the configuration did not know the parameter names.
  const { key, outbox, headers, payload, payloadIndex, pii } = target;
  refuseInClear({ key, outbox, headers, payload, payloadIndex, params }, pii ?? [], config);
  return makePlan(target.id, 'configuration', target, eventTypeOf(target), params);
}

/** Throws `SvcError` when its fields are wrong or do not fit the function. */
export function planOfDeclaration(
  { name, origin, options, parameterNames }: Declaration,
  config: Pick<Config, 'outbox'>,
): CapturePlan {
  checkDeclaration(options);
  return makePlan(name, origin, withOutbox(options, config), options.eventType || name, parameterNames);
}

/** `OrderService.prototype.create` publishes `OrderService.create`; `default` publishes the name of its module. */
export function eventTypeOf({ eventType, function: functionPath, module }: TargetConfig): string {
  if (eventType !== undefined) return eventType;
  if (functionPath === 'default') return module.replace(/^.*[\\/]/, '').replace(/\.[^.]+$/, '');
  return functionPath.replace('.prototype.', '.').replace('()', '');
}

/** Throws `SvcError` if an expression does not parse, or uses a name that the function does not have. */
function makePlan(
  id: string,
  origin: CapturePlan['origin'],
  fields: PlanFields,
  eventType: string,
  parameterNames: readonly string[] | undefined,
): CapturePlan {
  const { payload, payloadIndex = -1, outbox } = fields;
  const compile = () => language().compileSelectors(fields, parameterNames);
  // Most targets publish their result: its selection needs no expression.
  const isResult = payload === undefined && payloadIndex === -1;
  const isPlain = isResult && otherSelections.every((name) => fields[name] === undefined);
  const selectors = isPlain ? undefined : compile();
  const selectResult = (call: ExpressionScope) => {
    const { result } = call;
    // Otherwise the selector throws the reason.
    return isUsable(result) ? result : (selectors ?? compile()).payload(call);
  };
  return {
    id,
    origin,
    eventType,
    severity: fields.severity ?? targetDefaults.severity,
    topic: fields.topic,
    phase: fields.phase ?? targetDefaults.phase,
    failOnError: outbox !== undefined || (fields.failOnError ?? targetDefaults.failOnError),
    callback: fields.callback,
    when: selectors?.when,
    payload: isResult || selectors === undefined ? selectResult : selectors.payload,
    outbox: outbox &&
      selectors?.aggregateId && {
        aggregateType: outbox.aggregateType,
        aggregateId: selectors.aggregateId,
        result: outbox.result,
      },
    afterCommit: fields.afterCommit ?? targetDefaults.afterCommit,
    key: selectors?.key ?? selectors?.aggregateId,
    headers: selectors?.headers,
    notes: notesOf(fields, parameterNames),
  };
}

/** Fields that select something beside the payload. */
const otherSelections = ['when', 'key', 'outbox', 'headers'] as const;

const callbackNames = new Set(['callback', 'cb', 'done', 'next']);

function notesOf({ callback, phase }: PlanFields, names: readonly string[] | undefined): string[] {
  const last = names?.at(-1) ?? '';
  if (callback !== undefined || phase === 'BEFORE' || !callbackNames.has(last)) return [];
  return [`published when the function returns, not when its parameter ${last} is called (callback: last)`];
}

const known = new Map(
  targetFields.filter((field) => !field.configuredOnly).map((field) => [field.name as string, field]),
);

/** Throws an error that names the wrong field, never its value. */
function checkDeclaration(fields: PlanFields): void {
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

/** The fields of a target in code, with its `outbox` checked. Throws the reason why its function cannot be captured. */
function withOutbox(fields: PlanFields, { outbox: { enabled } }: Pick<Config, 'outbox'>): PlanFields {
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
function refuseInClear(
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
