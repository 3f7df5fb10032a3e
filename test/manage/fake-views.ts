import type { BrokerView, Info, OutboxHealth, RecoveryControls } from '../../src/manage/controls.ts';
import { createViews } from '../../src/manage/views.ts';
import type { MetricSources } from '../../src/observe/metrics.ts';

export const info: Info = { service: { name: 'orders', version: '1.4.0' }, svc: { version: '0.1.0' } };

export const noRecovery: RecoveryControls = {
  start: () => undefined,
  latest: () => ({ run: null, dryRun: null }),
  missing: () => undefined,
};

/** The views of a process with these sources, whose broker answers. */
export function viewsOf(
  sources: MetricSources,
  {
    outbox,
    traffic,
  }: { readonly outbox?: OutboxHealth | undefined; readonly traffic?: BrokerView | undefined } = {},
): ReturnType<typeof createViews> {
  return createViews(
    {
      broker: { describe: async () => ({ clusterId: 'c', nodeCount: 1 }), traffic: () => traffic },
      onAway() {},
      problem: () => undefined,
      keys: () => [],
      ...{ sources, info },
      outbox: outbox && {
        health: async () => outbox,
        isReady: () => true,
        standsStill: async () => false,
      },
    },
    { topic: 't', dlqTopic: null },
    { deadLetterRecovery: noRecovery, backupDrain: noRecovery },
  );
}
