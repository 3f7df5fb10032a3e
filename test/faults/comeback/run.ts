import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import kafkajs from 'kafkajs';
import { startKafkaServer } from '../../../scripts/services/kafka.ts';
import { type KafkaCluster, startKafkaCluster } from '../../../scripts/services/kafka-cluster.ts';
import { consoleLogger, useLogger } from '../../../src/observe/logger.ts';
import { kafkaClients } from '../../adapters/kafka/kafka-clients.ts';
import { startMeasuredApp } from './measured-app.ts';
import { type Probe, startProber } from './prober.ts';

// How soon is svc back after an outage, and what of it is Kafka's, the client's, and svc's?
//   node test/faults/comeback/run.ts --nodes 3 --client kafkajs,platformatic --outage 15 --runs 3 [--verbose]

const { values } = parseArgs({
  options: {
    nodes: { type: 'string', default: '1' },
    client: { type: 'string', default: 'kafkajs,platformatic' },
    outage: { type: 'string', default: '15' },
    runs: { type: 'string', default: '1' },
    verbose: { type: 'boolean', default: false },
  },
});
const partitions = 6;
const log = (text: string): void => console.error(text);

interface Stage {
  readonly brokers: readonly string[];
  readonly logFiles: readonly string[];
  kill(): Promise<unknown>;
  launch(): Promise<unknown>;
  stop(): Promise<void>;
}

interface Timeline {
  readonly client: string;
  /** Milliseconds from the start of the processes. */
  readonly port?: number;
  readonly versions?: number;
  readonly metadata?: number;
  readonly leaders?: number;
  readonly described?: number;
  readonly firstRecord?: number;
  readonly lastPartition?: number;
  readonly firstAck?: number;
  readonly closed?: number;
  readonly connectionsPerSecond: number;
}

async function openStage(): Promise<Stage> {
  if (values.nodes === '1') {
    const server = await startKafkaServer({ log });
    const { controls, brokers, instance } = server;
    if (controls === null) throw new Error('this Kafka is not ours to kill');
    const logFiles = [join(instance?.folder ?? '', 'kafka.log')];
    return { brokers, logFiles, kill: controls.kill, launch: controls.restart, stop: server.stop };
  }
  const cluster: KafkaCluster = await startKafkaCluster({ log });
  return {
    brokers: cluster.brokers,
    logFiles: cluster.nodes.map(({ id }) => join(cluster.instance.folder, `node${id}`, 'kafka.log')),
    kill: () => Promise.all(cluster.nodes.map((node) => node.kill())),
    async launch() {
      for (const node of cluster.nodes) node.launch();
      await Promise.all(cluster.nodes.map((node) => node.ready()));
    },
    stop: cluster.stop,
  };
}

async function createTopic(brokers: readonly string[], topic: string): Promise<void> {
  const admin = adminOf(brokers);
  await admin.connect();
  const configEntries = [{ name: 'message.timestamp.type', value: 'LogAppendTime' }];
  const replicationFactor = brokers.length;
  await admin.createTopics({
    ...{ waitForLeaders: true },
    topics: [{ topic, numPartitions: partitions, replicationFactor, configEntries }],
  });
  await admin.disconnect();
}

const clientOf = (brokers: readonly string[]): kafkajs.Kafka =>
  new kafkajs.Kafka({ brokers: [...brokers], clientId: 'comeback', logLevel: kafkajs.logLevel.NOTHING });
const adminOf = (brokers: readonly string[]): kafkajs.Admin => clientOf(brokers).admin();

/** Append times after `since`: of the very first record, and of the first one of the partition that got it last. */
async function firstRecords(brokers: readonly string[], topic: string, since: number) {
  const admin = adminOf(brokers);
  await admin.connect();
  const offsets = await admin.fetchTopicOffsetsByTimestamp(topic, since);
  await admin.disconnect();
  const consumer = clientOf(brokers).consumer({ groupId: `g${Date.now()}`, maxWaitTimeInMs: 50 });
  await consumer.connect();
  await consumer.subscribe({ topic });
  const found = new Map<number, number>();
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      const at = Number(message.timestamp);
      if (at >= since && !found.has(partition)) found.set(partition, at);
    },
  });
  for (const { partition, offset } of offsets) consumer.seek({ topic, partition, offset });
  for (let tries = 0; tries < 100 && found.size < partitions; tries++) await sleep(100);
  await consumer.disconnect();
  const times = [...found.values()].sort((a, b) => a - b);
  return { first: times[0], last: found.size < partitions ? undefined : times.at(-1) };
}

