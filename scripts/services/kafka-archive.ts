import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { runCommand } from './commands.ts';
import { prepareKafkaNode } from './kafka-data.ts';
import { KAFKA_VERSION, type KafkaJars } from './kafka-jars.ts';
import { createKafkaNode } from './kafka-node.ts';
import { PortTaken, startInstance } from './start-instance.ts';

/**
 * The classes of a Kafka that runs, as this JVM keeps them (class data sharing): a start with them takes half of the
 * processor's time. Made once by a node that is started and ended in order; `null` where this JVM makes none.
 */
export async function ensureKafkaArchive(jars: KafkaJars): Promise<string | null> {
  const { stderr } = await runCommand(jars.java, ['-version'], { timeoutMs: 20_000 });
  const key = createHash('sha256').update(stderr).digest('hex').slice(0, 8);
  const folder = cacheFolder(`kafka-${KAFKA_VERSION}`, `classes-${key}`);
  const archive = join(await ensureFolder(folder, (temporary) => makeArchive(jars, temporary)), 'kafka.jsa');
  return existsSync(archive) ? archive : null;
}

function makeArchive(jars: KafkaJars, target: string): Promise<void> {
  return startInstance('kafka', 'jars', async ({ folder, guard, save, stop }) => {
    const { ports, address, clusterId } = await prepareKafkaNode(jars, folder);
    const jvm = [`-XX:ArchiveClassesAtExit=${join(target, 'kafka.jsa')}`];
    const node = createKafkaNode({ jars, guard, folder, address, maxHeapMb: 512, jvm });
    node.launch();
    await save({ pid: node.pid, ports, address });
    // A JVM that does not know the option ends at once: there is no archive then.
    await node.ready({ clusterId }).catch((error) => {
      if (error instanceof PortTaken) throw error;
    });
    await node.end();
    await stop();
  });
}
