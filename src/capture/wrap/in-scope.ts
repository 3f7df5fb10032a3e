import { SvcError } from '../../ground/errors.ts';
import { currentScope, runInScope, Scope } from '../../transaction/scope.ts';
import type { CapturePlan } from '../plan.ts';
import type { CaptureSlot } from '../slot.ts';
import { publishCall } from './publish-call.ts';

/** Where a function runs whose event belongs to a transaction; `undefined` for all others. */
export function scopeOf(
  slot: CaptureSlot,
  plan: CapturePlan,
  self: unknown,
  args: readonly unknown[],
): Scope | undefined {
  const { outbox } = plan;
  if (outbox === undefined) return plan.afterCommit ? new Scope(currentScope()) : undefined;
  const scope = new Scope(currentScope());
  scope.beforeCommit = (given) => {
    const result = outbox.result === 'transaction' || given?.isResult ? given : undefined;
    const refusal = outbox.needsResult && result === undefined ? resultUnknown(plan) : undefined;
    const call = { plan, self, args, result: result?.value ?? null, error: undefined, canWait: true };
    return publishCall(slot, { ...call, scope, refusal });
  };
  return scope;
}

export function inScope<R>(scope: Scope | undefined, work: () => R): R {
  return scope === undefined ? work() : runInScope(scope, work);
}

function resultUnknown({ id, eventType }: CapturePlan): SvcError {
  return new SvcError(
    'SVC_CAPTURE_RESULT_UNKNOWN',
    `${id} commits a transaction of its own before it returns, and its event ${eventType} needs #result: set outbox.result: transaction where an ORM's transaction(…) returns it, open it with outbox.runInTransaction, make the event of the arguments, or name a function within the transaction`,
  );
}
