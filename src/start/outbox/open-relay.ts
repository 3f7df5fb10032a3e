import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Config } from '../../config/config.ts';
import { systemClock } from '../../ground/clock.ts';
import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import type { Relay } from '../../outbox/relay/relay.ts';
import type { Broker } from '../../publish/broker.ts';

/** A relay as configured, loaded when it is asked for. Each has a name of its own among all that share the table. */
export async function openRelay(
  { outbox }: Config,
  store: OutboxStore,
  broker: Broker,
  logger: Logger,
): Promise<Relay> {
  const { createRelay } = await import('../../outbox/relay/relay.ts');
  return createRelay({
    ...{ store, broker, logger, isolate, clock: systemClock },
    owner: `${hostname()}:${process.pid}:${randomUUID()}`,
    settings: {
      batchSize: outbox.batchSize,
      pollIntervalMs: outbox.pollIntervalMs,
      maxRetries: outbox.maxRetries,
      onFailed: outbox.onFailed,
      sendTimeoutMs: outbox.sendTimeoutSeconds * 1000,
      retentionDays: outbox.retentionDays,
      failedRetentionDays: outbox.failedRetentionDays,
      cleanupEnabled: outbox.cleanupEnabled,
      dynamicBatching: outbox.dynamicBatchingEnabled,
      circuitBreaker: outbox.circuitBreakerEnabled,
    },
  });
}
