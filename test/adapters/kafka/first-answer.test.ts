import assert from 'node:assert/strict';
import { firstAnswer } from '../../../src/adapters/kafka/transport.ts';
import { clusterPollMs } from '../../../src/publish/broker.ts';
import { clockOfEach } from '../../support/fake-time.ts';

describe('first answer', () => {
  const clock = clockOfEach();

  const isAnswer = (error: unknown) => (error as Error).message === 'no such topic';

  /** What each try comes to, by hand. */
  function setUp() {
    const tries: (PromiseWithResolvers<string> & { signal: AbortSignal; isAgain: boolean; atMs: number })[] =
      [];
    let end = '';
    firstAnswer((signal, isAgain) => {
      const one = { ...Promise.withResolvers<string>(), signal, isAgain, atMs: Date.now() };
      tries.push(one);
      return one.promise;
    }, isAnswer).then(
      (answer) => {
        end = answer;
      },
      (error: Error) => {
        end = error.message;
      },
    );
    return { tries, end: () => end };
  }

  it('is that of the first try, where it comes soon: nothing is asked again', async () => {
    const { tries, end } = setUp();
    await clock.tickAsync(clusterPollMs - 1);
    tries[0]?.resolve('one');
    await clock.tickAsync(10_000);
    assert.deepEqual([end(), tries.length, clock.countTimers()], ['one', 1, 0]);
  });

  it('is asked for again every 750 ms, and the others are let go of as one answers', async () => {
    const { tries, end } = setUp();
    await clock.tickAsync(clusterPollMs * 2);
    assert.deepEqual(
      tries.map(({ atMs, isAgain, signal }) => [atMs, isAgain, signal.aborted]),
      [
        [0, false, false],
        [750, true, false],
        [1_500, true, false],
      ],
    );
    tries[2]?.resolve('three');
    await clock.tickAsync(10_000);
    assert.equal(end(), 'three');
    assert.deepEqual([tries.length, tries.every(({ signal }) => signal.aborted)], [3, true]);
  });

  it('gives a further try 1.5 s, and the first one as long as it likes', async () => {
    const { tries, end } = setUp();
    await clock.tickAsync(clusterPollMs + 1_499);
    assert.deepEqual(
      tries.map(({ signal }) => signal.aborted),
      [false, false, false],
    );
    await clock.tickAsync(1);
    assert.deepEqual(
      tries.map(({ signal }) => signal.aborted),
      [false, true, false, false],
    );
    await clock.tickAsync(60_000);
    assert.equal(tries.filter(({ signal }) => !signal.aborted).length, 3);
    tries[0]?.resolve('late');
    await clock.tickAsync(0);
    assert.equal(end(), 'late');
  });

  it('fails at once as the first try does, and is not asked for again', async () => {
    const { tries, end } = setUp();
    tries[0]?.reject(new Error('refused'));
    await clock.tickAsync(10_000);
    assert.deepEqual([end(), tries.length, clock.countTimers()], ['refused', 1, 0]);
  });

  it('fails as the first try does, 750 ms later at most where others are under way', async () => {
    const { tries, end } = setUp();
    await clock.tickAsync(clusterPollMs);
    tries[0]?.reject(new Error('closed'));
    await clock.tickAsync(clusterPollMs - 1);
    assert.equal(end(), '');
    await clock.tickAsync(1);
    assert.deepEqual([end(), tries.length, clock.countTimers()], ['closed', 2, 0]);
    assert.equal(tries[1]?.signal.aborted, true);
  });

  it('fails as the first try does, sooner where the others fail, too', async () => {
    const { tries, end } = setUp();
    await clock.tickAsync(clusterPollMs);
    tries[0]?.reject(new Error('closed'));
    tries[1]?.reject(new Error('refused'));
    await clock.tickAsync(0);
    assert.deepEqual([end(), clock.countTimers()], ['closed', 0]);
  });

  it('is that of a further try, too, where the first one has failed meanwhile', async () => {
    const { tries, end } = setUp();
    await clock.tickAsync(clusterPollMs);
    tries[0]?.reject(new Error('closed'));
    await clock.tickAsync(100);
    tries[1]?.resolve('two');
    await clock.tickAsync(0);
    assert.equal(end(), 'two');
  });

  it('may be a refusal by the cluster', async () => {
    const { tries, end } = setUp();
    await clock.tickAsync(clusterPollMs);
    tries[1]?.reject(new Error('no such topic'));
    await clock.tickAsync(0);
    assert.deepEqual([end(), clock.countTimers(), tries[0]?.signal.aborted], ['no such topic', 0, true]);
  });

  it('does not end with a further try that fails while the first one may be answered', async () => {
    const { tries, end } = setUp();
    await clock.tickAsync(clusterPollMs);
    tries[1]?.reject(new Error('refused'));
    await clock.tickAsync(100);
    assert.equal(end(), '');
    tries[0]?.resolve('one');
    await clock.tickAsync(0);
    assert.equal(end(), 'one');
  });
});
