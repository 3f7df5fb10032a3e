import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import sinon from 'sinon';
import type { MetricSources } from '../../src/observe/metrics.ts';
import { renderMetrics } from '../../src/observe/prometheus.ts';
import {
  addCounts,
  listenToWorkers,
  readCounts,
  withCalls,
  withCounts,
} from '../../src/observe/thread-counts.ts';
import { useClock } from '../support/fake-time.ts';
import { filledSources, metricSources } from './metric-sources.ts';

const textOf = (sources: MetricSources) => renderMetrics(sources, { name: null, version: null });

/** The numbers of an exposition, by line. */
const numbers = (text: string): Map<string, number> =>
  new Map(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );

describe('counts of worker threads', () => {
  afterEach(() => sinon.restore());

  const state =
    /^svc_(build_info|circuit_state|worker_id|capture_targets|dlq_waiting|backup_usable|outbox_(pending|failed)|.*_oldest|.*_timestamp)/;

  it('change nothing where there are none', async () => {
    useClock({ now: () => 1_700_000_100_000 });
    const own = filledSources();
    assert.equal(await textOf(withCounts(own, () => undefined)), await textOf(own));
  });

  it('are added to every counter and to the buffer; circuit and targets stay those of the main thread', async () => {
    useClock({ now: () => 1_700_000_100_000 });
    const own = filledSources();
    const other = readCounts(7, own);
    const before = numbers(await textOf(own));
    const after = numbers(await textOf(withCounts(own, () => addCounts(other, other))));
    assert.ok(before.size > 30);
    for (const [line, number] of before) {
      assert.equal(after.get(line), state.test(line) ? number : 3 * number, line);
    }
  });

  it('bring event types that the main thread never saw', async () => {
    const other = readCounts(7, filledSources());
    const merged = numbers(await textOf(withCounts(metricSources(), () => other)));
    const alone = numbers(await textOf(filledSources()));
    for (const line of alone.keys()) {
      // Where the main thread has no outbox, no thread has.
      if (line.includes('eventType=') && !line.startsWith('svc_outbox'))
        assert.equal(merged.get(line), alone.get(line), line);
    }
  });

  it('bring their largest duration, their last publication and their dead letters', () => {
    const dead = (timestampMs: number) => ({ eventType: 'A', failureReason: 'why', timestampMs });
    const one = { ...metricSources(), lastPublishedMs: () => 5, recentDlqEvents: () => [dead(9), dead(3)] };
    const other = { ...metricSources(), lastPublishedMs: () => 7, recentDlqEvents: () => [dead(8)] };
    one.durations.record('A', 1);
    other.durations.record('A', 2);
    const sources = withCounts(one, () => readCounts(7, other));
    assert.equal([...sources.durations.rows()][0]?.histogram.max, 2);
    assert.equal(sources.lastPublishedMs(), 7);
    assert.deepEqual(sources.recentDlqEvents(), [dead(9), dead(8), dead(3)]);
    const quiet = withCounts(metricSources(), () => readCounts(7, other));
    assert.equal(quiet.lastPublishedMs(), 7);
    assert.equal(withCounts(other, () => readCounts(7, metricSources())).lastPublishedMs(), 7);
    assert.deepEqual(quiet.recentDlqEvents(), [dead(8)]);
  });

  it('say what a thread has patched, where this one has not loaded it or came too late', () => {
    const own = { state: 'pending' as const, calls: 0, failed: 0, skipped: 0 };
    const patched = { target: 'a', state: 'patched' as const, calls: 3, failed: 1, skipped: 1 };
    const there = readCounts(7, {
      ...metricSources(),
      captureTargets: () => [patched, { ...patched, target: 'b', state: 'pending' }],
    });
    const counted = { calls: 3, failed: 1, skipped: 1 };
    assert.deepEqual(withCalls(own, 'a', there), { ...counted, state: 'patched', reason: undefined });
    const unloaded = { ...own, state: 'unloaded' as const, reason: 'its file was not loaded within 30 s' };
    assert.deepEqual(withCalls(unloaded, 'a', there), { ...counted, state: 'patched', reason: undefined });
    assert.deepEqual(withCalls(own, 'b', there), own);
    assert.deepEqual(withCalls({ ...own, state: 'failed' }, 'a', there), { ...counted, state: 'failed' });
    assert.deepEqual(withCalls({ ...own, state: 'patched', calls: 2 }, 'a', there).calls, 5);
    assert.equal(withCalls(own, 'a', undefined), own);
  });

  it('survive the way between threads', () => {
    const counts = readCounts(7, filledSources());
    assert.deepEqual(structuredClone(counts), counts);
  });

  it('can be asked for when nobody listens any more', async () => {
    const workers = listenToWorkers();
    await once(new Worker('', { eval: true }), 'exit');
    workers.close();
    const own = { state: 'patched' as const, calls: 1, failed: 0, skipped: 0 };
    assert.equal(workers.withCalls([own], () => 'a')[0], own);
  });
});
