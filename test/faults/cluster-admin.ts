import { setTimeout as sleep } from 'node:timers/promises';
import kafkajs, { type Admin } from 'kafkajs';
import { lastLines, runCommand } from '../../scripts/services/commands.ts';
import type { ClusterNode, KafkaCluster } from '../../scripts/services/kafka-cluster.ts';

export const partitionCount = 6;

const limitMs = 60_000;

/** Makes a topic whose records bear the time at which a broker appended them, and waits for its leaders. */
export function createTopic(nodes: readonly ClusterNode[], topic: string): Promise<void> {
  const configEntries = [{ name: 'message.timestamp.type', value: 'LogAppendTime' }];
  const topics = [{ topic, numPartitions: partitionCount, replicationFactor: 3, configEntries }];
  return withAdmin(nodes, async (admin) => {
    await admin.createTopics({ waitForLeaders: true, topics });
  });
}

export function deleteTopics(nodes: readonly ClusterNode[], topics: string[]): Promise<void> {
  return withAdmin(nodes, (admin) => admin.deleteTopics({ topics }));
}

export function leaderOf(
  nodes: readonly ClusterNode[],
  topic: string,
  partition: number,
): Promise<ClusterNode> {
  return withAdmin(nodes, async (admin) => {
    const leader = (await partitionsOf(admin, topic)).find(
      ({ partitionId }) => partitionId === partition,
    )?.leader;
    const node = nodes.find(({ id }) => id === leader);
    if (node === undefined) throw new Error(`partition ${partition} of ${topic} has no leader`);
    return node;
  });
}

/** kafkajs knows no quotas. */
export async function setByteRate(brokers: readonly string[], bytes: number | undefined): Promise<void> {
  const { Admin } = await import('@platformatic/kafka');
  const admin = new Admin({ clientId: 'faults', bootstrapBrokers: [...brokers] });
  const entities = [{ entityType: 'client-id', entityName: 'svc' }] as const;
  const key = 'producer_byte_rate' as const;
  const ops =
    bytes === undefined ? [{ key, remove: true as const }] : [{ key, value: bytes, remove: false as const }];
  await admin.alterClientQuotas({ entries: [{ entities: [...entities], ops }] });
  await admin.close();
}

/** Puts another replica first, and has it elected. */
export async function moveLeader(cluster: KafkaCluster, topic: string, partition: number): Promise<void> {
  const { nodes } = cluster;
  const before = await leaderOf(nodes, topic, partition);
  const replicas = [...nodes.filter((node) => node !== before), before].map(({ id }) => id);
  const partitionAssignment = [{ partition, replicas }];
  await withAdmin(nodes, (admin) =>
    admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment }] }),
  );
  await elect(cluster, topic, partition);
  for (const end = Date.now() + limitMs; Date.now() < end; await sleep(200)) {
    if ((await leaderOf(nodes, topic, partition)) !== before) return;
  }
  throw new Error(`partition ${partition} of ${topic} did not move`);
}

/** The first replica becomes the leader, by Kafka's own tool. */
async function elect({ jars, brokers }: KafkaCluster, topic: string, partition: number): Promise<void> {
  const jvm = ['-Xmx256m', '-XX:TieredStopAtLevel=1', '-Dlog4j2.level=OFF', '-cp', jars.classPath];
  const choice = ['--election-type', 'preferred', '--topic', topic, '--partition', String(partition)];
  const tool = ['org.apache.kafka.tools.LeaderElectionCommand', '--bootstrap-server', brokers.join(',')];
  const { code, stdout, stderr } = await runCommand(jars.java, [...jvm, ...tool, ...choice], {
    timeoutMs: 30_000,
  });
  if (code !== 0) throw new Error(`no election (exit code ${code}): ${lastLines(`${stdout}${stderr}`, 4)}`);
}

async function partitionsOf(admin: Admin, topic: string): Promise<kafkajs.PartitionMetadata[]> {
  return (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0]?.partitions ?? [];
}

/** Asks the first node that answers, again until it answers well. */
async function withAdmin<T>(nodes: readonly ClusterNode[], work: (admin: Admin) => Promise<T>): Promise<T> {
  const end = Date.now() + limitMs;
  for (let turn = 0; ; turn++) {
    const { address } = nodes[turn % nodes.length] as ClusterNode;
    const client = new kafkajs.Kafka({
      ...{ brokers: [address], clientId: 'svc-faults', logLevel: kafkajs.logLevel.NOTHING },
      ...{ retry: { retries: 0 }, requestTimeout: 2_000, connectionTimeout: 1_000 },
    });
    const admin = client.admin();
    try {
      await admin.connect();
      return await work(admin);
    } catch (error) {
      if (Date.now() > end) throw error;
      await sleep(200);
    } finally {
      void admin.disconnect().catch(() => {});
    }
  }
}
