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
  scope.beforeCommit = (given) => {
    const known = outbox.result === 'transaction' || given?.isResult ? given : undefined;
    return publishCall(slot, {
      ...{ plan, self, args, error: undefined, canWait: true, scope },
      // Whether the event needs it shows when it is made: a function may look at it, or not.
      get result() {
        if (known === undefined) throw ownFailure(resultUnknown(plan));
        return known.value;
      },
    });
  };
  return scope;
}

export function inScope<R>(scope: Scope | undefined, work: () => R): R {
  return scope === undefined ? work() : runInScope(scope, work);
}

const knownOperations = "an ORM's transaction(…), or saving of TypeORM, MikroORM or Prisma,";

function resultUnknown({ id, eventType, outbox }: CapturePlan): SvcError {
  const found =
    outbox?.result === 'transaction'
      ? `and outbox.result: transaction finds none, as it is no ${knownOperations} that commits`
      : `set outbox.result: transaction where ${knownOperations} gives it`;
  return new SvcError(
    'SVC_CAPTURE_RESULT_UNKNOWN',
    `${id} commits a transaction of its own before it returns, and its event ${eventType} needs #result: ${found}; else open it with outbox.runInTransaction, make the event of the arguments, or name a function within the transaction`,
  );
}
