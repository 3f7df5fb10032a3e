import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { KafkaCluster } from '../../scripts/services/kafka-cluster.ts';
import type { KafkaMock } from '../../scripts/services/kafka-mock.ts';
import { bucketsFolder, type S3Server } from '../../scripts/services/s3.ts';
import { type HttpFront, startHttpFront } from '../support/http-front.ts';
import {
  createTopic,
  deleteTopics,
  leaderOf,
  moveLeader,
  partitionCount,
  setByteRate,
} from './cluster-admin.ts';
import type { ClusterFault, Fault, MockFault, Scene } from './fault.ts';
import { type Proxies, startProxies } from './proxies.ts';
import { callIn, type FoundRecord, readTopics } from './read-topics.ts';
import { type StoredEvent, storedEvents } from './stored-events.ts';

/** Servers that all faults share, each started when it is first needed. */
export interface StageParts {
  cluster(): Promise<KafkaCluster>;
  mock(): Promise<KafkaMock>;
  s3(): Promise<S3Server>;
}

export interface StageOptions extends StageParts {
  readonly topic: string;
  readonly dlqTopic: string;
  /** Of the application. */
  readonly folder: string;
}

/** What one fault needs around its application, sound and with empty topics. */
export interface Stage {
  /** Settings under `svc.broker`. */
  readonly broker: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: string | undefined;
  readonly losesEvents: boolean;
  readonly knowsAppendTime: boolean;
  run(scene: Scene): Promise<void>;
  /** Where the local backup lies, seen from here. */
  backupFolder(pid: number): string;
  /** All records of both topics, by a client that svc does not use. */
  read(): Promise<FoundRecord[]>;
  /** Events in the bucket. */
  stored(): StoredEvent[];
  close(): Promise<void>;
}

export function prepareStage(fault: Fault, options: StageOptions): Promise<Stage> {
  return fault.on === 'mock' ? mockStage(fault, options) : clusterStage(fault, options);
}

async function clusterStage(fault: ClusterFault, options: StageOptions): Promise<Stage> {
  const { topic, dlqTopic, folder } = options;
  const cluster = await options.cluster();
  const { nodes, brokers } = cluster;
  await heal(cluster);
  for (const each of [topic, dlqTopic]) await createTopic(nodes, each);
  const proxies = fault.network ? await startProxies(nodes) : undefined;
  const s3 = fault.s3 ? await startBucket(await options.s3(), topic) : undefined;
  const backup = join(folder, 'dlq-backup');
  if (fault.backupBytes !== undefined) mkdirSync(backup, { recursive: true, mode: 0o700 });
  return {
    broker: {
      'bootstrap-servers': proxies?.addresses ?? brokers,
      ...fault.broker,
      backup: { ...(fault.broker?.backup as object), ...s3?.settings },
    },
    env: s3?.env ?? {},
    mounts:
      fault.backupBytes === undefined
        ? undefined
        : `mount -t tmpfs -o size=${fault.backupBytes},mode=700 svc '${backup}'`,
    losesEvents: fault.losesEvents ?? false,
    knowsAppendTime: true,
    run: (scene) =>
      fault.run({
        ...{ ...scene, nodes },
        leaderOf: (partition) => leaderOf(nodes, topic, partition),
        moveLeader: (partition) => moveLeader(cluster, topic, partition),
        setByteRate: (bytes) => setByteRate(brokers, bytes),
        proxies: proxies as Proxies,
        s3: s3?.front as HttpFront,
      }),
    backupFolder: (pid) => (fault.backupBytes ? join(`/proc/${pid}/root`, backup) : backup),
    read: () => readTopics(cluster.jars, brokers, [topic, dlqTopic]),
    stored: () => s3?.stored() ?? [],
    async close() {
      await proxies?.close();
      await s3?.front.close();
      // A node that was killed looks through all its partitions when it starts. One that is still away does not matter.
      await deleteTopics(nodes, [topic, dlqTopic]).catch(() => {});
    },
  };
}

async function mockStage(fault: MockFault, options: StageOptions): Promise<Stage> {
  const { topic, dlqTopic, folder } = options;
  const mock = await options.mock();
  for (const each of [topic, dlqTopic]) await mock.tell(`topic ${each} ${partitionCount}`);
  return {
    broker: { 'bootstrap-servers': mock.brokers, ...fault.broker },
    ...{ env: {}, mounts: undefined, losesEvents: false },
    knowsAppendTime: false,
    run: (scene) => fault.run({ ...scene, mock }),
    backupFolder: () => join(folder, 'dlq-backup'),
    async read() {
      const rows = await mock.tell(`read ${topic} ${dlqTopic}`);
      return rows.map((row) => {
        const [name = '', partition, appendedAt, eventId = '', value = ''] = row.split('\t');
        const place = { topic: name, partition: Number(partition), appendedAt: Number(appendedAt) };
        return { ...place, eventId, ...callIn(value) };
      });
    },
    stored: () => [],
    async close() {
      await mock.tell('clear');
      await mock.tell('rtt 0');
    },
  };
}

/** All nodes run and know each other. */
async function heal({ nodes }: KafkaCluster): Promise<void> {
  for (const node of nodes) {
    node.resume();
    if (!node.isRunning) node.launch();
  }
  await Promise.all(nodes.map((node) => node.ready()));
}

async function startBucket(server: S3Server, bucket: string) {
  if (server.local === null) throw new Error('the S3 server has to be ours');
  const folder = join(bucketsFolder(server.local), bucket);
  mkdirSync(folder);
  const front = await startHttpFront(server.endpoint);
  return {
    front,
    settings: { 's3-enabled': true, 's3-bucket': bucket, 's3-endpoint': front.url, 's3-region': 'us-east-1' },
    env: { AWS_ACCESS_KEY_ID: server.accessKey, AWS_SECRET_ACCESS_KEY: server.secretKey },
    stored: () => storedEvents(folder),
  };
}
