import { checkOutboxOf, outboxMistakes } from '../../config/check/target-parts.ts';
import type { Config } from '../../config/config.ts';
import { SvcError } from '../../ground/errors.ts';
import type { PlanFields } from './make-plan.ts';

/** The fields of a target in code, its `outbox` checked. Throws what keeps its function from being captured. */
export function withOutbox(fields: PlanFields, { outbox: { enabled } }: Pick<Config, 'outbox'>): PlanFields {
  if (fields.outbox === undefined) return fields;
  const checked = checkOutboxOf(fields.outbox);
  if (!checked.ok) throw wrong([checked, ...(checked.more ?? [])].map(({ message }) => `outbox ${message}`));
  const outbox = checked.value as PlanFields['outbox'];
  const mistakes = outboxMistakes({ ...fields, outbox }, enabled);
  if (mistakes.length > 0) throw wrong(mistakes.map(({ field, message }) => `${field} ${message}`));
  return { ...fields, outbox };
}

function wrong(says: readonly string[]): SvcError {
  return new SvcError('SVC_CAPTURE_RULE', says.join('; '));
}
