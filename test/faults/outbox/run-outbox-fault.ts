import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaCluster } from '../../../scripts/services/kafka-cluster.ts';
import type { OwnDatabase } from '../../support/database.ts';
import { createTopic, deleteTopics } from '../cluster-admin.ts';
import { readTopics } from '../read-topics.ts';
import { settleOutbox } from './outbox-account.ts';
import { createOutboxApp, type OutboxApp, workers } from './outbox-app.ts';
import type { OutboxDatabase, OutboxDatabaseName, StartedDatabase } from './outbox-databases.ts';
import { databaseEvidence, makeTables } from './outbox-evidence.ts';
import type { OutboxFault } from './outbox-faults.ts';

/** What one fault has come to, as the table and `--json` show it. */
export interface OutboxFaultResult {
  readonly fault: string;
  readonly title: string;
  readonly database: OutboxDatabaseName;
  readonly client: string;
  readonly problems: readonly string[];
  /** Transactions with an event that have committed. */
  readonly committed: number;
  /** Transactions that the application has rolled back. */
  readonly rolledBack: number;
  /** Transactions that the fault has kept from their COMMIT. */
  readonly cutOff: number;
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
  readonly database: OutboxDatabase;
  started(): Promise<StartedDatabase>;
  /** As in `svc.broker.client`. */
  readonly client: string;
  readonly application: string;
  readonly outageMs: number;
  say(line: string): void;
}

const warmUpMs = 3_000;
const afterMs = 2_000;
/** The breaker may be open for its 60 s when the load ends. */
const settleMs = 240_000;
const usualPauseMs = 30;
/** Of one that lasts longer, fewer a second: the wait is what it shows. */
const attemptsPerOutage = 30_000;

/** The mean time between two transactions of a worker: both applications have about 400 of them a second. */
function pauseMsFor({ outage }: OutboxFault, outageMs: number): number {
  if (outage === undefined) return usualPauseMs;
  return Math.max(usualPauseMs, (outageMs * 2 * workers) / attemptsPerOutage);
}

/** Two applications that store orders in transactions, one fault, and the accounts of table, outbox and topic. */
export async function runOutboxFault(
  fault: OutboxFault,
  options: OutboxRunOptions,
): Promise<OutboxFaultResult> {
  const begun = Date.now();
  const { client, database, outageMs, say } = options;
  const name = `${fault.name}-${randomBytes(3).toString('hex')}`;
  const { nodes, brokers, jars } = await options.cluster();
  const started = await options.started();
  await createTopic(nodes, name);
  const url = await started.freshDatabase();
  await makeTables(started, url, database);
  const folder = join(options.application, 'runs', name);
  const app = (index: number): OutboxApp =>
    createOutboxApp({
      ...{ folder: join(folder, String(index)), databaseUrl: url, driver: database.driver, index },
      broker: { client, topic: name, 'bootstrap-servers': brokers },
      pauseMs: pauseMsFor(fault, outageMs),
    });
  const apps = [app(0), app(1)] as const;
  const count = async (rows: string): Promise<number> => {
    const [row] = await started.query(url, `SELECT count(*) AS count FROM ${rows}`);
    return Number(row?.count);
  };
  /** `undefined` while the database does not answer. */
  const pending = (): Promise<number | undefined> =>
    count("svc_outbox_events WHERE status = 'PENDING'").catch(() => undefined);
  const complaints: string[] = [];
  let backlog = 0;
  const watch = setInterval(async () => {
    backlog = Math.max(backlog, (await pending()) ?? 0);
  }, 500);
  try {
    await Promise.all(apps.map((each) => each.start()));
    await sleep(warmUpMs);
    await fault.run({
      ...{ apps, nodes, outageMs, say, pending, databaseUrl: url },
      server: started.server as OwnDatabase,
      // It may have been killed before it had made the tables.
      shardsOf: (pid) => count(`svc_outbox_events_shard WHERE owner LIKE '%:${pid}:%'`).catch(() => 0),
      complain: (problem) => void complaints.push(problem),
    });
    await sleep(afterMs);
    await Promise.all(apps.map((each) => each.stop()));
    const stopped = Date.now();
    while ((await pending()) !== 0 && Date.now() - stopped < settleMs) await sleep(200);
    const drainMs = Date.now() - stopped;
    await Promise.all(apps.map((each) => each.end()));
    const evidence = {
      ...(await databaseEvidence(started, url)),
      topic: await readTopics(jars, brokers, [name]),
    };
    const { orders, topic } = evidence;
    const { problems: found, ...account } = settleOutbox(evidence);
    const problems = [...found, ...complaints];
    if (orders.length < 500) problems.push(`too little load: ${orders.length} orders`);
    if (account.rolledBack < 100) problems.push(`too few rollbacks: ${account.rolledBack}`);
    if (backlog < (fault.outage?.leastBacklog ?? 0)) problems.push(`no more than ${backlog} rows waited`);
    if (problems.length === 0) rmSync(folder, { recursive: true, force: true });
    else say(`configurations and logs: ${folder}`);
    return {
      ...{ fault: fault.name, title: titleOf(fault, outageMs), database: database.name, client },
      ...{ problems, ...account, backlog, drainMs },
      committed: orders.length,
      delivered: topic.length - account.duplicates,
      tookMs: Date.now() - begun,
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

function titleOf({ title, outage, onlyWhenNamed }: OutboxFault, outageMs: number): string {
  if (onlyWhenNamed) return `${title} ${outageMs / 1_000} s`;
  return outage === undefined ? title : `${title} ${outageMs / 1_000} s later`;
}
