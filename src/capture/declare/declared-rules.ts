import { shownInClear } from '../../config/check/across/key-in-clear.ts';
import { checkRulesOf } from '../../config/check/pii-rules.ts';
import type { Config } from '../../config/config.ts';
import { SvcError } from '../../ground/errors.ts';
import type { PathRule } from '../../ground/pii-rule.ts';

type Fields = Parameters<typeof shownInClear>[0] & { readonly pii?: unknown };

/** The `pii` of a target in code. Throws what keeps its function from being captured. */
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

/** Throws where the key, the aggregate id or a header of a target reads what these rules, or those for all payloads, protect. */
export function refuseInClear(
  fields: Parameters<typeof shownInClear>[0],
  rules: readonly PathRule[],
  { pii }: Pick<Config, 'pii'>,
): void {
  if (!pii.enabled) return;
  const inClear = shownInClear(fields, [...rules, ...pii.fields]).map(
    ({ field, message }) => `${field} ${message}`,
  );
  if (inClear.length > 0) throw new SvcError('SVC_PROTECT_RULE', `${inClear.join('; ')}. Take another field`);
}
