import { type TargetFields, targetDefaults } from '../../config/schema/target-fields.ts';
import { SvcError } from '../../ground/errors.ts';
import type { ExpressionScope } from '../expression/scope.ts';
import {
  aggregateIdSelector,
  keySelector,
  payloadSelector,
  type Selector,
  whenSelector,
} from '../expression/selector.ts';
import type { CapturePlan, OutboxPlan, PlanOrigin } from '../plan.ts';
import { headerSelector } from './header-selector.ts';

export type PlanFields = TargetFields<string | Selector, unknown>;

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
  const select = payloadSelector(fields, parameterNames);
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
    when: fields.when === undefined ? undefined : whenSelector(fields.when, parameterNames),
    payload: fields.payload === undefined ? select : declared(select),
    outbox,
    afterCommit: fields.afterCommit ?? targetDefaults.afterCommit,
    key: fields.key === undefined ? outbox?.aggregateId : keySelector(fields.key, parameterNames),
    headers: fields.headers && headerSelector(fields.headers, parameterNames),
    notes: notesOf(fields, parameterNames),
  };
}

function outboxPlan(
  fields: PlanFields,
  parameterNames: readonly string[] | undefined,
): OutboxPlan | undefined {
  if (fields.outbox === undefined) return undefined;
  const { aggregateType, aggregateId, result } = fields.outbox;
  return {
    aggregateType,
    aggregateId: aggregateIdSelector(aggregateId, parameterNames),
    result,
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
