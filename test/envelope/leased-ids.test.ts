import assert from 'node:assert/strict';
import type { WorkerIdGrant, WorkerIdLease } from '../../src/envelope/ids.ts';
import { eventIds } from '../support/event-ids.ts';
import { clockOfEach, useClock } from '../support/fake-time.ts';
import { temporaryFolder } from '../support/folders.ts';

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

describe('event ids with a leased worker id', () => {
  const timers = clockOfEach({ toFake: ['setTimeout', 'clearTimeout'] });
  const opened: ReturnType<typeof eventIds>[] = [];

  afterEach(async () => {
    for (const ids of opened.splice(0)) await ids.close(0);
  });

  function setUp() {
    const clock = useClock(clockAt(startMs));
    let tell: Parameters<WorkerIdLease['start']>[0] = () => {};
    const lease: WorkerIdLease = {
      start(onGrant) {
        tell = onGrant;
      },
      async close() {},
    };
    const ids = eventIds({ leasePath: temporaryFolder('leased-ids') }, lease);
    opened.push(ids);
    const own = ids.worker()?.workerId ?? assert.fail();
    ids.lease();
    timers.tick(1_000);
    const from = { wallMs: startMs + 5_000, monotonicMs: 5_000 };
    const until = { wallMs: startMs + 14_000, monotonicMs: 14_000 };
    const leased = (own + 1) % 1024;
    const granted: WorkerIdGrant = { workerId: leased, from, until };
    const grant = (given: WorkerIdGrant | undefined) => tell(given);
    return { clock, ids, own, leased, granted, grant };
  }

  it('uses its own worker id, then the leased one from the first to the last millisecond of the lease', () => {
    const { clock, ids, own, leased, granted, grant } = setUp();
    assert.deepEqual(ids.worker(), { workerId: own, source: 'host' });
    grant(granted);
    const made: string[] = [];
    for (const [passed, expected] of [
      [4_999, own],
      [1, leased],
      [8_999, leased],
      [1, own],
    ] as const) {
      clock.pass(passed);
      made.push(ids.next());
      assert.equal(workerOf(made.at(-1) ?? ''), expected);
    }
    assert.deepEqual(
      made,
      made.toSorted((a, b) => Number(BigInt(a) - BigInt(b))),
    );
    grant({ ...granted, until: { wallMs: startMs + 30_000, monotonicMs: 30_000 } });
    assert.deepEqual(ids.worker(), { workerId: leased, source: 'kafka' });
    grant(undefined);
    assert.equal(workerOf(ids.next()), own);
  });

  it('does not use it before both clocks have reached it', () => {
    for (const clockName of ['wallMs', 'monotonicMs'] as const) {
      const { clock, ids, own, leased, granted, grant } = setUp();
      grant(granted);
      clock.pass(4_998);
      clock[clockName] += 1_000;
      assert.equal(workerOf(ids.next()), own);
      clock.pass(2);
      assert.equal(workerOf(ids.next()), leased);
    }
  });

  it('lets go of it where only one of the clocks has gone on: the other stood still, or stepped', () => {
    for (const clockName of ['wallMs', 'monotonicMs'] as const) {
      const { clock, ids, own, leased, granted, grant } = setUp();
      grant(granted);
      clock.pass(6_000);
      assert.equal(workerOf(ids.next()), leased);
      clock[clockName] += 8_000;
      // The wall clock is what makes a new millisecond.
      if (clockName === 'monotonicMs') clock.wallMs += 1;
      assert.equal(workerOf(ids.next()), own);
    }
  });

  it('a process that goes on after a minute makes no id with it, though no timer has told it', () => {
    const { clock, ids, own, granted, grant } = setUp();
    grant(granted);
    clock.pass(6_000);
    ids.next();
    clock.pass(60_000);
    assert.equal(workerOf(ids.next()), own);
  });

  it('where the clock steps back before the lease, does not use it there; ids rise all the same', () => {
    const { clock, ids, own, leased, granted, grant } = setUp();
    grant(granted);
    clock.pass(5_500);
    const before = ids.next();
    clock.wallMs -= 2_000;
    const after = ids.next();
    assert.deepEqual([workerOf(before), workerOf(after)], [leased, own]);
    assert.ok(BigInt(after) > BigInt(before));
  });

  it('where the clock steps back into the lease from beyond it, does not use it for ids that count on', () => {
    const { clock, ids, own, granted, grant } = setUp();
    grant(granted);
    clock.pass(6_000);
    clock.wallMs += 8_000;
    const before = ids.next();
    clock.wallMs -= 7_000;
    const after = ids.next();
    assert.deepEqual([workerOf(before), workerOf(after)], [own, own]);
    assert.ok(BigInt(after) > BigInt(before));
  });

  it('where the clock steps back within the lease, the ids that count on end with it', () => {
    const { clock, ids, own, leased, granted, grant } = setUp();
    grant(granted);
    clock.pass(13_000);
    const before = ids.next();
    clock.wallMs -= 4_000;
    const after = ids.next();
    assert.equal(workerOf(after), leased);
    assert.ok(BigInt(after) > BigInt(before));
    clock.pass(1_000);
    assert.equal(workerOf(ids.next()), own);
  });
});