async function measure(stage: Stage, client: string, outageMs: number): Promise<Timeline> {
  const topic = `back-${client}-${Date.now()}`;
  await createTopic(stage.brokers, topic);
  const app = startMeasuredApp(client, stage.brokers, topic);
  const expected = { partitions, minInSync: Math.min(2, stage.brokers.length) };
  const asked = describer(client, stage.brokers);
  try {
    await app.until(() => app.publishedAt(0), 30_000);
    await sleep(1_500);
    await asked.once();
    await stage.kill();
    const killedAt = Date.now();
    await sleep(outageMs);
    const launchedAt = Date.now();
    const prober = startProber(stage.brokers, topic, expected);
    const described = asked.until();
    const launched = stage.launch();
    await app.until(() => app.publishedAt(launchedAt), 120_000);
    await app.until(() => prober.firsts.has('leaders'), 30_000);
    await launched;
    prober.stop();
    // Long enough for a partition whose sends wait for their second retry.
    await sleep(5_000);
    const at = (what: Probe['what']): number | undefined => since(prober.firsts.get(what)?.at);
    const since = (ms: number | undefined): number | undefined =>
      ms === undefined ? undefined : ms - launchedAt;
    const records = await firstRecords(stage.brokers, topic, launchedAt);
    const closed = app.said.find(({ at, text }) => at >= launchedAt && text.includes('breaker is CLOSED'));
    const counts = app.said.filter(
      ({ what, at }) => what === 'connections' && at > killedAt + 1_000 && at < launchedAt,
    );
    const [first, last] = [counts[0], counts.at(-1)];
    const connectionsPerSecond =
      first && last && last.at > first.at
        ? ((Number(last.text) - Number(first.text)) * 1000) / (last.at - first.at)
        : 0;
    if (values.verbose) {
      for (const each of app.said)
        if (each.at >= launchedAt - 5_000 && each.what !== 'connections')
          console.log(`  app ${each.at - launchedAt}: ${each.what} ${each.text.slice(0, 200)}`);
      for (const file of stage.logFiles) kafkaLines(file, launchedAt);
    }
    const timeline = {
      ...{
        client,
        port: at('port'),
        versions: at('versions'),
        metadata: at('metadata'),
        leaders: at('leaders'),
      },
      ...{
        described: since(await described),
        firstRecord: since(records.first),
        lastPartition: since(records.last),
        closed: since(closed?.at),
      },
      ...{ firstAck: since(app.publishedAt(launchedAt)), connectionsPerSecond },
    } as Timeline;
    return timeline;
  } finally {
    await app.end();
    await asked.close();
  }
}

/** Asks as the health check does, twice a second, and says when it is answered first. */
function describer(client: string, brokers: readonly string[]) {
  useLogger(consoleLogger('off'));
  const options = { brokers, clientId: 'd', requestTimeoutMs: 30_000, connectionTimeoutMs: 3_000 };
  const { create } = kafkaClients.find(({ name }) => name === client) as (typeof kafkaClients)[number];
  const broker = create(options);
  let closed = false;
  return {
    once: () => broker.describe(),
    async until(): Promise<number | undefined> {
      while (!closed) {
        const isThere = await broker.describe().then(
          () => true,
          () => false,
        );
        if (isThere) return Date.now();
        await sleep(500);
      }
      return undefined;
    },
    close() {
      closed = true;
      return broker.close(500);
    },
  };
}

const telling =
  /Awaiting socket|Recorded new|unfence|Transition from|initial broker|start processing|Kafka Server started|became active|claim|Enabling request|Completed transition|Registered broker|BROKER.*RUNNING/i;

function kafkaLines(file: string, since: number): void {
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const time = Date.parse(`${line.slice(0, 10)}T${line.slice(11, 19)}.${line.slice(20, 23)}`);
    if (time >= since && telling.test(line)) console.log(`  kafka ${time - since}: ${line.slice(24, 220)}`);
  }
}

const stage = await openStage();
try {
  for (const client of values.client.split(','))
    for (let run = 0; run < Number(values.runs); run++)
      console.log(JSON.stringify(await measure(stage, client, Number(values.outage) * 1_000)));
} finally {
  await stage.stop();
}
process.exit();
