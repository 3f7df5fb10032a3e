import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { createClusterState, defaultBreaker } from '../../../src/publish/main/cluster-state.ts';
import { createAdmission, QueuedEvent } from '../../../src/publish/main/queue.ts';
import { useClock } from '../../support/fake-time.ts';
import { away, failedEvent } from '../failed-event.ts';

describe('draft, while one event tests the cluster', () => {
  function setUp() {
    const time = { nowMs: 0, failedProbes: 0 };
    useClock({ monotonic: () => time.nowMs });
    const cluster = createClusterState({ ...defaultBreaker, ask: async () => {} });
    const draft = createAdmission({
      ...{ buffer: { maxEvents: 10, maxBytes: 10_000 }, deliveryTimeoutMs: 10_000, cluster },
      onProbeFailed: () => time.failedProbes++,
      onFirst() {},
    });
    cluster.silent('away', 0);
    time.nowMs = defaultBreaker.probeIntervalMs;
    const take = (key: string): QueuedEvent => {
      const taken = draft.admit({ ...failedEvent('1').event, key }, 'orders', false);
      assert.ok(taken instanceof QueuedEvent, `${key}: not taken`);
      return taken;
    };
    return { time, cluster, draft, take, probe: take('a') };
  }

  it('takes those of its key behind it, and no others', () => {
    const { draft, take } = setUp();
    take('a');
    assert.ok(
      !(draft.admit({ ...failedEvent('1').event, key: 'b' }, 'orders', false) instanceof QueuedEvent),
    );
    assert.ok(
      !(draft.admit({ ...failedEvent('1').event, key: 'a' }, 'others', false) instanceof QueuedEvent),
    );
  });

  it('says once that it has failed, when it has its end: nothing waits behind it any more', async () => {
    const { time, cluster, draft, take, probe } = setUp();
    const behind = take('a');
    cluster.failed(away, true);
    draft.release(probe);
    await setImmediate();
    assert.equal(time.failedProbes, 1);
    draft.release(behind);
    await setImmediate();
    assert.equal(time.failedProbes, 1);
    assert.ok(!(draft.admit(probe.event, 'orders', false) instanceof QueuedEvent));
  });

  it('says nothing where it got through', async () => {
    const { time, cluster, draft, probe } = setUp();
    cluster.answered();
    draft.release(probe);
    await setImmediate();
    assert.equal(time.failedProbes, 0);
  });
});
