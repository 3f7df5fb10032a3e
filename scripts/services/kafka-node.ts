import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lastLines } from './commands.ts';
import type { Guard } from './guard.ts';
import type { KafkaJars } from './kafka-jars.ts';
import { type WaitOptions, waitForKafka } from './kafka-server.ts';
import { pauseGroup, signalGroup } from './processes.ts';
import { PortTaken } from './start-instance.ts';

export const FAST_JVM = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'];

const READY_TIMEOUT_MS = 60_000;

export interface KafkaNodeOptions {
  readonly jars: KafkaJars;
  readonly guard: Guard;
  /** With `server.properties`, `log4j2.properties`, and the formatted data folder that the former names. */
  readonly folder: string;
  /** `host:port` on which it answers. */
  readonly address: string;
  readonly maxHeapMb: number;
  /** Of `ensureKafkaArchive`. */
  readonly archive?: string | null;
  /** More options of the JVM. */
  readonly jvm?: readonly string[];
}

/** One process of Apache Kafka. */
export interface KafkaNode {
  readonly pid: number | null;
  readonly isRunning: boolean;
  /** Starts the process; `ready` waits for its answer. */
  launch(): void;
  /**
   * Resolves once it answers and all its listeners are open. Rejects with PortTaken where a port was taken meanwhile, and with
   * the end of its log where it did not start.
   */
  ready(options: Pick<WaitOptions, 'clusterId' | 'brokerCount'>): Promise<void>;
  /** Ends it at once (SIGKILL), and waits for the end. */
  kill(): Promise<void>;
  /** Ends it in order (SIGTERM), and waits for the end. */
  end(): Promise<void>;
  /** Freezes it (SIGSTOP): once this resolves, connections stay open and nothing answers. */
  pause(): Promise<void>;
  /** Ends `pause` (SIGCONT). */
  resume(): void;
}

export function createKafkaNode(options: KafkaNodeOptions): KafkaNode {
  const { jars, guard, folder, address, maxHeapMb, archive } = options;
  const logFile = join(folder, 'kafka.log');
  let child: ChildProcess | undefined;
  let logged = 0;
  const isRunning = (): boolean =>
    child !== undefined && child.exitCode === null && child.signalCode === null;
  const signal = (name: NodeJS.Signals): void => {
    if (child?.pid !== undefined) signalGroup(child.pid, name);
  };

  const endBy = async (name: NodeJS.Signals): Promise<void> => {
    if (child === undefined || !isRunning()) return;
    const ended = once(child, 'exit');
    child.ref();
    signal(name);
    await ended;
  };

  return {
    get pid() {
      return child?.pid ?? null;
    },
    get isRunning() {
      return isRunning();
    },
    launch() {
      logged = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;
      const logging = `-Dlog4j2.configurationFile=${join(folder, 'log4j2.properties')}`;
      const more = [...(archive ? [`-XX:SharedArchiveFile=${archive}`] : []), ...(options.jvm ?? [])];
      const jvm = ['-Xms128m', `-Xmx${maxHeapMb}m`, ...FAST_JVM, ...more, logging, '-cp', jars.classPath];
      child = guard.start(jars.java, [...jvm, 'kafka.Kafka', join(folder, 'server.properties')], logFile);
    },
    async ready(wait) {
      const end = Date.now() + READY_TIMEOUT_MS;
      try {
        const failed = (): string | null => (isRunning() ? null : 'Kafka ended while it started');
        await waitForKafka(address, { timeoutMs: READY_TIMEOUT_MS, failed, ...wait });
        // The first listener answers before Kafka opens the next one. If that port is taken, Kafka ends.
        while (!(await readFile(logFile)).subarray(logged).includes('Kafka Server started')) {
          if (!isRunning()) throw new Error('Kafka ended while it started');
          if (Date.now() > end) throw new Error(`Kafka did not open all listeners in ${READY_TIMEOUT_MS} ms`);
          await sleep(20);
        }
      } catch (error) {
        signal('SIGKILL');
        const output = (await readFile(logFile).catch(() => Buffer.alloc(0))).subarray(logged).toString();
        if (/Address already in use/.test(output))
          throw new PortTaken(`a port of ${address} was taken meanwhile`);
        throw new Error(`${(error as Error).message}; the end of its log:\n${lastLines(output)}`);
      }
    },
    kill: () => endBy('SIGKILL'),
    end: () => endBy('SIGTERM'),
    async pause() {
      if (child?.pid !== undefined) await pauseGroup(child.pid);
    },
    resume: () => signal('SIGCONT'),
  };
}
