import { SvcError } from '../errors.ts';
import type { PiiRules } from '../field-rule.ts';
import { type Severity, severities } from '../severity.ts';
import type { ExpressionScope } from './expression/scope.ts';
import { keySelector, payloadSelector, type Selector } from './expression/selector.ts';
import type { CaptureRule, Phase, RuleOrigin } from './rule.ts';

/** The fields of a publish target that say what is published; the same in the configuration and in code. */
export interface RuleFields {
  /** Default: `ClassName.methodName`, or the function's name. */
  readonly eventType?: string | undefined;
  /** Default: INFO. */
  readonly severity?: Severity | undefined;
  /** Default: `svc.broker.topic`. */
  readonly topic?: string | undefined;
  /** Default: the return value. */
  readonly payload?: string | Selector | undefined;
  /** -1, the default: the return value; 0 and up: that argument. `payload` wins. */
  readonly payloadIndex?: number | undefined;
  /** Record key. Default: the event id. */
  readonly key?: string | Selector | undefined;
  /** Rules for personal data in the payload, in the forms of `svc.pii.fields`; `{ type: 'EMAIL' }` for the whole of it. */
  readonly pii?: PiiRules | undefined;
  /** Default: AFTER_RETURNING. */
  readonly phase?: Phase | undefined;
  /** Default: false. */
  readonly failOnError?: boolean | undefined;
}

/**
 * Compiles what one target says.
 *
 * @throws SvcError where an expression does not parse or names something that the function does not have.
 */
export function makeRule(
  id: string,
  origin: RuleOrigin,
  fields: RuleFields,
  defaultEventType: string,
  parameterNames: readonly string[] | undefined,
): CaptureRule {
  const severity = fields.severity ?? 'INFO';
  if (!severities.includes(severity)) {
    throw new SvcError('SVC_CAPTURE_RULE', `severity must be one of ${severities.join(', ')}`);
  }
  const select = payloadSelector(fields, parameterNames);
  return {
    id,
    origin,
    eventType: fields.eventType || defaultEventType,
    severity,
    topic: fields.topic,
    phase: fields.phase ?? 'AFTER_RETURNING',
    failOnError: fields.failOnError ?? false,
    payload: fields.payload === undefined ? select : declared(select),
    key: fields.key === undefined ? undefined : keySelector(fields.key, parameterNames),
  };
}

/** A payload that somebody described and that is not there is a failure, never an event that says nothing. */
function declared(select: (call: ExpressionScope) => unknown): (call: ExpressionScope) => unknown {
  return (call) => {
    const payload = select(call);
    if (payload === undefined)
      throw new SvcError('SVC_CAPTURE_EXPRESSION', 'the payload expression found nothing');
    return payload;
  };
}

/** `OrderService.prototype.create` publishes `OrderService.create`; `default` publishes the name of its module. */
export function defaultEventType(functionPath: string, module: string): string {
  if (functionPath === 'default') return module.replace(/^.*[\\/]/, '').replace(/\.[^.]+$/, '');
  return functionPath.replace('.prototype.', '.').replace('()', '');
}
