import assert from 'node:assert/strict';
import { createLeasedIds, type WorkerIdGrant } from '../../src/envelope/ids.ts';
import { useClock } from '../support/fake-time.ts';

const startMs = Date.UTC(2026, 10, 22);

function clockAt(wallMs: number, monotonicMs = 0) {
  return {
    wallMs,
    monotonicMs,
    now() {
      return this.wallMs;
    },
    monotonic() {
      return this.monotonicMs;
    },
    pass(ms: number) {
      this.wallMs += ms;
      this.monotonicMs += ms;
    },
  };
}

const workerOf = (id: string): number => Number((BigInt(id) >> 12n) & 1023n);

describe('createLeasedIds', () => {
  function setUp() {
    const clock = useClock(clockAt(startMs));
    const ids = createLeasedIds({
      own: { workerId: 900, source: 'host' },
      source: 'kafka',
    });
    const from = { wallMs: startMs + 5_000, monotonicMs: 5_000 };
    const until = { wallMs: startMs + 14_000, monotonicMs: 14_000 };
    const grant: WorkerIdGrant = { workerId: 7, from, until };
    return { clock, ids, grant };
  }

  it('uses its own worker id, then the leased one from the first to the last millisecond of the lease', () => {
    const { clock, ids, grant } = setUp();
    assert.deepEqual(ids.worker(), { workerId: 900, source: 'host' });
    ids.grant(grant);
    const made: string[] = [];
    for (const [passed, expected] of [
      [4_999, 900],
      [1, 7],
      [8_999, 7],
      [1, 900],
    ] as const) {
      clock.pass(passed);
      made.push(ids.next());
      assert.equal(workerOf(made.at(-1) ?? ''), expected);
    }
    assert.deepEqual(
      made,
      made.toSorted((a, b) => Number(BigInt(a) - BigInt(b))),
    );
    ids.grant({ ...grant, until: { wallMs: startMs + 30_000, monotonicMs: 30_000 } });
    assert.deepEqual(ids.worker(), { workerId: 7, source: 'kafka' });
    ids.grant(undefined);
    assert.equal(workerOf(ids.next()), 900);
  });

  it('lets go of it where only one of the clocks has gone on: the other stood still, or stepped', () => {
    for (const clockName of ['wallMs', 'monotonicMs'] as const) {
      const { clock, ids, grant } = setUp();
      ids.grant(grant);
      clock.pass(6_000);
      assert.equal(workerOf(ids.next()), 7);
      clock[clockName] += 8_000;
      // The wall clock is what makes a new millisecond.
      if (clockName === 'monotonicMs') clock.wallMs += 1;
      assert.equal(workerOf(ids.next()), 900);
    }
  });

  it('a process that goes on after a minute makes no id with it, though no timer has told it', () => {
    const { clock, ids, grant } = setUp();
    ids.grant(grant);
    clock.pass(6_000);
    ids.next();
    clock.pass(60_000);
    assert.equal(workerOf(ids.next()), 900);
  });

  it('where the clock steps back before the lease, does not use it there; ids rise all the same', () => {
    const { clock, ids, grant } = setUp();
    ids.grant(grant);
    clock.pass(5_500);
    const before = ids.next();
    clock.wallMs -= 2_000;
    const after = ids.next();
    assert.deepEqual([workerOf(before), workerOf(after)], [7, 900]);
    assert.ok(BigInt(after) > BigInt(before));
  });

  it('where the clock steps back within the lease, the ids that count on end with it', () => {
    const { clock, ids, grant } = setUp();
    ids.grant(grant);
    clock.pass(13_000);
    const before = ids.next();
    clock.wallMs -= 4_000;
    const after = ids.next();
    assert.equal(workerOf(after), 7);
    assert.ok(BigInt(after) > BigInt(before));
    clock.pass(1_000);
    assert.equal(workerOf(ids.next()), 900);
  });
});
