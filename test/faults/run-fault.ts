import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaCluster } from '../../scripts/services/kafka-cluster.ts';
import { settleAccounts } from './account.ts';
import { createTopic, leaderOf, moveLeader } from './cluster-admin.ts';
import type { Fault, Scene } from './fault.ts';
import { type Ledger, startLoadApp } from './load-app.ts';
import { readTopics } from './read-topics.ts';
import { storedEvents, waitingCount } from './stored-events.ts';

/** What one fault has come to, as the table and `--json` show it. */
export interface FaultResult {
  readonly fault: string;
  readonly title: string;
  readonly client: string;
  readonly problems: readonly string[];
  readonly ledger: Ledger;
  readonly duplicates: number;
  readonly longestPauseMs: number;
  readonly tookMs: number;
}

export interface RunOptions {
  readonly cluster: KafkaCluster;
  /** As in `svc.broker.client`. */
  readonly client: string;
  /** Folder of an application in which svc is installed. */
  readonly application: string;
  readonly outageMs: number;
  say(line: string): void;
}

const warmUpMs = 2_000;
const afterMs = 2_000;
const settleMs = 60_000;
const drainMs = 60_000;

/** Starts an application under load, does one fault to its cluster, and settles the accounts when all is quiet again. */
export async function runFault(fault: Fault, options: RunOptions): Promise<FaultResult> {
  const started = Date.now();
  const { cluster, say } = options;
  const { nodes } = cluster;
  await heal(cluster);
  const topic = `${fault.name}-${randomBytes(3).toString('hex')}`;
  const dlqTopic = `${topic}.dlq`;
  for (const each of [topic, dlqTopic]) await createTopic(nodes, each);
  const folder = join(options.application, 'runs', topic);
  const app = await startLoadApp({
    folder,
    broker: {
      ...{ client: options.client, topic, 'dlq-topic': dlqTopic, 'bootstrap-servers': cluster.brokers },
      ...fault.broker,
    },
  });
  try {
    const loadFrom = Date.now();
    app.load(fault.rate ?? 1_000);
    await sleep(warmUpMs);
    const scene: Scene = {
      ...{ nodes, topic, app, say, outageMs: options.outageMs },
      leaderOf: (partition) => leaderOf(nodes, topic, partition),
      moveLeader: (partition) => moveLeader(cluster, topic, partition),
    };
    await fault.run(scene);
    await sleep(afterMs);
    const { numbers } = await app.stop();
    const loadUntil = Date.now();
    const ledger = await app.settled(settleMs);
    const backupFolder = join(folder, 'dlq-backup');
    if (ledger.backup > 0) await drained(backupFolder, say);
    const end = await app.end();
    const records = await readTopics(cluster.jars, cluster.brokers, [topic, dlqTopic]);
    const account = settleAccounts({
      ...{ numbers, ledger, drained: true, loadFrom, loadUntil },
      topic: records.filter((record) => record.topic === topic),
      dlq: records.filter((record) => record.topic === dlqTopic),
      backup: storedEvents(backupFolder),
    });
    const problems = [...account.problems];
    if (ledger.lost > 0) problems.push(`${ledger.lost} events lost`);
    if (end.code !== 143 && end.signal !== 'SIGTERM' && end.code !== 0)
      problems.push(`the application ended with ${end.code ?? end.signal}`);
    return {
      ...{ fault: fault.name, title: fault.title, client: options.client, problems, ledger },
      ...{ duplicates: account.duplicates, longestPauseMs: account.longestPauseMs },
      tookMs: Date.now() - started,
    };
  } finally {
    app.kill();
  }
}

async function heal({ nodes, brokers }: KafkaCluster): Promise<void> {
  for (const node of nodes) {
    node.resume();
    if (!node.isRunning) node.launch();
  }
  await Promise.all(nodes.map((node) => node.ready(brokers.length)));
}

async function drained(folder: string, say: (line: string) => void): Promise<void> {
  const end = Date.now() + drainMs;
  for (let left = waitingCount(folder); left > 0; left = waitingCount(folder)) {
    if (Date.now() > end) throw new Error(`${left} files wait in the backup after ${drainMs} ms`);
    say(`${left} files wait in the backup`);
    await sleep(2_000);
  }
}
