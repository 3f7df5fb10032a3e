import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaCluster } from '../../../scripts/services/kafka-cluster.ts';
import type { OwnDatabase } from '../../support/database.ts';
import { createTopic, deleteTopics } from '../cluster-admin.ts';
import { readTopics } from '../read-topics.ts';
import { settleOutbox } from './outbox-account.ts';
import { createOutboxApp } from './outbox-app.ts';
import type { OutboxFault } from './outbox-faults.ts';

/** What one fault has come to, as the table and `--json` show it. */
export interface OutboxFaultResult {
  readonly fault: string;
  readonly title: string;
  readonly problems: readonly string[];
  /** Transactions with an event that have committed. */
  readonly committed: number;
  /** Numbers that were taken and never committed. */
  readonly rolledBack: number;
  readonly delivered: number;
  readonly duplicates: number;
  readonly failed: number;
  /** The most rows that waited at once. */
  readonly backlog: number;
  /** From the end of the load to the last acknowledged row. */
  readonly drainMs: number;
  readonly tookMs: number;
}

export interface OutboxRunOptions {
  cluster(): Promise<KafkaCluster>;
  database(): Promise<OwnDatabase>;
  /** As in `svc.broker.client`. */
  readonly client: string;
  readonly application: string;
  readonly outageMs: number;
  say(line: string): void;
}

const warmUpMs = 3_000;
const afterMs = 2_000;
const settleMs = 180_000;
/** About 400 transactions a second by both. */
const pauseMs = 30;

/** Two applications that store orders in transactions, one fault, and the accounts of table, outbox and topic. */
export async function runOutboxFault(
  fault: OutboxFault,
  options: OutboxRunOptions,
): Promise<OutboxFaultResult> {
  const started = Date.now();
  const { client, outageMs, say } = options;
  const name = `${fault.name}-${randomBytes(3).toString('hex')}`;
  const { nodes, brokers, jars } = await options.cluster();
  const database = await options.database();
  await createTopic(nodes, name);
  const url = await database.freshDatabase();
  await database.query(url, 'CREATE TABLE orders (call text PRIMARY KEY)');
  await database.query(url, 'CREATE SEQUENCE numbers');
  const folder = join(options.application, 'runs', name);
  const broker = { client, topic: name, 'bootstrap-servers': brokers };
  const app = (index: number) =>
    createOutboxApp({ folder: join(folder, String(index)), databaseUrl: url, broker, index, pauseMs });
  const apps = [app(0), app(1)] as const;
  const count = async (statement: string): Promise<number> => {
    const [row] = await database.query(url, statement);
    return Number(row?.count);
  };
  const pending = (): Promise<number> =>
    count("SELECT count(*) AS count FROM svc_outbox_events WHERE status = 'PENDING'").catch(() => 0);
  let backlog = 0;
  const watch = setInterval(async () => {
    backlog = Math.max(backlog, await pending());
  }, 500);
  try {
    await Promise.all(apps.map((each) => each.start()));
    await sleep(warmUpMs);
    await fault.run({ apps, database, nodes, outageMs, say, pending });
    await sleep(afterMs);
    await Promise.all(apps.map((each) => each.stop()));
    const stopped = Date.now();
    while ((await pending()) > 0 && Date.now() - stopped < settleMs) await sleep(200);
    const drainMs = Date.now() - stopped;
    await Promise.all(apps.map((each) => each.end()));
    const orders = (await database.query(url, 'SELECT call FROM orders')).map(({ call }) => String(call));
    const rows = await database.query(url, 'SELECT event_id, status FROM svc_outbox_events');
    const statuses: Record<string, number> = {};
    for (const { status } of rows) statuses[String(status)] = (statuses[String(status)] ?? 0) + 1;
    const topic = await readTopics(jars, brokers, [name]);
    const eventIds = rows.map((row) => String(row.event_id));
    const account = settleOutbox({ orders, statuses, eventIds, topic });
    const problems = [...account.problems];
    if (orders.length < 500) problems.push(`too little load: ${orders.length} orders`);
    if (backlog < (fault.leastBacklog ?? 0)) problems.push(`no more than ${backlog} rows waited`);
    if (problems.length === 0) rmSync(folder, { recursive: true, force: true });
    else say(`configurations and logs: ${folder}`);
    return {
      ...{ fault: fault.name, title: fault.title, problems, backlog, drainMs },
      committed: orders.length,
      rolledBack: (await count('SELECT last_value AS count FROM numbers')) - orders.length,
      delivered: topic.length - account.duplicates,
      duplicates: account.duplicates,
      failed: statuses.FAILED ?? 0,
      tookMs: Date.now() - started,
    };
  } finally {
    clearInterval(watch);
    for (const each of apps) {
      each.resume();
      await each.kill();
    }
    await deleteTopics(nodes, [name]).catch(() => {});
  }
}
