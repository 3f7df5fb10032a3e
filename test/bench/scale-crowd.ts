import { setTimeout as sleep } from 'node:timers/promises';
import { createPostgresStore } from '../../src/adapters/postgres/postgres-store.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import type { WorkerIdGrant } from '../../src/envelope/ids.ts';
import { useLogger } from '../../src/observe/logger.ts';
import { createLedger, createPublishDurations } from '../../src/observe/outcomes.ts';
import { createRelay } from '../../src/outbox/relay/relay.ts';
import type { Broker } from '../../src/publish/broker.ts';
import { openWorkerIdLease } from '../../src/start/adapters.ts';

const logger = { debug() {}, info() {}, warn: console.error, error: console.error };
useLogger(logger);
/** So many begin at the same time: a deployment does not start all in one millisecond. */
const atOnce = 20;

async function inGroups<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  for (let at = 0; at < items.length; at += atOnce) await Promise.all(items.slice(at, at + atOnce).map(work));
}

/** Relays as many processes would have them, with nothing to send. */
export async function startRelays(url: string, count: number): Promise<{ stop(): Promise<void> }> {
  const broker: Broker = {
    name: 'stub',
    connect: async () => ({ ok: true }),
    send: async () => ({ ok: true }),
    partitionsFor: async () => 6,
    describe: async () => ({ clusterId: null, nodeCount: 1 }),
    close: async () => {},
  };
  const settings = {
    ...{ batchSize: 100, pollIntervalMs: 1_000, maxRetries: 3, sendTimeoutMs: 10_000, retentionDays: 7 },
    ...{ failedRetentionDays: 30, cleanupEnabled: true, dynamicBatching: true, circuitBreaker: true },
  };
  const relays = Array.from({ length: count }, (_, index) => {
    const initializeSchema = 'always' as const;
    const store = createPostgresStore({ url, table: 'svc_outbox_events', initializeSchema });
    const relay = createRelay({
      ...{ store, broker, settings, owner: `host-${index}:1` },
      counters: { ledger: createLedger(), durations: createPublishDurations() },
    });
    return { store, relay };
  });
  // Nothing of the outbox holds a process.
  const held = setInterval(() => {}, 1_000);
  await relays[0]?.store.prepare();
  await inGroups(relays, async ({ store, relay }) => {
    await store.prepare();
    relay.start();
  });
  return {
    async stop() {
      await inGroups(relays, ({ relay }) => relay.stop(10_000));
      await inGroups(relays, ({ store }) => store.close(1_000));
      clearInterval(held);
    },
  };
}

export interface Members {
  /** How many have a worker id, once all have one or the time is over. */
  allGranted(limitMs: number): Promise<number>;
  distinct(): number;
  stop(): Promise<void>;
}

/** Members of the group of worker ids, each with its own connection. */
export async function startMembers(
  brokers: readonly string[],
  group: string,
  count: number,
): Promise<Members> {
  const { config } = loadConfig({
    env: {},
    code: {
      svc: {
        service: { name: 'orders', version: '1' },
        broker: { topic: 'orders', client: 'kafkajs', bootstrapServers: brokers },
        idGenerator: { group },
      },
    },
  });
  const grants = new Map<number, WorkerIdGrant | undefined>();
  const leases = Array.from({ length: count }, () => openWorkerIdLease(config));
  // Nothing of a lease holds a process.
  const held = setInterval(() => {}, 1_000);
  await inGroups([...leases.entries()], async ([index, lease]) => {
    lease.start((grant) => grants.set(index, grant));
    await sleep(50);
  });
  const granted = (): WorkerIdGrant[] => [...grants.values()].filter((grant) => grant !== undefined);
  return {
    async allGranted(limitMs) {
      for (const end = Date.now() + limitMs; granted().length < count && Date.now() < end; ) await sleep(100);
      return granted().length;
    },
    distinct: () => new Set(granted().map(({ workerId }) => workerId)).size,
    async stop() {
      await inGroups(leases, (lease) => lease.close(5_000));
      clearInterval(held);
    },
  };
}
