import { join } from 'node:path';
import { COMPOSE_DOWN, compose, composeCommand, requireDocker } from './docker.ts';
import { guardFolder } from './guard.ts';
import { composeProject, newInstance, removeInstance, saveInstance } from './instances.ts';
import { type KafkaServer, type StartOptions, waitForKafka } from './kafka-server.ts';
import { freePorts } from './ports.ts';

const PULL_TIMEOUT_MS = 8 * 60_000;
const READY_TIMEOUT_MS = 60_000;

/** Starts the Kafka of ops/compose.yaml as a project of its own. Throws Unavailable without a Docker daemon. */
export async function startKafkaInDocker(options: StartOptions = {}): Promise<KafkaServer> {
  await requireDocker();
  options.log?.('Apache Kafka in Docker: starting (its image is fetched the first time)');
  const [port] = (await freePorts(1)) as [number];
  const address = `127.0.0.1:${port}`;
  const fresh = await newInstance('kafka', 'docker');
  const instance = { ...fresh, ports: { broker: port }, address };
  const project = composeProject(instance);
  const env = { KAFKA_PORT: String(port) };
  const down = composeCommand(project, COMPOSE_DOWN);
  const guard = guardFolder(instance.folder, [down.program, ...down.args]);
  const run = async (...args: string[]): Promise<void> => void (await compose(project, args, env));
  const stop = async (): Promise<void> => {
    await removeInstance(instance);
    await guard.release();
  };
  try {
    await compose(project, ['up', '--detach', 'kafka'], env, PULL_TIMEOUT_MS);
    await waitForKafka(address, { timeoutMs: READY_TIMEOUT_MS });
    await saveInstance({ ...instance, owner: options.keep ? null : process.pid });
    if (options.keep) await guard.release();
    return {
      how: 'docker',
      brokers: [address],
      instance,
      secureBroker: null,
      consoleConsumer: (args) => {
        const program = join('/opt/kafka/bin', 'kafka-console-consumer.sh');
        return composeCommand(project, ['exec', '-T', 'kafka', program, ...args]);
      },
      controls: {
        kill: () => run('kill', 'kafka'),
        pause: () => run('pause', 'kafka'),
        resume: () => run('unpause', 'kafka'),
        restart: async () => {
          await run('kill', 'kafka').catch(() => {}); // it fails when the broker is down already
          await run('start', 'kafka');
          await waitForKafka(address, { timeoutMs: READY_TIMEOUT_MS });
        },
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
