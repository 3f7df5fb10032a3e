import assert from 'node:assert/strict';
import type { Call } from '../../../src/capture/call.ts';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { currentScope, runInScope, type Scope } from '../../../src/transaction/transaction.ts';
import { type RecordingSlot, recordingSlot } from '../recording-slot.ts';

describe('the event of a function before a COMMIT of its own', () => {
  const outboxOf = (result: 'transaction' | undefined) => ({
    ...{ aggregateType: 'order', aggregateId: () => '7', result },
  });

  /** Calls a function whose transaction asks for its event, and then does `more` before it returns 2. */
  function tell(
    result: 'transaction' | undefined,
    given?: { value: unknown; isResult?: boolean },
    more: (found: { slot: RecordingSlot; scope: Scope; call: Call }) => void = () => {},
  ) {
    const slot = recordingSlot({ outbox: outboxOf(result) });
    const wrapped = wrapFunction(() => {
      const scope = currentScope();
      void scope?.beforeCommit?.(given);
      const [call] = slot.seen;
      assert.ok(scope && call);
      more({ slot, scope, call });
      return 2;
    }, slot);
    assert.equal(runInScope(undefined, wrapped), 2);
    const [call] = slot.seen;
    assert.ok(call);
    return { slot, call };
  }

  it('has what the transaction gave for its result where that is wanted, or is the result by what it is', () => {
    assert.equal(tell('transaction', { value: 1 }).call.result, 1);
    assert.equal(tell(undefined, { value: 1, isResult: true }).call.result, 1);
  });

  for (const result of ['transaction', undefined] as const) {
    it(`has no result else, and says what can be set, with ${result ?? 'the default'}`, () => {
      const { call } = tell(result, result === undefined ? { value: 1 } : undefined);
      assert.throws(
        () => call.result,
        (error: Error) => {
          assert.match(error.message, /needs #result/);
          assert.equal(/set outbox\.result/.test(error.message), result === undefined);
          return true;
        },
      );
    });
  }

  it('can be made later, as if it had not been asked for', () => {
    const { slot } = tell(undefined, undefined, ({ slot, scope, call }) => {
      assert.deepEqual([slot.calls, scope.hasEvent], [1, true]);
      call.postpone?.();
      assert.deepEqual([slot.calls, scope.hasEvent], [0, false]);
    });
    assert.deepEqual([slot.calls, slot.seen[1]?.result], [1, 2], 'it is made with what is returned');
    assert.equal(tell('transaction', { value: 1 }).call.postpone, undefined);
  });
});
