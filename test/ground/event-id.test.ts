import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createSnowflake } from '../../src/envelope/ids.ts';
import { isEventId, orderOf, snowflakeEpochMs } from '../../src/ground/event-fields.ts';
import { eventIds } from '../support/event-ids.ts';
import { useClock } from '../support/fake-time.ts';

describe('an event id', () => {
  it('is a number of up to 19 digits or a UUID of version 7 in lower case', () => {
    for (const id of [
      '0',
      '9'.repeat(19),
      eventIds({ type: 'uuidv7' }).next(),
      '019c5e1f-3c80-7000-8000-000000000000',
    ]) {
      assert.equal(isEventId(id), true, id);
    }
    const others = [
      ...['', '9'.repeat(20), '-1', '1e3', 'order-7', '019c5e1f3c8070008000000000000000'],
      ...['019C5E1F-3c80-7000-8000-000000000000', '019c5e1f-3c80-4000-8000-000000000000'],
      ...['019c5e1f-3c80-7000-c000-000000000000', '019c5e1f-3c80-7000-8000-0000000000000'],
    ];
    for (const id of others) assert.equal(isEventId(id), false, id);
  });

  it('has a place in time among ids of both kinds', () => {
    const order = fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 3 }), fc.boolean())), (walk) => {
      const clock = useClock({ ms: snowflakeEpochMs + 8e10, now: (): number => clock.ms });
      const [numbers, uuids] = [createSnowflake({ workerId: 3 }), eventIds({ type: 'uuidv7' })];
      let last = { order: -1n, kind: false, ms: 0 };
      for (const [stepMs, kind] of walk) {
        clock.ms += stepMs;
        const next = { order: orderOf(kind ? numbers.next() : uuids.next()), kind, ms: clock.ms };
        // Within one millisecond the two kinds know nothing of each other, and numbers can be one ahead of the clock.
        if (next.kind === last.kind || next.ms > last.ms + 1) assert.ok(next.order > last.order);
        last = next;
      }
    });
    fc.assert(order, { numRuns: 200 });
  });

  it('tells the last id of a millisecond from the first of the next one', () => {
    const ids = [
      '019c5e1f-3c80-7000-8000-ffffffffffff',
      '019c5e1f-3c80-7000-8010-000000000000',
      '019c5e1f-3c80-7000-bff0-000000000000',
      '019c5e1f-3c80-7001-8000-000000000000',
      '019c5e1f-3c80-7fff-bff0-000000000000',
      '019c5e1f-3c81-7000-8000-000000000000',
    ];
    const orders = ids.map(orderOf);
    assert.equal(new Set(orders).size, ids.length);
    assert.deepEqual(
      [...orders].sort((a, b) => (a < b ? -1 : 1)),
      orders,
    );
    assert.equal(orders[5], BigInt(0x019c5e1f3c81 - snowflakeEpochMs) << 22n);
  });

  it('comes first where it is none, or a UUID of before 2024', () => {
    for (const id of ['order-7', '', '00000000-0001-7000-8000-000000000000'])
      assert.equal(orderOf(id), 0n, id);
  });
});
