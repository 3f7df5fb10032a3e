import assert from 'node:assert/strict';
import { createSilence } from '../../../src/adapters/kafka/session.ts';
import { clockOfEach } from '../../support/fake-time.ts';

describe('silence of the cluster', () => {
  const clock = clockOfEach();

  const setUp = () => {
    const heard: number[] = [];
    let answer: { atMs: number; tookMs: number } | undefined;
    const silence = createSilence(
      () => heard.push(Date.now()),
      () => answer,
    );
    const sendIsAnswered = (tookMs: number): void => {
      answer = { atMs: Date.now(), tookMs };
    };
    return { silence, heard, sendIsAnswered };
  };

  it('is a question without an answer for 2 s, and is told of every 2 s', async () => {
    const { silence, heard } = setUp();
    const { promise, resolve } = Promise.withResolvers<string>();
    const asked = silence.notice(promise);
    await clock.tickAsync(1_999);
    assert.deepEqual([heard, silence.lastAtMs()], [[], Number.NEGATIVE_INFINITY]);
    await clock.tickAsync(1);
    assert.deepEqual([heard, silence.lastAtMs()], [[2_000], 2_000]);
    await clock.tickAsync(3_000);
    resolve('late');
    assert.equal(await asked, 'late');
    assert.deepEqual([heard, silence.lastAtMs(), clock.countTimers()], [[2_000, 4_000], 4_000, 0]);
  });

  it('is one, too, where the answer comes over another connection, but it is over then', async () => {
    for (const [answeredAtMs, told] of [
      [1_000, [2_000]],
      [3_000, [2_000]],
      [5_000, [2_000, 4_000]],
    ] as const) {
      clock.reset();
      const { silence, heard } = setUp();
      const over = new AbortController();
      void silence.notice(new Promise(() => {}), over.signal);
      await clock.tickAsync(answeredAtMs);
      over.abort();
      await clock.tickAsync(10_000);
      assert.deepEqual([heard, clock.countTimers()], [told, 0]);
    }
  });

  it('is none as long as sends are answered: the network is slow', async () => {
    for (const [tookMs, silentFor] of [
      [5, 2_000],
      [1_000, 2_000],
      [1_001, 2_002],
      [3_600, 7_200],
      [5_000, 10_000],
      [5_001, 10_000],
    ] as const) {
      const { silence, heard, sendIsAnswered } = setUp();
      const { promise, resolve } = Promise.withResolvers<void>();
      void silence.notice(promise);
      await clock.tickAsync(1_500);
      sendIsAnswered(tookMs);
      await clock.tickAsync(silentFor - 1);
      assert.deepEqual(heard, []);
      await clock.tickAsync(1);
      assert.equal(heard.length, 1);
      resolve();
    }
  });

  it('is none where the cluster answers, or says no at once', async () => {
    const { silence, heard } = setUp();
    assert.equal(await silence.notice(Promise.resolve('here')), 'here');
    await assert.rejects(silence.notice(Promise.reject(new Error('refused'))), /refused/);
    await clock.tickAsync(10_000);
    assert.deepEqual([heard, clock.countTimers()], [[], 0]);
  });
});
