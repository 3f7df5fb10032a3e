import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import sinon from 'sinon';
import type { CaptureTarget, MetricSources } from '../../src/observe/metrics.ts';
import { createLedger, type Ledger } from '../../src/observe/outcomes.ts';
import { renderMetrics } from '../../src/observe/prometheus.ts';
import { joinMainThread, listenToWorkers, openChannel, shareRow } from '../../src/observe/thread-counts.ts';
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

/** What a worker thread with these sources tells the main thread. */
function toldBy(sourcesOf: (ledger: Ledger) => MetricSources): object[] {
  const channel = openChannel('svc.counts');
  const stop = joinMainThread(sourcesOf(createLedger(shareRow)), {
    resetBreakers() {},
    invalidateKeys() {},
  });
  stop();
  const told: object[] = [];
  const next = () => receiveMessageOnPort(channel as unknown as MessagePort);
  for (let said = next(); said !== undefined; said = next()) told.push(said.message);
  channel.close();
  return told;
}

describe('counts of worker threads', () => {
  let workers: ReturnType<typeof listenToWorkers> | undefined;
  afterEach(() => {
    workers?.close();
    sinon.restore();
  });

  /** The main thread beside worker threads with these sources. */
  function besides(...threads: readonly Parameters<typeof toldBy>[0][]) {
    const told = threads.map(toldBy);
    workers?.close();
    workers = listenToWorkers();
    const channel = openChannel('svc.counts');
    for (const [index, messages] of told.entries()) {
      const thread = 7 + index;
      const worker = Object.assign(new EventEmitter(), { threadId: thread });
      // The types of Node want a listener here.
      (process as EventEmitter).emit('worker', worker);
      for (const message of messages) channel.postMessage({ ...message, thread });
    }
    channel.close();
    return workers;
  }

  const state =
    /^svc_(build_info|circuit_state|worker_id|capture_targets|dlq_waiting|backup_usable|outbox_(pending|failed)|.*_oldest|.*_timestamp)/;

  it('change nothing where there are none', async () => {
    useClock({ now: () => 1_700_000_100_000 });
    const own = filledSources();
    assert.equal(await textOf(besides().withCounts(own)), await textOf(own));
  });

  it('are added to every counter and to the buffer; circuit and targets stay those of the main thread', async () => {
    useClock({ now: () => 1_700_000_100_000 });
    const own = filledSources();
    const before = numbers(await textOf(own));
    const after = numbers(await textOf(besides(filledSources, filledSources).withCounts(own)));
    assert.ok(before.size > 30);
    for (const [line, number] of before) {
      assert.equal(after.get(line), state.test(line) ? number : 3 * number, line);
    }
  });

  it('bring event types that the main thread never saw', async () => {
    const merged = numbers(await textOf(besides(filledSources).withCounts(metricSources())));
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
    const sources = besides(() => other).withCounts(one);
    assert.equal([...sources.durations.rows()][0]?.histogram.max, 2);
    assert.equal(sources.lastPublishedMs(), 7);
    assert.deepEqual(sources.recentDlqEvents(), [dead(9), dead(8), dead(3)]);
    const quiet = besides(() => other).withCounts(metricSources());
    assert.equal(quiet.lastPublishedMs(), 7);
    assert.deepEqual(quiet.recentDlqEvents(), [dead(8)]);
    const silent = besides(() => metricSources());
    assert.equal(silent.withCounts(other).lastPublishedMs(), 7);
  });

  it('say what a thread has patched, where this one has not loaded it or came too late', () => {
    const own = { state: 'pending' as const, calls: 0, failed: 0, skipped: 0 };
    const patched = { target: 'a', state: 'patched' as const, calls: 3, failed: 1, skipped: 1 };
    const there = besides(() => ({
      ...metricSources(),
      captureTargets: () => [patched, { ...patched, target: 'b', state: 'pending' }],
    }));
    const shown = (each: Omit<CaptureTarget, 'target'>, target: string) =>
      there.withCalls([each], () => target)[0];
    const counted = { calls: 3, failed: 1, skipped: 1 };
    assert.deepEqual(shown(own, 'a'), { ...counted, state: 'patched', reason: undefined });
    const unloaded = { ...own, state: 'unloaded' as const, reason: 'its file was not loaded within 30 s' };
    assert.deepEqual(shown(unloaded, 'a'), { ...counted, state: 'patched', reason: undefined });
    assert.deepEqual(shown(own, 'b'), own);
    assert.deepEqual(shown({ ...own, state: 'failed' }, 'a'), { ...counted, state: 'failed' });
    assert.deepEqual(shown({ ...own, state: 'patched', calls: 2 }, 'a')?.calls, 5);
    assert.equal(besides().withCalls([own], () => 'a')[0], own);
  });

  it('can be asked for when nobody listens any more', async () => {
    const workers = listenToWorkers();
    await once(new Worker('', { eval: true }), 'exit');
    workers.close();
    const own = { state: 'patched' as const, calls: 1, failed: 0, skipped: 0 };
    assert.equal(workers.withCalls([own], () => 'a')[0], own);
  });
});
