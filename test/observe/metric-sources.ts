import type { CaptureTarget, MetricSources, OutboxState } from '../../src/observe/metrics.ts';
import { createLedger, createPublishDurations, outcomes } from '../../src/observe/outcomes.ts';

/** Empty sources for a test to fill. */
export function metricSources(
  captureTargets: readonly CaptureTarget[] = [],
  ledger = createLedger(),
): MetricSources {
  return {
    ledger,
    durations: createPublishDurations(),
    circuit: () => 0,
    buffer: () => ({ events: 0, bytes: 0, overflows: 0 }),
    backup: () => ({ files: 0, events: 0, bytes: 0, tooLarge: 0, drained: 0, oldestMs: 0 }),
    worker: () => ({ workerId: 17, source: 'kafka' }),
    captureTargets: () => captureTargets,
    lastPublishedMs: () => null,
    dlqWaiting: () => null,
    recentDlqEvents: () => [],
  };
}

/** One of everything, so that no instrument is without a value. */
export function filledSources(ofLedger = createLedger()): MetricSources {
  const targets: readonly CaptureTarget[] = [
    { target: './src/orders.ts#createOrder', state: 'patched', calls: 7, failed: 2, skipped: 1 },
    { target: './src/orders.ts#cancelOrder', state: 'patched', calls: 0, failed: 0, skipped: 0 },
    { target: './src/gone.ts#nothing', state: 'failed', calls: 0, failed: 0, skipped: 0 },
  ];
  const empty = metricSources(targets, ofLedger);
  const outbox: OutboxState = {
    pending: () => 12,
    oldestPendingMs: () => 1_500,
    failed: () => 3,
    lastRelayedMs: () => 1_700_000_000_500,
    unconfirmed: () => 1,
    unjoined: () => 4,
    circuit: () => 2,
  };
  const sources = {
    ...empty,
    outbox,
    backup: () => ({ ...empty.backup(), oldestMs: 2_000, problem: null }),
    lastPublishedMs: () => 1_700_000_000_250,
    dlqWaiting: () => 3,
  };
  const { ledger, durations } = sources;
  for (const outcome of ['published', ...outcomes] as const) ledger.open('ORDER_CREATED').close(outcome);
  ledger.open('ORDER_CREATED');
  ledger.open('ORDER_CANCELLED').close('published');
  ledger.retried('ORDER_CREATED');
  ledger.dlqFailed('ORDER_CREATED');
  ledger.brokerFailed('retriable');
  for (let row = 0; row < 40; row++) ledger.relayed('ORDER_CREATED');
  for (let row = 0; row < 2; row++) ledger.gaveUp('ORDER_CREATED');
  durations.record('ORDER_CREATED', 0.003);
  durations.record('ORDER_CREATED', 0.2);
  durations.record('ORDER_CREATED', 60);
  return sources;
}
