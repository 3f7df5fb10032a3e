import { formats, hasFormat } from '../../config/schema/format.ts';
import { type TargetField, targetFields } from '../../config/schema/target-fields.ts';
import { SvcError } from '../../ground/errors.ts';
import { isNamedValues, optionsProblem } from '../../ground/named-values.ts';
import type { PlanFields } from './make-plan.ts';

const known = new Map(
  targetFields.filter((field) => !field.configuredOnly).map((field) => [field.name as string, field]),
);

/**
 * Fields of a target that was written in code, where nobody has looked at them yet.
 *
 * @throws SvcError that names the field, and never a value.
 */
export function checkDeclaration(fields: PlanFields): void {
  const problem = optionsProblem(fields, [...known.keys()]);
  if (problem !== undefined) throw wrong(isNamedValues(fields) ? problem : `${problem}, and come first`);
  for (const [name, value] of Object.entries(fields)) {
    const must = value === undefined ? undefined : whatItMust(known.get(name) as TargetField, value);
    if (must !== undefined) throw wrong(`${name} ${must}`);
  }
}

/** `undefined` where the value is right, or looked at by those who read it: `payloadIndex`, `headers`, `outbox` and `pii`. */
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
      return unless(isText, 'must be a text');
    default:
      return undefined;
  }
}

function wrong(what: string): SvcError {
  return new SvcError('SVC_CAPTURE_RULE', what);
}
