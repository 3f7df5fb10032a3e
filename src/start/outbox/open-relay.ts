import type { Config } from '../../config/config.ts';
import { systemClock } from '../../ground/clock.ts';
import { isolate } from '../../observe/isolate.ts';
import type { Logger } from '../../observe/logger.ts';
import { shardCount } from '../../outbox/outbox-row.ts';
import type { OutboxStore, ShardHolder } from '../../outbox/outbox-store.ts';
import type { Relay } from '../../outbox/relay/relay.ts';
import type { RelayCounters } from '../../outbox/relay/row-counts.ts';
import type { Broker } from '../../publish/broker.ts';
import { isOwnerGone, newOwner, shownOwner } from './relay-owner.ts';

/** A relay as configured, loaded when it is asked for. Each has a name of its own among all that share the table. */
export async function openRelay(
  { outbox }: Config,
  store: OutboxStore,
  broker: Broker,
  counters: RelayCounters,
  logger: Logger,
): Promise<Relay> {
  const { createRelay } = await import('../../outbox/relay/relay.ts');
  return createRelay({
    ...{ store: takingOver(store, logger), broker, logger, isolate, clock: systemClock, counters },
    owner: newOwner(),
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

/** At most so many are named in one line. */
const mostNamed = 5;

/** Leases of processes that are gone do not hold it up where that is known; where it is not, a line at its start says whose they are. */
function takingOver(store: OutboxStore, logger: Logger): OutboxStore {
  const taken = new Set<string>();
  let isFirst = true;

  function isGone(owner: string): boolean {
    const is = isOwnerGone(owner);
    if (is && !taken.has(owner))
      logger.info(`outbox: the process ${shownOwner(owner)} of this host is gone: its rows are taken over`);
    if (is) taken.add(owner);
    return is;
  }

  async function sayOthers(own: string): Promise<void> {
    const others = (await store.holders()).filter(({ owner }) => owner !== own);
    if (others.length > 0) logger.info(`outbox: ${heldText(others)}`);
  }

  return {
    ...store,
    async claim(owner, leaseMs, onTime) {
      const shards = await store.claim(owner, leaseMs, onTime, isGone);
      // It is but a line.
      if (isFirst) sayOthers(owner).catch(() => {});
      isFirst = false;
      return shards;
    },
  };
}

function heldText(others: readonly ShardHolder[]): string {
  const named = others.slice(0, mostNamed).map(({ owner, shards, leaseMs }) => {
    const until = new Date(systemClock.now() + leaseMs).toISOString().slice(11, 19);
    return `${shards} by ${shownOwner(owner)} until ${until}Z (${Math.ceil(leaseMs / 1_000)} s)`;
  });
  const more = others.length > mostNamed ? `, and by ${others.length - mostNamed} more` : '';
  const count = others.reduce((sum, { shards }) => sum + shards, 0);
  return `${count} of ${shardCount} shards are held by other relays: ${named.join(', ')}${more}; a relay that is alive renews that and sends their rows, and rows of one that is gone wait until then`;
}
