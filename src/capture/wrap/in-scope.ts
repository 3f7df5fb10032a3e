import { SvcError } from '../../ground/errors.ts';
import { currentScope, runInScope, Scope } from '../../transaction/scope.ts';
import { ownFailure } from '../expression/failure.ts';
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
  scope.wantsCallbackResult = outbox.result === 'transaction';
  scope.beforeCommit = (given) => {
    const known = scope.wantsCallbackResult || given?.isResult ? given : undefined;
    return publishCall(slot, {
      ...{ plan, self, args, error: undefined, canWait: true, scope },
      postpone: known === undefined ? () => giveBack(slot, scope) : undefined,
      // Whether the event needs it shows when it is made: a function may look at it, or not.
      get result() {
        if (known === undefined) throw ownFailure(resultUnknown(plan));
        return known.value;
      },
    });
  };
  return scope;
}

function giveBack(slot: CaptureSlot, scope: Scope): void {
  slot.calls--;
  scope.hasEvent = false;
}

export function inScope<R>(scope: Scope | undefined, work: () => R): R {
  return scope === undefined ? work() : runInScope(scope, work);
}

function resultUnknown({ id, eventType, outbox }: CapturePlan): SvcError {
  const known = 'transaction(…) of an ORM, or saving of TypeORM, MikroORM or Prisma,';
  const found =
    outbox?.result === 'transaction'
      ? `outbox.result: transaction finds none in it, as ${known} was not what committed`
      : `set outbox.result: transaction where ${known} gives it`;
  return new SvcError(
    'SVC_CAPTURE_RESULT_UNKNOWN',
    `${id} commits a transaction of its own before it returns, and its event ${eventType} needs #result: ${found}; else open it with outbox.runInTransaction, make the event of the arguments, name a function within the transaction, or set svc.outbox.on-no-transaction: autocommit, which stores the event by itself afterwards`,
  );
}
