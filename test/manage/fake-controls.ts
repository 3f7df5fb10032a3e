import type { Controls, Health, OutboxHealth } from '../../src/manage/controls.ts';
import { filledSources } from '../observe/metric-sources.ts';
import { info, noRecovery, viewsOf } from './fake-views.ts';

export const upHealth: Health = {
  status: 'UP',
  details: {
    brokerProducerInitialized: true,
    clusterId: 'MkU3OEVBNTcwNTJENDM2Qk',
    nodeCount: 3,
    topic: 'orders.v1',
    dlqTopic: 'orders.dlq.v1',
  },
};

export const downHealth: Health = {
  status: 'DOWN',
  details: {
    ...upHealth.details,
    clusterId: null,
    nodeCount: null,
    error: 'connect ECONNREFUSED 127.0.0.1:9092',
  },
};

export const upOutbox: OutboxHealth = {
  status: 'UP',
  circuitBreakerState: 'HALF-OPEN',
  consecutiveFailures: 5,
  timeSinceLastSuccessMs: 61_000,
  totalPending: 12,
  totalFailed: 2,
  oldestPendingMs: 1_500,
  standsBy: true,
};

/** Its database does not answer, and no relay runs here. */
export const downOutbox: OutboxHealth = {
  status: 'DOWN',
  circuitBreakerState: null,
  consecutiveFailures: null,
  timeSinceLastSuccessMs: null,
  totalPending: null,
  totalFailed: null,
  oldestPendingMs: null,
  error: 'the database cannot be reached',
};

export function reports(
  ...of: Parameters<typeof viewsOf>
): Pick<Controls, 'metricsReport' | 'flatMetricsReport'> {
  const { metricsReport, flatMetricsReport, close } = viewsOf(...of);
  close();
  return { metricsReport, flatMetricsReport };
}

export function fakeControls(overrides: Partial<Controls> = {}): Controls {
  return {
    health: async () => upHealth,
    isReady: async () => true,
    metricsText: async () => '# TYPE svc_events_in_flight gauge\nsvc_events_in_flight{eventType="é"} 0\n',
    console: async (afterMs) => ({ afterMs }),
    info: () => info,
    ...reports(filledSources()),
    targets: () => filledSources().captureTargets(),
    deadLetters: () => ({
      waiting: 3,
      recent: [{ eventType: 'ORDER', failureReason: 'Timeout: late', timestamp: '2026-01-01T00:00:00.000Z' }],
    }),
    deadLetterTopic: {
      missing: () => undefined,
      newest: async () => ({
        ...{ topic: 'orders.dlq.v1', read: 2, unreadable: 1, complete: true },
        deadLetters: [
          {
            ...{ eventId: '7', eventType: 'ORDER', failureReason: 'TimeoutException', originalTopic: null },
            ...{ timestamp: '2026-01-01T00:00:00.000Z', partition: 0, offset: 12 },
          },
        ],
      }),
    },
    invalidateKeys: async () => ({ keys: [] }),
    deadLetterRecovery: noRecovery,
    backupDrain: noRecovery,
    resetBreakers: () => ({ broker: null, outbox: null }),
    ...overrides,
  };
}
