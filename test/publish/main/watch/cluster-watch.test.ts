import assert from 'node:assert/strict';
import sinon from 'sinon';
import { clusterPollMs } from '../../../../src/publish/broker.ts';
import { createClusterState, defaultBreaker } from '../../../../src/publish/main/cluster-state.ts';
import { clockOfEach } from '../../../support/fake-time.ts';
import { away } from '../../fake-cluster.ts';

const answerMs = 1_000;
const silentMs = 2_000;
const stallAfterMs = 2_500;

describe('watch over the cluster', () => {
  const timers = clockOfEach();

  function setUp() {
    const state = { cluster: 'away' as 'away' | 'there' | 'hangs', asked: [] as number[] };
    const seen = { returns: 0, silences: 0, waiting: 0 };
    const watch = createClusterState({
      ...defaultBreaker,
      ask: () => {
        state.asked.push(Date.now());
        if (state.cluster === 'hangs') return new Promise(() => {});
        return state.cluster === 'there' ? Promise.resolve() : Promise.reject(new Error('away'));
      },
    });
    watch.attach({
      isWaiting: () => seen.waiting > 0,
      onAway: () => seen.silences++,
      onBack: () => seen.returns++,
    });
    return { watch, state, seen };
  }

  it('asks while a retry waits, and says when the cluster is back, once', async () => {
    const { watch, state, seen } = setUp();
    watch.pausing(4_000);
    await timers.tickAsync(clusterPollMs * 2 + 1);
    assert.deepEqual([state.asked, seen.returns], [[0, clusterPollMs, clusterPollMs * 2], 0]);
    state.cluster = 'there';
    await timers.tickAsync(clusterPollMs);
    assert.equal(seen.returns, 1);
    await timers.tickAsync(10_000);
    assert.deepEqual([state.asked.length, seen.returns, timers.countTimers()], [4, 1, 0]);
  });

  it('asks once about a cluster that is there: then it is one partition that is in trouble', async () => {
    const { watch, state, seen } = setUp();
    state.cluster = 'there';
    watch.pausing(4_000);
    await timers.tickAsync(4_000);
    watch.ended({ ok: true });
    assert.deepEqual([state.asked.length, seen.returns], [1, 0]);
    watch.pausing(4_000);
    assert.equal(state.asked.length, 2);
  });

  it('asks no more when no retry waits, and knows still that the cluster was away', async () => {
    const { watch, state, seen } = setUp();
    watch.pausing(1_000);
    await timers.tickAsync(10_000);
    assert.equal(state.asked.length, 2);
    state.cluster = 'there';
    watch.pausing(1_000);
    await timers.tickAsync(1);
    assert.equal(seen.returns, 1);
  });

  it('takes a batch that was stored for the return, and one that does not answer for away', async () => {
    const { watch, state, seen } = setUp();
    state.cluster = 'hangs';
    watch.pausing(4_000);
    await timers.tickAsync(answerMs - 1);
    watch.ended({ ok: true });
    assert.equal(seen.returns, 0, 'it is not known yet that it is away');
    await timers.tickAsync(1);
    watch.ended({ ok: true });
    assert.equal(seen.returns, 1);
  });

  it('asks one question at a time, however many batches wait, and none when it is closed', async () => {
    const { watch, state } = setUp();
    state.cluster = 'hangs';
    for (let batch = 0; batch < 10; batch++) watch.pausing(4_000);
    assert.equal(state.asked.length, 1);
    watch.close();
    await timers.tickAsync(10_000);
    assert.deepEqual([state.asked.length, timers.countTimers()], [1, 0]);
  });

  it('asks a cluster that failed a send and then hangs with one question at a time, and says once that it is silent', async () => {
    const { watch, state, seen } = setUp();
    state.cluster = 'hangs';
    seen.waiting = 1;
    watch.waiting();
    watch.ended({ ok: false, failure: away });
    watch.pausing(1_000);
    await timers.tickAsync(answerMs + clusterPollMs);
    assert.deepEqual([state.asked, seen.silences], [[0], 0]);
    await timers.tickAsync(stallAfterMs - answerMs - clusterPollMs + silentMs - 1);
    assert.deepEqual([state.asked, seen.silences], [[0, stallAfterMs], 0]);
    await timers.tickAsync(1);
    assert.equal(seen.silences, 1);
    state.cluster = 'there';
    await timers.tickAsync(stallAfterMs);
    assert.deepEqual([state.asked.length, seen.silences, seen.returns], [3, 1, 1]);
  });

  it('sets no timer for what does not wait any more: of one without end, Node warns the application', async () => {
    const { watch, state, seen } = setUp();
    const sandbox = sinon.createSandbox();
    const set = sandbox.spy(globalThis, 'setTimeout');
    state.cluster = 'there';
    seen.waiting = 1;
    watch.waiting();
    await timers.tickAsync(stallAfterMs - 1);
    seen.waiting = 0;
    watch.pausing(0);
    await timers.tickAsync(10_000);
    const delays = set.args.map(([, delayMs]) => delayMs);
    sandbox.restore();
    assert.equal(state.asked.length, 1);
    // The answer comes within the first half of its time (`inTime`).
    assert.deepEqual(delays, [stallAfterMs, answerMs / 2]);
  });
});
