import { SvcError } from '../../ground/errors.ts';
import { type Severity, severities } from '../../ground/event-fields.ts';
import type { PiiRules } from '../../ground/pii-rule.ts';
import type { ExpressionScope } from '../expression/scope.ts';
import { keySelector, payloadSelector, type Selector, whenSelector } from '../expression/selector.ts';
import type { CapturePlan, Phase, PlanOrigin } from '../plan.ts';
import { type HeaderSpec, headerSelector } from './header-selector.ts';

/** The fields of a publish target that say what is published; the same in the configuration and in code. */
export interface PlanFields {
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
  /** Which calls make an event: an expression or a function. Default: all. */
  readonly when?: string | Selector | undefined;
  /** `last`: the last argument is a callback in Node's form, the error first; what follows the error is the result. */
  readonly callback?: 'last' | undefined;
  /** Record key. Default: the event id. */
  readonly key?: string | Selector | undefined;
  /** Headers of the record by their names: expressions or functions. */
  readonly headers?: HeaderSpec | undefined;
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
export function makePlan(
  id: string,
  origin: PlanOrigin,
  fields: PlanFields,
  defaultEventType: string,
  parameterNames: readonly string[] | undefined,
): CapturePlan {
  const severity = fields.severity ?? 'INFO';
  if (!severities.includes(severity)) {
    throw new SvcError('SVC_CAPTURE_RULE', `severity must be one of ${severities.join(', ')}`);
  }
  if (fields.callback !== undefined && fields.callback !== 'last') {
    throw new SvcError('SVC_CAPTURE_RULE', 'callback must be last');
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
    callback: fields.callback,
    when: fields.when === undefined ? undefined : whenSelector(fields.when, parameterNames),
    payload: fields.payload === undefined ? select : declared(select),
    key: fields.key === undefined ? undefined : keySelector(fields.key, parameterNames),
    headers: fields.headers && headerSelector(fields.headers, parameterNames),
    notes: notesOf(fields, parameterNames),
  };
}

const callbackNames = new Set(['callback', 'cb', 'done', 'next']);

function notesOf({ callback, phase }: PlanFields, names: readonly string[] | undefined): string[] {
  const last = names?.at(-1) ?? '';
  if (callback !== undefined || phase === 'BEFORE' || !callbackNames.has(last)) return [];
  return [
    `published when the function returns, without waiting for its parameter ${last}: with callback: last, when that is called`,
  ];
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
