import assert from 'node:assert/strict';
import { afterRetries, createRetryPolicy } from '../../../../src/publish/main/cluster-state.ts';
import { away, forbidden, noAnswer, tooLarge, usualRetry } from '../../fake-cluster.ts';

describe('retry policy', () => {
  const waits = (settings: Partial<typeof usualRetry>, random = () => 0.5) => {
    const policy = createRetryPolicy({ ...usualRetry, ...settings }, random);
    return [0, 1, 2, 3, 4, 5].map((retries) => policy.waitMs(retries, away));
  };

  it('waits 1 s, 2 s, 4 s, and then no more', () => {
    assert.deepEqual(waits({}), [1_000, 2_000, 4_000, undefined, undefined, undefined]);
  });

  it('takes number, first wait, growth and longest wait from the settings', () => {
    assert.deepEqual(waits({ maxAttempts: 1 }), [1_000, ...Array(5).fill(undefined)]);
    assert.deepEqual(waits({ maxAttempts: 5, initialIntervalMs: 100, multiplier: 3, maxIntervalMs: 900 }), [
      ...[100, 300, 900, 900, 900],
      undefined,
    ]);
    assert.deepEqual(waits({ multiplier: 1 }).slice(0, 3), [1_000, 1_000, 1_000]);
  });

  it('never retries when it is switched off', () => {
    assert.deepEqual(waits({ enabled: false }), Array(6).fill(undefined));
  });

  it('varies a wait by 20 % where it is asked to', () => {
    assert.equal(waits({ jitter: true }, () => 0)[0], 800);
    assert.equal(waits({ jitter: true }, () => 0.5)[0], 1_000);
    assert.ok((waits({ jitter: true }, () => 0.999_999)[0] as number) < 1_200);
  });

  it('retries what may help: retriable failures and unknown outcomes', () => {
    const policy = createRetryPolicy(usualRetry);
    assert.equal(policy.waitMs(0, noAnswer), 1_000);
    assert.equal(policy.waitMs(0, forbidden), undefined);
    assert.equal(policy.waitMs(0, tooLarge), undefined);
  });

  it('says how often it has tried', () => {
    assert.equal(afterRetries(away, 0), away);
    assert.deepEqual(afterRetries(away, 3), {
      ...away,
      message: 'Failed to send message after 3 retries: cannot reach Kafka',
    });
  });
});
