import { ensureKafkaArchive } from './kafka-archive.ts';
import { prepareKafkaNode } from './kafka-data.ts';
import { ensureKafkaJars, type KafkaJars } from './kafka-jars.ts';
import { createKafkaNode, FAST_JVM } from './kafka-node.ts';
import type { KafkaServer, StartOptions } from './kafka-server.ts';
import type { KafkaSecurity } from './kafka-settings.ts';
import { type StartingInstance, startInstance } from './start-instance.ts';

/** Starts one node of Apache Kafka on Java, with ports, data and log of its own. Throws Unavailable without Java or Maven. */
export async function startKafkaFromJars(
  options: StartOptions & { readonly security?: KafkaSecurity } = {},
): Promise<KafkaServer> {
  const jars = await ensureKafkaJars(options.log ?? (() => {}));
  const { keep = false, security } = options;
  return startInstance(security ? 'kafka-secure' : 'kafka', 'jars', (starting) =>
    startNode(jars, starting, keep, security),
  );
}

/** Kafka's console consumer from the jars, for any Kafka. */
export async function consoleConsumerFromJars(
  log: (line: string) => void,
): Promise<KafkaServer['consoleConsumer']> {
  const jars = await ensureKafkaJars(log);
  return (args) => consoleConsumer(jars, args);
}

/** The command line of the console consumer. */
export function consoleConsumer(
  jars: KafkaJars,
  args: readonly string[],
): { program: string; args: string[] } {
  // Its standard output is for records alone, and that is where log4j writes without a configuration.
  const jvm = ['-Xmx256m', ...FAST_JVM, '-Dlog4j2.level=OFF', '-cp', jars.classPath];
  return { program: jars.java, args: [...jvm, 'org.apache.kafka.tools.consumer.ConsoleConsumer', ...args] };
}

async function startNode(
  jars: KafkaJars,
  starting: StartingInstance,
  keep: boolean,
  security?: KafkaSecurity,
): Promise<KafkaServer> {
  const { folder, guard } = starting;
  const archive = await ensureKafkaArchive(jars);
  const { ports, address, clusterId } = await prepareKafkaNode(jars, folder, security);
  const node = createKafkaNode({ jars, guard, folder, address, maxHeapMb: 512, archive });
  node.launch();
  const secureBroker = security ? `127.0.0.1:${ports.secure}` : null;
  await starting.save({ pid: node.pid, ports, address: secureBroker ?? address });
  await node.ready({ clusterId });
  await starting.done(keep);
  return {
    how: 'jars',
    brokers: [address],
    get instance() {
      return starting.instance;
    },
    secureBroker,
    consoleConsumer: (args) => consoleConsumer(jars, args),
    controls: {
      kill: node.kill,
      pause: node.pause,
      resume: async () => node.resume(),
      restart: async () => {
        await node.kill();
        node.launch();
        await node.ready({ clusterId });
        await starting.save({ pid: node.pid });
      },
    },
    stop: starting.stop,
  };
}
