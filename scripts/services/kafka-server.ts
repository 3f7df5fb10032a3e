import { setTimeout as sleep } from 'node:timers/promises';
import { describeCluster } from './describe-cluster.ts';
import type { Instance } from './instances.ts';

/** A Kafka that answers, and what can be done to it. */
export interface KafkaServer {
  readonly how: 'given' | 'jars' | 'docker';
  readonly brokers: readonly string[];
  /** Where its data and log are; `null` for one that is not ours. */
  readonly instance: Instance | null;
  /** `host:port` of SASL over TLS, where it was asked for. */
  readonly secureBroker: string | null;
  /** Kafka's own console consumer, ready to run. */
  consoleConsumer(args: readonly string[]): { program: string; args: string[] };
  /** `null` for brokers named by KAFKA_BROKERS: they are not ours to stop. */
  readonly controls: KafkaControls | null;
  /** Ends it and removes its data; brokers that are not ours are left alone. */
  stop(): Promise<void>;
}

export interface KafkaControls {
  /** Ends the broker at once, as a crash does (SIGKILL). Its data stay. */
  kill(): Promise<void>;
  /** Freezes the broker (SIGSTOP): once this resolves, connections stay open and nothing answers. */
  pause(): Promise<void>;
  /** Ends `pause` (SIGCONT). */
  resume(): Promise<void>;
  /** Starts the broker again on the same port with the same data, after a `kill` where it still runs; waits for its answer. */
  restart(): Promise<void>;
}

export interface StartOptions {
  /** The server outlives this process and is ended by `services down`. Default: it ends with this process, however that ends. */
  readonly keep?: boolean;
  readonly log?: (line: string) => void;
}

export interface WaitOptions {
  readonly timeoutMs: number;
  /** Asked between tries: a reason to stop waiting, such as an exit of the process. */
  readonly failed?: () => string | null;
  /** The cluster that must answer: another run could hold the port. */
  readonly clusterId?: string;
  /** How many brokers it must tell of. Default: one. */
  readonly brokerCount?: number;
}

/** Waits until a broker tells of a cluster with a broker in it. Its port is open long before that. */
export async function waitForKafka(address: string, options: WaitOptions): Promise<void> {
  const { timeoutMs, failed } = options;
  const end = Date.now() + timeoutMs;
  for (;;) {
    const problem = await describeCluster(address).then(
      ({ brokers, clusterId }) => {
        if (clusterId !== (options.clusterId ?? clusterId)) return 'another Kafka answers there';
        const { brokerCount = 1 } = options;
        return brokers.length >= brokerCount
          ? null
          : `${brokers.length} brokers of ${brokerCount} have joined`;
      },
      (error: Error) => error.message,
    );
    if (problem === null) return;
    const reason = failed?.() ?? null;
    if (reason !== null) throw new Error(reason);
    if (Date.now() > end)
      throw new Error(`Kafka at ${address} was not ready within ${timeoutMs} ms: ${problem}`);
    await sleep(50);
  }
}
