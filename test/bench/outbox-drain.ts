import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Figure } from '../../scripts/bench.ts';
import { createPostgresStore } from '../../src/adapters/postgres/postgres-store.ts';
import { useLogger } from '../../src/observe/logger.ts';
import { createLedger, createPublishDurations } from '../../src/observe/outcomes.ts';
import type { OutboxRow } from '../../src/outbox/outbox-row.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { createRelay } from '../../src/outbox/relay/relay.ts';
import type { Broker } from '../../src/publish/broker.ts';
import { outboxRow } from '../cli/outbox-folder.ts';
import type { startOwnPostgres } from '../support/postgres.ts';
import { quantile } from './load.ts';
import { payload } from './payload.ts';

/** What a broker takes for a send, however many records are in it. */
const sendMs = 2;
const partitionCount = 6;
const rows = 20_000;
const rowsOneByOne = 500;

interface Drain {
  readonly name: string;
  readonly batchSize: number;
  readonly relays: number;
}

const drains: readonly Drain[] = [
  { name: 'drain-100', batchSize: 100, relays: 1 },
  { name: 'drain-500', batchSize: 500, relays: 1 },
  { name: 'drain-500-x2', batchSize: 500, relays: 2 },
];

type Postgres = Awaited<ReturnType<typeof startOwnPostgres>>;

/** The relay beside the loop that most outbox libraries have: a transaction that sends row by row, and marks each. */
export async function drainCases(
  postgres: Postgres,
  rounds: number,
  progress: (text: string) => void,
): Promise<Omit<Figure, 'bench'>[]> {
  const runs = new Map<string, number[]>();
  // Nothing of the outbox holds a process.
  const held = setInterval(() => {}, 1_000);
  progress(
    `a broker that takes ${sendMs} ms a send, ${rows} rows of about 1 KB, median of ${rounds} rounds in turn`,
  );
  for (let round = 1; round <= rounds; round++) {
    for (const { name, run } of [
      { name: 'one-by-one', run: () => oneByOne(postgres) },
      ...drains.map((drain) => ({ name: drain.name, run: () => drained(postgres, drain) })),
    ]) {
      const rate = await run();
      runs.set(name, [...(runs.get(name) ?? []), rate]);
      progress(`round ${round} ${name}: ${rate} rows/s`);
    }
  }
  clearInterval(held);
  const medianOf = (name: string): number => quantile(runs.get(name) ?? [], 0.5);
  return [...runs.keys()].map((name) => {
    const figure = { case: name, value: medianOf(name), unit: 'rows/s' };
    if (name === 'one-by-one') return figure;
    return {
      ...figure,
      against: 'one-by-one',
      ratio: Number((medianOf(name) / medianOf('one-by-one')).toFixed(1)),
    };
  });
}

const logger = { debug() {}, info() {}, warn: console.error, error: console.error };
useLogger(logger);

async function filled(postgres: Postgres, count: number): Promise<{ url: string; store: OutboxStore }> {
  const url = await postgres.freshDatabase();
  const store = openStore(url);
  await store.prepare();
  const body = Buffer.from(JSON.stringify(payload));
  for (let at = 0; at < count; at += 500) {
    await store.insert(
      Array.from({ length: Math.min(500, count - at) }, (_, index) => rowOf(at + index, body)),
    );
  }
  await postgres.query(url, 'VACUUM ANALYZE svc_outbox_events');
  return { url, store };
}

function openStore(url: string): OutboxStore {
  return createPostgresStore({ url, table: 'svc_outbox_events', initializeSchema: 'always' });
}

function rowOf(index: number, body: Buffer): OutboxRow {
  const aggregateId = `order-${index % 1000}`;
  return outboxRow({
    ...{ eventId: String(index), eventType: 'ORDER_CREATED', aggregateId, topic: 'orders', key: aggregateId },
    ...{ payload: body, occurredAt: Date.now() },
  });
}

async function drained(postgres: Postgres, { batchSize, relays }: Drain): Promise<number> {
  const { url, store } = await filled(postgres, rows);
  let sent = 0;
  const stores = Array.from({ length: relays }, (_, index) => (index === 0 ? store : openStore(url)));
  const broker: Broker = {
    name: 'stub',
    connect: async () => ({ ok: true }),
    async send(_topic, _partition, records) {
      await sleep(sendMs);
      sent += records.length;
      return { ok: true };
    },
    partitionsFor: async () => partitionCount,
    describe: async () => ({ clusterId: null, nodeCount: 1 }),
    close: async () => {},
  };
  const settings = {
    ...{ batchSize, pollIntervalMs: 1_000, maxRetries: 3, sendTimeoutMs: 10_000, retentionDays: 7 },
    ...{ failedRetentionDays: 30, cleanupEnabled: false, dynamicBatching: false, circuitBreaker: true },
  };
  const all = stores.map((each, index) =>
    createRelay({
      ...{ store: each, broker, settings, owner: `bench-${index}` },
      counters: { ledger: createLedger(), durations: createPublishDurations() },
    }),
  );
  const begun = performance.now();
  for (const relay of all) relay.start();
  // The last acknowledgement counts, not the last send.
  while (sent < rows || (await store.countPending()) > 0) await sleep(20);
  const rate = Math.round((rows * 1000) / (performance.now() - begun));
  for (const relay of all) await relay.stop(5_000);
  for (const each of stores) await each.close(1_000);
  return rate;
}

async function oneByOne(postgres: Postgres): Promise<number> {
  const { url, store } = await filled(postgres, rowsOneByOne);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const begun = performance.now();
  for (;;) {
    await client.query('BEGIN');
    const { rows: found } = await client.query(
      "SELECT id FROM svc_outbox_events WHERE status = 'PENDING' ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED",
    );
    for (const { id } of found) {
      await sleep(sendMs);
      await client.query(
        "UPDATE svc_outbox_events SET status = 'PUBLISHED', published_at = now() WHERE id = $1",
        [id],
      );
    }
    await client.query('COMMIT');
    if (found.length === 0) break;
  }
  const rate = Math.round((rowsOneByOne * 1000) / (performance.now() - begun));
  await client.end();
  await store.close(1_000);
  return rate;
}
