import assert from 'node:assert/strict';
import type { CallCounts } from '../../../src/capture/slot.ts';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { type RecordingSlot, recordingSlot } from '../recording-slot.ts';

const soldOut = new Error('sold out');

const failing: Record<string, (slot: RecordingSlot) => unknown> = {
  'that throw': (slot) =>
    wrapFunction((): never => {
      throw soldOut;
    }, slot)(),
  'that reject': (slot) => wrapFunction(async () => Promise.reject(soldOut), slot)(),
  'that construct nothing': (slot) => {
    const Order = wrapFunction(
      class {
        constructor() {
          throw soldOut;
        }
      },
      slot,
    );
    return new Order();
  },
  'with a lazy result': (slot) =>
    wrapFunction(
      () => ({
        // biome-ignore lint/suspicious/noThenProperty: a query, which runs when it is awaited
        then: (_: unknown, onError: (error: unknown) => void) =>
          Promise.reject(soldOut).then(undefined, onError),
      }),
      slot,
    )(),
  'with a generator': (slot) => [
    ...wrapFunction(function* (): Generator<number> {
      yield 1;
      throw soldOut;
    }, slot)(),
  ],
  'with an async generator': async (slot) => {
    const orders = wrapFunction(async function* (): AsyncGenerator<number> {
      yield 1;
      throw soldOut;
    }, slot);
    for await (const _ of orders());
  },
};

const counts = ({ calls, failed, skipped }: CallCounts) => ({ calls, failed, skipped });

describe('wrapFunction: failed calls', () => {
  for (const [name, call] of Object.entries(failing)) {
    it(`${name} are counted once, as failed, and make no event`, async () => {
      const slot = recordingSlot();
      await assert.rejects(async () => call(slot), soldOut);
      assert.deepEqual(counts(slot), { calls: 1, failed: 1, skipped: 0 });
      assert.equal(slot.seen.length, 0);
    });

    it(`${name} are events in phase AFTER, not failures`, async () => {
      const slot = recordingSlot({ phase: 'AFTER' });
      await assert.rejects(async () => call(slot), soldOut);
      assert.deepEqual(counts(slot), { calls: 1, failed: 0, skipped: 0 });
      assert.equal(slot.seen[0]?.error, soldOut);
    });

    it(`${name} are not counted while capture is off`, async () => {
      const slot = recordingSlot();
      slot.onCall = null;
      await assert.rejects(async () => call(slot), soldOut);
      assert.deepEqual(counts(slot), { calls: 0, failed: 0, skipped: 0 });
    });
  }

  it('are events in phase BEFORE: the event was made before they failed', () => {
    const slot = recordingSlot({ phase: 'BEFORE' });
    assert.throws(() => failing['that throw']?.(slot), soldOut);
    assert.deepEqual(counts(slot), { calls: 1, failed: 0, skipped: 0 });
  });
});
