import assert from 'node:assert/strict';
import { createStatistics } from '../../src/outbox/statistics.ts';
import { onFakeTime } from './relay/fake-time.ts';
import { rowOf } from './relay/relay-under-test.ts';

const countMaxAgeMs = 5_000;

describe('outbox statistics', () => {
  let its: ReturnType<typeof onFakeTime>;
  beforeEach(() => {
    its = onFakeTime();
  });
  afterEach(() => its.time.restore());

  const statistics = () => createStatistics(its.store);

  it('has the fields of the specification, all of them numbers', async () => {
    const made = statistics();
    assert.deepEqual(await made.report(), {
      ...{ total: 0, pending: 0, published: 0, failed: 0, avgProcessingTimeMs: 0 },
    });
    assert.equal(await made.oldestPendingMs(), null);
    await its.insert(rowOf('a', 1), rowOf('b', 1), rowOf('c', 1), rowOf('d', 1));
    const [first, second, third] = [...its.store.table.rows.values()];
    Object.assign(first ?? {}, { status: 'PUBLISHED', endedAtMs: 10 });
    Object.assign(second ?? {}, { status: 'PUBLISHED', endedAtMs: 30 });
    Object.assign(third ?? {}, { status: 'FAILED' });
    await its.time.tickAsync(countMaxAgeMs);
    assert.deepEqual(await made.report(), {
      ...{ total: 4, pending: 1, published: 2, failed: 1, avgProcessingTimeMs: 20 },
    });
    assert.equal(await made.oldestPendingMs(), countMaxAgeMs);
  });

  it('counts once in 5 seconds, however many ask at once', async () => {
    const made = statistics();
    await Promise.all([made.report(), made.report(), made.oldestPendingMs()]);
    await its.time.tickAsync(countMaxAgeMs - 1);
    await made.report();
    assert.equal(its.store.calls.get('statistics'), 1);
    await its.time.tickAsync(1);
    await made.report();
    assert.equal(its.store.calls.get('statistics'), 2);
  });

  it('gives the number of waiting rows at once, and asks behind its back', async () => {
    const made = statistics();
    await its.insert(rowOf('a', 1));
    assert.equal(made.pending(), undefined);
    await its.time.tickAsync(0);
    assert.equal(made.pending(), 1);
    await its.insert(rowOf('a', 2));
    await its.time.tickAsync(countMaxAgeMs - 1);
    assert.equal(made.pending(), 1);
    await its.time.tickAsync(1);
    made.pending();
    await its.time.tickAsync(0);
    assert.equal(made.pending(), 2);
    assert.equal(its.store.calls.get('countPending'), 2);
  });

  it('asks again after a failure, and keeps what it last knew', async () => {
    const made = statistics();
    await its.insert(rowOf('a', 1));
    made.pending();
    await its.time.tickAsync(countMaxAgeMs);
    its.store.failing = 'away';
    await assert.rejects(made.report(), { message: 'away' });
    assert.equal(made.pending(), 1);
    await its.time.tickAsync(0);
    its.store.failing = undefined;
    assert.equal((await made.report()).total, 1);
  });
});
