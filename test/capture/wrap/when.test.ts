import assert from 'node:assert/strict';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { SvcError } from '../../../src/ground/errors.ts';
import { type PlanFields, planOf as planOfFields } from '../plan-of.ts';
import { recordingSlot } from '../recording-slot.ts';

const planOf = (fields: PlanFields) => planOfFields(fields, ['id']);

describe('when', () => {
  it('decides by expression or function which calls make an event; the others are counted as skipped', () => {
    for (const when of ['#result != null', ({ result }: { result: unknown }) => result]) {
      const slot = recordingSlot(planOf({ when }));
      const find = wrapFunction((id: number) => (id === 7 ? { id } : null), slot);
      assert.equal(find(1), null);
      assert.deepEqual(find(7), { id: 7 });
      assert.equal(find(2), null);
      assert.deepEqual([slot.calls, slot.skipped, slot.failed], [3, 2, 0]);
      assert.deepEqual(
        slot.seen.map(({ result }) => result),
        [{ id: 7 }],
      );
    }
  });

  it('is asked before anything else of the target', () => {
    const slot = recordingSlot(
      planOf({ when: 'false', payload: () => assert.fail('asked for the payload') }),
    );
    wrapFunction(() => 1, slot)();
    assert.deepEqual([slot.skipped, slot.seen.length], [1, 0]);
  });

  it('is asked in every phase, with what is known then', () => {
    const before = recordingSlot(planOf({ phase: 'BEFORE', when: '#id > 1' }));
    const find = (slot: typeof before) => wrapFunction((id: number) => id, slot);
    assert.deepEqual([find(before)(1), find(before)(2)], [1, 2]);
    assert.deepEqual([before.calls, before.skipped, before.seen.length], [2, 1, 1]);
    const after = recordingSlot(planOf({ phase: 'AFTER', when: '#error == null' }));
    const failing = wrapFunction((): never => {
      throw new Error('gone');
    }, after);
    assert.throws(failing, /gone/);
    assert.deepEqual([after.calls, after.skipped, after.failed], [1, 1, 0]);
  });

  it('that fails, or gives a promise, hands the call over as refused: it is no silent yes or no', () => {
    for (const when of [
      '#result.a.b',
      async () => true,
      () => {
        throw new Error('secret');
      },
    ]) {
      const slot = recordingSlot(planOf({ when }));
      wrapFunction(() => ({}), slot)();
      assert.deepEqual([slot.calls, slot.skipped], [1, 0]);
      const refusal = slot.seen[0]?.refusal;
      assert.ok(
        refusal instanceof SvcError && refusal.code.startsWith('SVC_CAPTURE_EXPRESSION'),
        `${refusal}`,
      );
      assert.doesNotMatch(refusal.message, /secret/);
    }
  });

  it('is checked at start', () => {
    assert.throws(() => planOf({ when: '#nothing' }), { code: 'SVC_CAPTURE_EXPRESSION_NAME' });
    assert.throws(() => planOf({ when: 'a b' }), { code: 'SVC_CAPTURE_EXPRESSION_SYNTAX' });
  });
});

describe('a parameter that looks like a callback', () => {
  const notesFor = (names: string[], fields: PlanFields = {}) => planOfFields(fields, names).notes;

  it('is named in the report, where it is the last one and nobody said what it is', () => {
    for (const last of ['callback', 'cb', 'done', 'next'])
      assert.match(
        `${notesFor(['x', last])}`,
        new RegExp(`its parameter ${last} is called \\(callback: last\\)`),
      );
    assert.deepEqual(notesFor(['cb', 'x']), []);
    assert.deepEqual(notesFor(['x', 'cb'], { callback: 'last' }), []);
    assert.deepEqual(notesFor(['x', 'cb'], { phase: 'BEFORE' }), []);
  });
});
