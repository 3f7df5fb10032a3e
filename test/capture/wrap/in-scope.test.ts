import assert from 'node:assert/strict';
import { scopeOf } from '../../../src/capture/wrap/wrap.ts';
import { recordingSlot } from '../recording-slot.ts';

describe('the event of a function before a COMMIT of its own', () => {
  const outboxOf = (result: 'transaction' | undefined) => ({
    ...{ aggregateType: 'order', aggregateId: () => '7', result },
  });

  function tell(result: 'transaction' | undefined, given?: { value: unknown; isResult?: boolean }) {
    const slot = recordingSlot({ outbox: outboxOf(result) });
    const scope = scopeOf(slot, slot.plan, undefined, []);
    void scope?.beforeCommit?.(given);
    const [call] = slot.seen;
    assert.ok(call);
    return { slot, scope, call };
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
    const { slot, scope, call } = tell(undefined);
    assert.deepEqual([slot.calls, scope?.hasEvent], [1, true]);
    call.postpone?.();
    assert.deepEqual([slot.calls, scope?.hasEvent], [0, false]);
    assert.equal(tell('transaction', { value: 1 }).call.postpone, undefined);
  });
});
