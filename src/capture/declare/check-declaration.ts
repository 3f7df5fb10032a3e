import { nearestName } from '../../config/check/nearest.ts';
import { SvcError } from '../../ground/errors.ts';
import { severities, topicNamePattern, topicNameRule } from '../../ground/event-fields.ts';
import type { Phase } from '../plan.ts';
import type { PlanFields } from './make-plan.ts';

const phases: readonly Phase[] = ['BEFORE', 'AFTER_RETURNING', 'AFTER'];

interface Check {
  readonly isRight: (value: unknown) => boolean;
  readonly says: string;
}

const selector: Check = {
  isRight: (value) => typeof value === 'string' || typeof value === 'function',
  says: 'an expression or a function',
};
const elsewhere: Check = { isRight: () => true, says: '' };

const checks: { readonly [Name in keyof Required<PlanFields>]: Check } = {
  eventType: { isRight: (value) => typeof value === 'string', says: 'a text' },
  severity: {
    isRight: (value) => severities.includes(value as never),
    says: `one of ${severities.join(', ')}`,
  },
  topic: {
    isRight: (value) => typeof value === 'string' && topicNamePattern.test(value),
    says: `a topic name that Kafka accepts: ${topicNameRule}`,
  },
  payload: selector,
  when: selector,
  // These by those who read them.
  payloadIndex: elsewhere,
  callback: elsewhere,
  headers: elsewhere,
  pii: elsewhere,
  key: selector,
  phase: { isRight: (value) => phases.includes(value as Phase), says: `one of ${phases.join(', ')}` },
  failOnError: { isRight: (value) => typeof value === 'boolean', says: 'true or false' },
};

/**
 * Fields of a rule that was written in code, where nobody has looked at them yet.
 *
 * @throws SvcError that names the field, and never a value.
 */
export function checkDeclaration(fields: PlanFields): void {
  for (const [name, value] of Object.entries(fields)) {
    if (!Object.hasOwn(checks, name)) {
      const nearest = nearestName(name, Object.keys(checks));
      throw wrong(`unknown option ${name}${nearest === undefined ? '' : `: did you mean ${nearest}?`}`);
    }
    const { isRight, says } = checks[name as keyof PlanFields];
    if (value !== undefined && !isRight(value)) throw wrong(`${name} must be ${says}`);
  }
}

function wrong(what: string): SvcError {
  return new SvcError('SVC_CAPTURE_RULE', what);
}
