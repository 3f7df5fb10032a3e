import assert from 'node:assert/strict';
import type { ConsoleDocument } from '../../../src/manage/views.ts';
import { filledSources, metricSources } from '../../observe/metric-sources.ts';
import { clockOfEach, useClock } from '../../support/fake-time.ts';
import { viewsOf } from '../fake-views.ts';

describe('the last hour', () => {
  const time = clockOfEach({ now: 1_000_000 });

  /** A process whose counts and levels the test sets. */
  function pageOf() {
    const levels = { queued: 0, backup: 0, outbox: null as number | null, circuit: 0, lateMs: 0 };
    useClock({
      now: () => Date.now() + levels.lateMs,
      monotonic: () => performance.now() + levels.lateMs,
    });
    const empty = metricSources();
    const { outbox } = filledSources();
    const { console, close } = viewsOf({
      ...empty,
      circuit: () => levels.circuit,
      buffer: () => ({ ...empty.buffer(), events: levels.queued }),
      backup: () => ({ ...empty.backup(), events: levels.backup }),
      outbox: outbox && { ...outbox, pending: () => levels.outbox },
    });
    return {
      levels,
      publish(count: number, seconds: number): void {
        for (let event = 0; event < count; event++) {
          empty.ledger.open('A').close('published');
          empty.durations.record('A', seconds);
        }
      },
      fail: () => empty.ledger.open('A').close('lost'),
      record: (seconds: number) => empty.durations.record('B', seconds),
      historyAfter: async (afterMs: number) => ((await console(afterMs)) as ConsoleDocument).history,
      close,
    };
  }

  it('has what was counted between two looks, and levels as they were at the second', async () => {
    const { levels, publish, fail, record, historyAfter, close } = pageOf();
    publish(20, 0.0051);
    fail();
    record(0.108);
    Object.assign(levels, { queued: 3, backup: 7, outbox: 2, circuit: 1 });
    time.tick(10_000);
    Object.assign(levels, { queued: 0, backup: 0, outbox: null, circuit: 0, lateMs: 1_000 });
    time.tick(10_000);
    assert.deepEqual(await historyAfter(0), {
      ...{ atMs: [1_010_000, 1_021_000], seconds: [10, 11], published: [20, 0], failed: [1, 0] },
      // 19.95 of 21: within the 20 that took 5 to 10 ms.
      ...{ meanMs: [10, null], p95Ms: [10, null], queued: [3, 0], backup: [7, 0], outbox: [2, null] },
      circuit: [1, 0],
    });
    close();
  });

  it('leaves out what the page has', async () => {
    const { historyAfter, close } = pageOf();
    time.tick(20_000);
    assert.deepEqual((await historyAfter(1_010_000)).atMs, [1_020_000]);
    assert.deepEqual((await historyAfter(1_020_000)).atMs, []);
    close();
  });
});
