import assert from 'node:assert/strict';
import sinon from 'sinon';
import { answerMs, askMs, createReturnWatch } from '../../../../src/publish/main/watch/return-watch.ts';

describe('watch for the return of the cluster', () => {
  let timers: sinon.SinonFakeTimers;
  beforeEach(() => {
    timers = sinon.useFakeTimers();
  });
  afterEach(() => timers.restore());

  function setUp() {
    const state = { cluster: 'away' as 'away' | 'there' | 'hangs', asked: [] as number[], returns: 0 };
    const watch = createReturnWatch({
      clock: { now: Date.now, monotonic: Date.now },
      spread: (ms) => ms,
      ask: () => {
        state.asked.push(Date.now());
        if (state.cluster === 'hangs') return new Promise(() => {});
        return state.cluster === 'there' ? Promise.resolve() : Promise.reject(new Error('away'));
      },
      onReturn: () => state.returns++,
    });
    return { watch, state };
  }

  it('asks while a retry waits, and says when the cluster is back, once', async () => {
    const { watch, state } = setUp();
    watch.pausing(4_000);
    await timers.tickAsync(askMs * 2 + 1);
    assert.deepEqual([state.asked, state.returns], [[0, askMs, askMs * 2], 0]);
    state.cluster = 'there';
    await timers.tickAsync(askMs);
    assert.equal(state.returns, 1);
    await timers.tickAsync(10_000);
    assert.deepEqual([state.asked.length, state.returns, timers.countTimers()], [4, 1, 0]);
  });

  it('asks once about a cluster that is there: then it is one partition that is in trouble', async () => {
    const { watch, state } = setUp();
    state.cluster = 'there';
    watch.pausing(4_000);
    await timers.tickAsync(4_000);
    watch.stored();
    assert.deepEqual([state.asked.length, state.returns], [1, 0]);
    watch.pausing(4_000);
    assert.equal(state.asked.length, 2);
  });

  it('asks no more when no retry waits, and knows still that the cluster was away', async () => {
    const { watch, state } = setUp();
    watch.pausing(1_000);
    await timers.tickAsync(10_000);
    assert.equal(state.asked.length, 2);
    state.cluster = 'there';
    watch.pausing(1_000);
    await timers.tickAsync(1);
    assert.equal(state.returns, 1);
  });

  it('takes a batch that was stored for the return, and one that does not answer for away', async () => {
    const { watch, state } = setUp();
    state.cluster = 'hangs';
    watch.pausing(4_000);
    await timers.tickAsync(answerMs - 1);
    watch.stored();
    assert.equal(state.returns, 0, 'it is not known yet that it is away');
    await timers.tickAsync(1);
    watch.stored();
    assert.equal(state.returns, 1);
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
});
