import { createHash, randomBytes } from 'node:crypto';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { lastLines, runCommand } from './commands.ts';
import { KAFKA_VERSION, type KafkaJars } from './kafka-jars.ts';
import {
  type KafkaPorts,
  type KafkaSecurity,
  loggingProperties,
  serverProperties,
} from './kafka-settings.ts';
import { freePorts } from './ports.ts';

export interface PreparedNode {
  readonly ports: { broker: number; controller: number; secure?: number };
  /** `host:port` on which it will answer. */
  readonly address: string;
  readonly clusterId: string;
}

/** Writes what a node that is a cluster by itself needs into its folder: settings, with free ports, and data. */
export async function prepareKafkaNode(
  jars: KafkaJars,
  folder: string,
  security?: KafkaSecurity,
): Promise<PreparedNode> {
  const [broker, controller, secure] = (await freePorts(3)) as [number, number, number];
  const ports: KafkaPorts = security ? { broker, controller, secure } : { broker, controller };
  await writeFile(join(folder, 'server.properties'), serverProperties(folder, ports, security));
  await writeFile(join(folder, 'log4j2.properties'), loggingProperties('info'));
  const clusterId = await makeKafkaData(jars, join(folder, 'data'), security?.users);
  return { ports: { ...ports }, address: `127.0.0.1:${broker}`, clusterId };
}

/**
 * Makes the data folder that a new node needs. Kafka's own StorageTool formats one once and it is copied from then on,
 * with ids of its own: that saves a second and a half of a JVM at each start.
 * @param node of a cluster that there is already; default: the first of a new one
 * @returns the cluster's id
 */
export async function makeKafkaData(
  jars: KafkaJars,
  data: string,
  scramUsers: Readonly<Record<string, string>> = {},
  node: { clusterId?: string; nodeId?: number } = {},
): Promise<string> {
  const { clusterId = kafkaId(), nodeId = 1 } = node;
  const users = Object.entries(scramUsers);
  const kind = createHash('sha256').update(JSON.stringify(users)).digest('hex').slice(0, 8);
  const folder = cacheFolder(`kafka-${KAFKA_VERSION}`, `formatted-${kind}`);
  await ensureFolder(folder, (temporary) => format(jars, temporary, users));
  await mkdir(data, { recursive: true });
  await copyFile(join(folder, 'data', 'bootstrap.checkpoint'), join(data, 'bootstrap.checkpoint'));
  const meta = (await readFile(join(folder, 'data', 'meta.properties'), 'utf8'))
    .replace(/^cluster\.id=.*$/m, `cluster.id=${clusterId}`)
    .replace(/^node\.id=.*$/m, `node.id=${nodeId}`)
    .replace(/^directory\.id=.*$/m, `directory.id=${kafkaId()}`);
  await writeFile(join(data, 'meta.properties'), meta);
  return clusterId;
}

async function format(jars: KafkaJars, folder: string, users: [string, string][]): Promise<void> {
  const settings = join(folder, 'server.properties');
  const logging = join(folder, 'log4j2.properties');
  await writeFile(settings, serverProperties(folder, { broker: 1, controller: 2 }));
  await writeFile(logging, loggingProperties('error'));
  const scram = users.flatMap(([user, password]) => [
    '--add-scram',
    `SCRAM-SHA-512=[name=${user},password=${password}]`,
  ]);
  const { code, stdout, stderr } = await runCommand(
    jars.java,
    [
      ...['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', `-Dlog4j2.configurationFile=${logging}`],
      ...['-cp', jars.classPath, 'kafka.tools.StorageTool', 'format', '-t', kafkaId(), '-c', settings],
      ...scram,
    ],
    { timeoutMs: 60_000 },
  );
  if (code !== 0)
    throw new Error(`Kafka could not format a data folder:\n${lastLines(`${stdout}\n${stderr}`)}`);
}

/** A random id as Kafka writes them: 16 bytes in base64url, none of them with a leading dash. */
function kafkaId(): string {
  for (;;) {
    const id = randomBytes(16).toString('base64url');
    if (!id.startsWith('-')) return id;
  }
}
