import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lastLines } from './commands.ts';
import { type Guard, guardFolder } from './guard.ts';
import { newInstance, removeInstance, saveInstance } from './instances.ts';
import { makeKafkaData } from './kafka-data.ts';
import { ensureKafkaJars, type KafkaJars } from './kafka-jars.ts';
import { type KafkaServer, type StartOptions, waitForKafka } from './kafka-server.ts';
import {
  type KafkaPorts,
  type KafkaSecurity,
  loggingProperties,
  serverProperties,
} from './kafka-settings.ts';
import { freePorts } from './ports.ts';
import { signalGroup } from './processes.ts';

const READY_TIMEOUT_MS = 60_000;
const FAST_JVM = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];

class PortTaken extends Error {}

/** Starts one node of Apache Kafka on Java, with ports, data and log of its own. Throws Unavailable without Java or Maven. */
export async function startKafkaFromJars(
  options: StartOptions & { readonly security?: KafkaSecurity } = {},
): Promise<KafkaServer> {
  const jars = await ensureKafkaJars(options.log ?? (() => {}));
  for (let tries = 1; ; tries++) {
    try {
      return await startNode(jars, options.keep ?? false, options.security);
    } catch (error) {
      if (!(error instanceof PortTaken) || tries === 3) throw error;
    }
  }
}

/** Kafka's console consumer from the jars, for any Kafka. */
export async function consoleConsumerFromJars(
  log: (line: string) => void,
): Promise<KafkaServer['consoleConsumer']> {
  const jars = await ensureKafkaJars(log);
  return (args) => consoleConsumer(jars, args);
}

function consoleConsumer(jars: KafkaJars, args: readonly string[]): { program: string; args: string[] } {
  // Its standard output is for records alone, and that is where log4j writes without a configuration.
  const jvm = ['-Xmx256m', ...FAST_JVM, '-Dlog4j2.level=OFF', '-cp', jars.classPath];
  return { program: jars.java, args: [...jvm, 'org.apache.kafka.tools.consumer.ConsoleConsumer', ...args] };
}

async function startNode(jars: KafkaJars, keep: boolean, security?: KafkaSecurity): Promise<KafkaServer> {
  let instance = await newInstance('kafka', 'jars');
  const { folder } = instance;
  const guard = guardFolder(folder);
  const stop = async (): Promise<void> => {
    await removeInstance(instance);
    await guard.release();
  };
  try {
    const [broker, controller, secure] = (await freePorts(3)) as [number, number, number];
    const ports: KafkaPorts = security ? { broker, controller, secure } : { broker, controller };
    const address = `127.0.0.1:${broker}`;
    await writeFile(join(folder, 'server.properties'), serverProperties(folder, ports, security));
    await writeFile(join(folder, 'log4j2.properties'), loggingProperties('info'));
    const clusterId = await makeKafkaData(jars, join(folder, 'data'), security?.users);

    const start = (): Promise<ChildProcess> => startBroker(jars, guard, { folder, address, clusterId });
    let child = await start();
    const remember = async (owner: number | null): Promise<void> => {
      instance = { ...instance, owner, pid: child.pid ?? null, ports: { ...ports }, address };
      await saveInstance(instance);
    };
    await remember(keep ? null : process.pid);
    if (keep) await guard.release();

    const kill = async (): Promise<void> => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.ref();
      signalGroup(child.pid ?? 0, 'SIGKILL');
      await ended;
    };
    return {
      how: 'jars',
      brokers: [address],
      get instance() {
        return instance;
      },
      secureBroker: security ? `127.0.0.1:${secure}` : null,
      consoleConsumer: (args) => consoleConsumer(jars, args),
      controls: {
        kill,
        pause: async () => void signalGroup(child.pid ?? 0, 'SIGSTOP'),
        resume: async () => void signalGroup(child.pid ?? 0, 'SIGCONT'),
        restart: async () => {
          await kill();
          child = await start();
          await remember(instance.owner);
        },
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startBroker(
  jars: KafkaJars,
  guard: Guard,
  { folder, address, clusterId }: { folder: string; address: string; clusterId: string },
): Promise<ChildProcess> {
  const logFile = join(folder, 'kafka.log');
  const logging = `-Dlog4j2.configurationFile=${join(folder, 'log4j2.properties')}`;
  const settings = join(folder, 'server.properties');
  const child = guard.start(
    jars.java,
    ['-Xms128m', '-Xmx512m', ...FAST_JVM, logging, '-cp', jars.classPath, 'kafka.Kafka', settings],
    logFile,
  );
  try {
    const failed = (): string | null =>
      child.exitCode === null && child.signalCode === null ? null : 'Kafka ended while it started';
    await waitForKafka(address, { timeoutMs: READY_TIMEOUT_MS, clusterId, failed });
    return child;
  } catch (error) {
    if (child.exitCode === null) signalGroup(child.pid ?? 0, 'SIGKILL');
    const output = await readFile(logFile, 'utf8').catch(() => '');
    if (/Address already in use/.test(output))
      throw new PortTaken(`a port of ${address} was taken meanwhile`);
    throw new Error(`${(error as Error).message}; the end of its log:\n${lastLines(output)}`);
  }
}
