import { setTimeout as sleep } from 'node:timers/promises';
import { publishEvent } from '../../src/capture/declare/publish-event.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { useLogger } from '../../src/observe/logger.ts';
import { start } from '../../src/start/start.ts';
import { payload } from './payload.ts';

// An application with PostgreSQL, whose every transaction stores an order, with and without an event in it.

export interface OutboxAppSetup {
  readonly url: string;
  /**
   * `plain`: without svc. `patched`: svc follows its transactions, and no function is a target. `joined`: one event each.
   * `relayed`: and a relay beside them, which looks at the table by itself every 5 s.
   */
  readonly kind: 'plain' | 'patched' | 'joined' | 'relayed';
  /** Of `relayed`. */
  readonly kafka?: { readonly brokers: readonly string[]; readonly topic: string };
}

export interface OutboxOrder {
  /** `seldom`: transactions, with a pause after each. */
  readonly work: 'transactions' | 'queries' | 'seldom';
  readonly clients: number;
  readonly ms: number;
}

export interface OutboxRun {
  readonly count: number;
  readonly ms: number;
  /** Of `seldom`: when each COMMIT was answered, in milliseconds since the epoch, by the key of its event. */
  readonly committedAt: Readonly<Record<string, number>>;
}

const { url, kind, kafka } = JSON.parse(process.argv[2] as string) as OutboxAppSetup;

function startSvc(): void {
  const outbox = {
    enabled: true,
    datasource: { url },
    initializeSchema: 'always' as const,
    publisherEnabled: kafka !== undefined,
    pollIntervalMs: 5_000,
  };
  const { config, problems } = loadConfig({
    env: {},
    code: {
      svc: {
        service: { name: 'orders', version: '1.4.0' },
        broker:
          kafka === undefined
            ? { topic: 'orders', client: 'memory' }
            : { topic: kafka.topic, client: 'kafkajs', bootstrapServers: kafka.brokers },
        outbox,
      },
      management: { server: { port: 0 } },
    },
  });
  if (problems.length > 0) throw new Error(problems.map(({ message }) => message).join('\n'));
  const complain = (message: string): void => {
    throw new Error(message);
  };
  useLogger({ debug() {}, info() {}, warn: complain, error: complain });
  start(config);
}

if (kind !== 'plain') startSvc();
// Not before: svc patches it when it is loaded.
const { default: pg } = await import('pg');
const pool = new pg.Pool({ connectionString: url, max: 16 });
type Client = import('pg').PoolClient;

const insert = { text: 'INSERT INTO orders (id, body) VALUES ($1, $2)' };
const body = JSON.stringify(payload);
let last = 0;

async function save(client: Client): Promise<{ readonly id: string }> {
  const order = { ...payload, id: `o-${process.pid}-${++last}` };
  await client.query({ ...insert, values: [order.id, body] });
  return order;
}

const createOrder =
  kind === 'joined' || kind === 'relayed'
    ? publishEvent(
        { eventType: 'ORDER_CREATED', outbox: { aggregateType: 'Order', aggregateId: '#result.id' } },
        save,
      )
    : save;

async function transact(client: Client): Promise<string> {
  await client.query('BEGIN');
  const { id } = await createOrder(client);
  await client.query('COMMIT');
  return id;
}

let committedAt: Record<string, number> = {};

async function transactSeldom(client: Client): Promise<void> {
  const id = await transact(client);
  committedAt[id] = Date.now();
  await sleep(50);
}

async function query(client: Client): Promise<void> {
  await client.query('SELECT 1');
}

async function run({ work, clients, ms }: OutboxOrder): Promise<OutboxRun> {
  const once = { transactions: transact, queries: query, seldom: transactSeldom }[work];
  committedAt = {};
  const begun = performance.now();
  const counts = await Promise.all(
    Array.from({ length: clients }, async () => {
      const client = await pool.connect();
      let count = 0;
      for (; performance.now() - begun < ms; count++) await once(client);
      client.release();
      return count;
    }),
  );
  return { count: counts.reduce((sum, each) => sum + each), ms: performance.now() - begun, committedAt };
}

process.on('message', async (message: OutboxOrder | 'end') => {
  if (message === 'end') process.exit(0);
  process.send?.(await run(message));
});
process.send?.('ready');
