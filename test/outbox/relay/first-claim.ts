import type { Config } from '../../../src/config/config.ts';
import { createLedger, createPublishDurations } from '../../../src/observe/outcomes.ts';
import type { OutboxStore, ShardHolder } from '../../../src/outbox/outbox-store.ts';
import { openRelay } from '../../../src/outbox/relay/relay.ts';
import type { Broker } from '../../../src/publish/broker.ts';

const outbox = {
  ...{ batchSize: 100, pollIntervalMs: 1_000, maxRetries: 3, sendTimeoutSeconds: 2 },
  ...{ retentionDays: 7, failedRetentionDays: 30, cleanupEnabled: false, circuitBreakerEnabled: true },
};

interface FirstClaim {
  /** The name of the relay. */
  readonly owner: string;
  /** Whether the relay would take the shards of this one over at once. */
  readonly isGone: (owner: string) => boolean;
}

/** What a relay as configured gives to its table with its first claim. `holders`: the other relays that the table knows. */
export async function firstClaim(holders: readonly ShardHolder[] = []): Promise<FirstClaim> {
  const claimed = Promise.withResolvers<FirstClaim>();
  const store: Partial<OutboxStore> = {
    isFull: async () => false,
    async claim(owner, _, { isGone = () => false } = {}) {
      claimed.resolve({ owner, isGone });
      return [];
    },
    holders: async () => holders,
    release: async () => {},
  };
  const counters = { ledger: createLedger(), durations: createPublishDurations() };
  const relay = openRelay({ outbox } as Config, store as OutboxStore, {} as Broker, counters);
  relay.start();
  const found = await claimed.promise;
  await relay.stop(1_000);
  return found;
}
