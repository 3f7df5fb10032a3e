import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Instance } from './instances.ts';
import { ensureKafkaArchive } from './kafka-archive.ts';
import { makeKafkaData } from './kafka-data.ts';
import { ensureKafkaJars, type KafkaJars } from './kafka-jars.ts';
import { createKafkaNode } from './kafka-node.ts';
import type { StartOptions } from './kafka-server.ts';
import { clusterNodeProperties, loggingProperties } from './kafka-settings.ts';
import { freePorts } from './ports.ts';
import { type StartingInstance, startInstance } from './start-instance.ts';

/** One node of the cluster, broker and controller in one, and what can be done to it. */
export interface ClusterNode {
  readonly id: number;
  /** `host:port` on which it listens. */
  readonly address: string;
  /** The second listener: where it listens, and under which port of 127.0.0.1 it sends clients there. */
  readonly proxied: { readonly address: string; readonly advertisedPort: number };
  readonly isRunning: boolean;
  /** SIGKILL. Its data stay. */
  kill(): Promise<void>;
  /** SIGSTOP: once this resolves, connections stay open and nothing answers. */
  pause(): Promise<void>;
  resume(): void;
  /** Starts the process again, on the same ports with the same data. */
  launch(): void;
  /** Waits until it answers and knows of `brokerCount` brokers. Default: all. */
  ready(brokerCount?: number): Promise<void>;
}

/** Three nodes of Apache Kafka: replication factor 3, `min.insync.replicas=2`, and a quick fail-over. */
export interface KafkaCluster {
  readonly brokers: readonly string[];
  readonly nodes: readonly ClusterNode[];
  readonly instance: Instance;
  readonly jars: KafkaJars;
  /** Ends it and removes its data. */
  stop(): Promise<void>;
}

const NODE_COUNT = 3;

/** Starts a cluster that is ours alone. Throws Unavailable without Java or Maven. */
export async function startKafkaCluster(options: StartOptions = {}): Promise<KafkaCluster> {
  const jars = await ensureKafkaJars(options.log ?? (() => {}));
  const { keep = false } = options;
  return startInstance('kafka3', 'jars', (starting) => startNodes(jars, starting, keep));
}

async function startNodes(jars: KafkaJars, starting: StartingInstance, keep: boolean): Promise<KafkaCluster> {
  const { guard } = starting;
  const ports = await freePorts(NODE_COUNT * 4);
  const settings = Array.from({ length: NODE_COUNT }, (_, index) => {
    const [broker, controller, proxied, advertised] = ports.slice(index * 4) as [
      number,
      number,
      number,
      number,
    ];
    return { id: index + 1, broker, controller, proxied, advertised };
  });
  const archive = await ensureKafkaArchive(jars);
  let clusterId: string | undefined;
  for (const { id } of settings) {
    const folder = join(starting.folder, `node${id}`);
    await mkdir(folder);
    await writeFile(join(folder, 'server.properties'), clusterNodeProperties(folder, id, settings));
    await writeFile(join(folder, 'log4j2.properties'), loggingProperties('info'));
    clusterId = await makeKafkaData(
      jars,
      join(folder, 'data'),
      {},
      { nodeId: id, ...(clusterId && { clusterId }) },
    );
  }
  const nodes = settings.map(({ id, broker, proxied, advertised }): ClusterNode & { pid: number } => {
    const address = `127.0.0.1:${broker}`;
    const folder = join(starting.folder, `node${id}`);
    const node = createKafkaNode({ jars, guard, folder, address, maxHeapMb: 256, archive });
    return {
      id,
      address,
      proxied: { address: `127.0.0.1:${proxied}`, advertisedPort: advertised },
      get pid() {
        return node.pid ?? 0;
      },
      get isRunning() {
        return node.isRunning;
      },
      kill: node.kill,
      pause: node.pause,
      resume: node.resume,
      launch: node.launch,
      ready: (brokerCount = NODE_COUNT) => node.ready({ ...(clusterId && { clusterId }), brokerCount }),
    };
  });
  for (const node of nodes) node.launch();
  const brokers = nodes.map(({ address }) => address);
  const [pid = 0, ...otherPids] = nodes.map((node) => node.pid);
  await starting.save({
    ...{ pid, otherPids, address: brokers.join(',') },
    ports: Object.fromEntries(settings.map(({ id, broker }) => [`broker${id}`, broker])),
  });
  await Promise.all(nodes.map((node) => node.ready()));
  await starting.done(keep);
  const stop = async (): Promise<void> => {
    // Nodes that were started again are other processes than those that were saved.
    await Promise.all(nodes.map((node) => node.kill()));
    await starting.stop();
  };
  return { brokers, nodes, instance: starting.instance, jars, stop };
}
