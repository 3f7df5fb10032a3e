import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createSnowflake as create } from '../../src/envelope/ids.ts';
import { snowflakeEpochMs } from '../../src/ground/event-fields.ts';
import { useClock } from '../support/fake-time.ts';

const defaultMaxBackwardMs = 10_000;

const lastMs = snowflakeEpochMs + 2 ** 41 - 1;

function clockAt(startMs: number) {
  const clock = useClock({ ms: startMs, now: (): number => clock.ms });
  return clock;
}

/** Begins each millisecond at 0, unless told otherwise. */
function createSnowflake(options: Parameters<typeof create>[0]) {
  return create({ firstSequence: () => 0, ...options });
}

/** The definition, in the arithmetic that needs no care. */
function reference(atMs: number, workerId: number, sequence: number): string {
  return String((BigInt(atMs - snowflakeEpochMs) << 22n) | (BigInt(workerId) << 12n) | BigInt(sequence));
}

describe('createSnowflake', () => {
  it('writes 41 bits of milliseconds, 10 of worker and 12 of sequence in decimal', () => {
    const clock = clockAt(Date.UTC(2026, 2, 4, 10, 0, 0, 120));
    const ids = createSnowflake({ workerId: 613 });
    assert.equal(ids.next(), reference(clock.ms, 613, 0));
    assert.equal(ids.next(), reference(clock.ms, 613, 1));
  });

  it('equals the BigInt definition for any time, worker and count', () => {
    const times = fc.oneof(
      fc.integer({ min: snowflakeEpochMs, max: lastMs - 3 }),
      fc.integer({ min: 0, max: 3000 }).map((ms) => snowflakeEpochMs + ms),
    );
    const property = fc.property(
      times,
      fc.integer({ min: 0, max: 1023 }),
      fc.integer({ min: 1, max: 9000 }),
      check,
    );
    fc.assert(property, { numRuns: 150 });

    function check(startMs: number, workerId: number, count: number): void {
      const ids = createSnowflake({ workerId, now: () => startMs });
      for (let index = 0; index < count; index++) {
        const expected = reference(startMs + Math.floor(index / 4096), workerId, index % 4096);
        const id = ids.next();
        if (id !== expected) assert.equal(id, expected, `id ${index}`);
      }
    }
  });

  it('stays unique and rising under any walk of the clock that it accepts', () => {
    const steps = fc.array(fc.tuple(fc.integer({ min: -400, max: 400 }), fc.integer({ min: 1, max: 5000 })), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(steps, (walk) => {
        const clock = clockAt(snowflakeEpochMs + 1e11);
        const ids = create({ workerId: 7 });
        let last = 0n;
        for (const [stepMs, count] of walk) {
          clock.ms += stepMs;
          for (let index = 0; index < count; index++) {
            const id = BigInt(ids.next());
            if (id <= last) assert.fail(`${id} after ${last}`);
            last = id;
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  it('takes the 4,097th id of a millisecond from the next one, and comes back to the clock when it has caught up', () => {
    const clock = clockAt(snowflakeEpochMs + 5_000_000);
    const ids = createSnowflake({ workerId: 1 });
    let id = '';
    for (let index = 0; index < 4096; index++) id = ids.next();
    assert.equal(id, reference(clock.ms, 1, 4095));
    assert.equal(ids.next(), reference(clock.ms + 1, 1, 0));
    clock.ms += 1;
    assert.equal(ids.next(), reference(clock.ms, 1, 1));
    clock.ms += 1;
    assert.equal(ids.next(), reference(clock.ms, 1, 0));
  });

  it('does not take its own lead over the clock for a step of the clock', () => {
    const clock = clockAt(snowflakeEpochMs + 5_000_000);
    const ids = createSnowflake({ workerId: 1, maxBackwardMs: 2 });
    for (let index = 0; index < 4096 * 10; index++) ids.next();
    assert.equal(ids.next(), reference(clock.ms + 10, 1, 0));
  });

  it('rides out a clock that steps back 10 s, and throws at a millisecond more', () => {
    const startMs = snowflakeEpochMs + 1e11;
    const clock = clockAt(startMs);
    const ids = createSnowflake({ workerId: 1023 });
    assert.equal(ids.next(), reference(startMs, 1023, 0));
    clock.ms = startMs - defaultMaxBackwardMs;
    assert.equal(defaultMaxBackwardMs, 10_000);
    assert.equal(ids.next(), reference(startMs, 1023, 1));
    clock.ms -= 1;
    assert.throws(() => ids.next(), {
      name: 'ClockMovedBackwardsException',
      code: 'SVC_ENVELOPE_CLOCK_MOVED_BACKWARDS',
      message: 'the clock moved backwards by 10001 ms, more than the 10000 ms that event ids tolerate',
    });
    clock.ms += 1;
    assert.equal(ids.next(), reference(startMs, 1023, 2));
  });

  it('begins each millisecond of the clock at a place of its own, those ahead of it at 0', () => {
    const clock = clockAt(snowflakeEpochMs + 5_000_000);
    const places = [4095, 0, 17];
    const ids = createSnowflake({ workerId: 1, firstSequence: () => places.shift() as number });
    assert.equal(ids.next(), reference(clock.ms, 1, 4095));
    assert.equal(ids.next(), reference(clock.ms + 1, 1, 0));
    assert.equal(ids.next(), reference(clock.ms + 1, 1, 1));
    clock.ms += 1;
    assert.equal(ids.next(), reference(clock.ms, 1, 2));
    clock.ms += 1;
    assert.equal(ids.next(), reference(clock.ms, 1, 0));
    assert.equal(ids.next(), reference(clock.ms, 1, 1));
    clock.ms += 5;
    assert.equal(ids.next(), reference(clock.ms, 1, 17));
    assert.deepEqual(places, []);
  });

  it('makes 4,096 ids a millisecond for as long as they come, a millisecond ahead of the clock at most', () => {
    const clock = clockAt(snowflakeEpochMs + 1e11);
    const ids = create({ workerId: 7 });
    let last = 0n;
    for (let ms = 0; ms < 500; ms++, clock.ms++) {
      let id = last;
      for (let index = 0; index < 4096; index++) {
        id = BigInt(ids.next());
        if (id <= last) assert.fail(`${id} after ${last}`);
        last = id;
      }
      assert.ok(Number(id >> 22n) <= clock.ms + 1 - snowflakeEpochMs, `${ms} ms`);
    }
  });

  it('draws the place anew for each generator, over the whole millisecond', () => {
    const clock = clockAt(snowflakeEpochMs + 1e11);
    const drawn = (): number[] => {
      const ids = create({ workerId: 7 });
      return Array.from({ length: 10_000 }, () => {
        clock.ms++;
        return Number(BigInt(ids.next()) % 4096n);
      });
    };
    const [first, second] = [drawn(), drawn()];
    for (const places of [first, second]) {
      const quarters = [0, 0, 0, 0];
      for (const place of places) quarters[Math.floor(place / 1024)] = (quarters[place >> 10] as number) + 1;
      // 2,500 each; six standard deviations are 260.
      for (const count of quarters) assert.ok(Math.abs(count - 2500) < 260, quarters.join(', '));
    }
    const equal = first.filter((place, index) => place === second[index]).length;
    assert.ok(equal < 20, `${equal} equal, where 2 or 3 are to be expected`);
  });

  it('takes another worker id between two milliseconds, and goes on rising', () => {
    const clock = clockAt(snowflakeEpochMs + 5_000_000);
    const ids = createSnowflake({ workerId: 900 });
    assert.equal(ids.workerId, 900);
    assert.equal(ids.next(), reference(clock.ms, 900, 0));
    ids.useWorkerId(3);
    assert.equal(ids.workerId, 3);
    assert.equal(ids.next(), reference(clock.ms + 1, 3, 0));
    assert.equal(ids.next(), reference(clock.ms + 1, 3, 1));
    ids.useWorkerId(3);
    assert.equal(ids.next(), reference(clock.ms + 1, 3, 2));
    clock.ms += 7;
    ids.useWorkerId(900);
    assert.equal(ids.next(), reference(clock.ms, 900, 0));
  });

  it('takes another worker id before the first id, in a full millisecond, and while the clock is behind', () => {
    const clock = clockAt(snowflakeEpochMs + 5_000_000);
    const ids = createSnowflake({ workerId: 1 });
    ids.useWorkerId(2);
    for (let index = 0; index < 4096; index++) ids.next();
    ids.useWorkerId(3);
    assert.equal(ids.next(), reference(clock.ms + 1, 3, 0));
    clock.ms -= 9000;
    ids.useWorkerId(4);
    assert.equal(ids.next(), reference(clock.ms + 9002, 4, 0));
    clock.ms -= 9000;
    ids.useWorkerId(5);
    assert.throws(() => ids.next(), { code: 'SVC_ENVELOPE_CLOCK_MOVED_BACKWARDS' });
    clock.ms += 18_000;
    assert.equal(ids.next(), reference(clock.ms + 3, 5, 0));
  });

  it('keeps its worker id when the new one is out of range', () => {
    const clock = clockAt(snowflakeEpochMs + 5_000_000);
    const ids = createSnowflake({ workerId: 1 });
    ids.next();
    for (const workerId of [-1, 1024, 0.5]) {
      assert.throws(() => ids.useWorkerId(workerId), { code: 'SVC_ENVELOPE_WORKER_ID' });
    }
    assert.equal(ids.next(), reference(clock.ms, 1, 1));
    ids.useWorkerId(1023);
    assert.equal(ids.workerId, 1023);
  });

  it('rises, and changes worker ids between milliseconds only, under any walk of the clock and any changes', () => {
    const steps = fc.array(
      fc.tuple(
        fc.integer({ min: -300, max: 300 }),
        fc.integer({ min: 1, max: 5000 }),
        fc.integer({ min: 0, max: 5 }),
      ),
      { maxLength: 12 },
    );
    const property = fc.property(steps, (walk) => {
      const clock = clockAt(snowflakeEpochMs + 1e11);
      const ids = create({ workerId: 7 });
      let [last, lastWorker] = [0n, 7n];
      for (const [stepMs, count, workerId] of walk) {
        clock.ms += stepMs;
        ids.useWorkerId(workerId);
        for (let index = 0; index < count; index++) {
          const id = BigInt(ids.next());
          if (id <= last) assert.fail(`${id} after ${last}`);
          const worker = (id >> 12n) % 1024n;
          assert.equal(worker, BigInt(workerId));
          if (worker !== lastWorker && last !== 0n) assert.ok(id >> 22n > last >> 22n, `${id} after ${last}`);
          [last, lastWorker] = [id, worker];
        }
      }
    });
    fc.assert(property, { numRuns: 40 });
  });

  it('takes worker ids 0 to 1023', () => {
    for (const workerId of [0, 1023]) assert.doesNotThrow(() => createSnowflake({ workerId }));
    for (const workerId of [-1, 1024, 1.5, Number.NaN]) {
      assert.throws(() => createSnowflake({ workerId }), {
        code: 'SVC_ENVELOPE_WORKER_ID',
        message: 'workerId must be between 0 and 1023',
      });
    }
  });

  it('takes clocks from the first to the last millisecond that 41 bits hold', () => {
    const idAt = (ms: number) => createSnowflake({ workerId: 0, now: () => ms }).next();
    assert.equal(idAt(snowflakeEpochMs), '0');
    assert.equal(idAt(snowflakeEpochMs + 0.9), '0');
    assert.equal(idAt(lastMs), reference(lastMs, 0, 0));
    for (const ms of [snowflakeEpochMs - 1, lastMs + 1, Number.NaN]) {
      assert.throws(() => idAt(ms), { code: 'SVC_ENVELOPE_CLOCK_OUT_OF_RANGE' });
    }
    assert.equal(new Date(lastMs).toISOString(), '2093-09-06T15:47:35.551Z');
  });

  it('writes the largest id', () => {
    const ids = createSnowflake({ workerId: 1023, now: () => lastMs });
    let id = '';
    for (let index = 0; index < 4096; index++) id = ids.next();
    assert.equal(id, String(2n ** 63n - 1n));
    assert.throws(() => ids.next(), { code: 'SVC_ENVELOPE_CLOCK_OUT_OF_RANGE' });
  });
});
