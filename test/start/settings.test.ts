import assert from 'node:assert/strict';
import { loadConfig } from '../../src/config/read/load.ts';
import { queueSettingsOf } from '../../src/start/settings.ts';

describe('settings of the queue', () => {
  const settingsOf = (config: object) =>
    queueSettingsOf(
      loadConfig({ env: {}, code: { svc: { broker: { topic: 'orders' }, ...config } } }).config,
    );

  it('are those of the documentation where nothing is configured', () => {
    const { retry, ...rest } = settingsOf({});
    assert.deepEqual(rest, {
      topic: 'orders',
      batch: { maxEvents: 500, maxBytes: 900_000, lingerMs: 20, isAwaited: true },
      buffer: { maxEvents: 10_000, maxBytes: 33_554_432 },
      maxInFlight: 8,
      // Of 30,000: two seconds are for the tiers behind.
      deliveryTimeoutMs: 28_000,
      breaker: { threshold: 5, probeIntervalMs: 1_000, passingIntervalMs: 250, random: Math.random },
    });
    const failure = { kind: 'retriable', cause: 'C', message: 'm' } as const;
    assert.deepEqual(
      [0, 1, 2, 3].map((retries) => retry.waitMs(retries, failure)),
      [1_000, 2_000, 4_000, undefined],
    );
  });

  it('tell the queue whether callers wait for their events', () => {
    const isAwaited = (asyncMode: boolean) =>
      settingsOf({ broker: { topic: 'orders', asyncMode } }).batch.isAwaited;
    assert.deepEqual([isAwaited(true), isAwaited(false)], [false, true]);
  });

  it('hand the retry settings on, in milliseconds', () => {
    const { retry } = settingsOf({
      retry: { maxAttempts: 2, initialInterval: 10, multiplier: 5, maxInterval: 40 },
    });
    const failure = { kind: 'unknown_outcome', cause: 'C', message: 'm' } as const;
    assert.deepEqual(
      [0, 1, 2].map((retries) => retry.waitMs(retries, failure)),
      [10, 40, undefined],
    );
  });
});
