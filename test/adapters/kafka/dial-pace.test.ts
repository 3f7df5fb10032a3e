import assert from 'node:assert/strict';
import { createDialPace } from '../../../src/adapters/kafka/transport.ts';
import { useClock } from '../../support/fake-time.ts';

describe('dial pace', () => {
  let nowMs = 0;
  const setUp = () => {
    nowMs = 0;
    useClock({ monotonic: () => nowMs });
    const pace = createDialPace<string>();
    /** Tries each that has its turn; all of them refuse. */
    const tryAll = (...addresses: string[]): string[] =>
      addresses.filter((address) => {
        if (pace.refusal(address) !== undefined) return false;
        pace.failed(address, 'ECONNREFUSED', `${address} refused at ${nowMs}`);
        return true;
      });
    return { pace, tryAll };
  };

  it('lets each broker be tried that has not refused, however many', () => {
    const { tryAll } = setUp();
    assert.deepEqual(tryAll('a', 'b', 'c', 'd'), ['a', 'b', 'c', 'd']);
  });

  it('repeats a refusal within 750 ms, and tries again then', () => {
    const { pace, tryAll } = setUp();
    tryAll('a', 'b');
    nowMs = 749;
    assert.equal(pace.refusal('a'), 'a refused at 0');
    nowMs = 750;
    assert.equal(pace.refusal('a'), undefined);
  });

  it('gives the two that were tried longest ago their turn, in whatever order they are asked for', () => {
    const { tryAll } = setUp();
    tryAll('a', 'b', 'c');
    nowMs = 1_000;
    assert.deepEqual(tryAll('a', 'b', 'c', 'a', 'b', 'c'), ['a', 'b']);
    nowMs = 2_000;
    assert.deepEqual(tryAll('b', 'a', 'c', 'a'), ['a', 'c']);
    nowMs = 3_000;
    assert.deepEqual(tryAll('c', 'b', 'a'), ['b', 'a']);
    assert.deepEqual(tryAll('c'), []);
  });

  it('never tries more than two in 750 ms where all are away, and each of them again and again', () => {
    const { tryAll } = setUp();
    const brokers = Array.from({ length: 30 }, (_, at) => `b${at}`);
    tryAll(...brokers);
    const tried = new Map<string, number>();
    for (nowMs = 10; nowMs < 60_000; nowMs += 10)
      for (const address of tryAll(...brokers)) tried.set(address, (tried.get(address) ?? 0) + 1);
    const counts = brokers.map((address) => tried.get(address) ?? 0);
    const sum = counts.reduce((a, b) => a + b);
    assert.ok(sum <= 160 && sum >= 150, String(sum));
    assert.ok(Math.min(...counts) >= 5, String(counts));
  });

  it('lets all be tried at once when one is there', () => {
    const { pace, tryAll } = setUp();
    tryAll('a', 'b', 'c');
    pace.connected();
    assert.deepEqual(tryAll('a', 'b', 'c'), ['a', 'b', 'c']);
  });

  it('keeps only what says that nobody is there', () => {
    const { pace } = setUp();
    for (const code of [undefined, 'ECONNRESET', 'DEPTH_ZERO_SELF_SIGNED_CERT']) {
      pace.failed('a', code, 'told');
      assert.equal(pace.refusal('a'), undefined, code);
    }
  });
});
