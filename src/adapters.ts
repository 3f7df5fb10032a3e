import type { Logger } from './observe/logger.ts';
import type { Broker, SendResult } from './publish/broker.ts';

/** What every broker adapter is made from; each takes what it needs. */
export interface BrokerSettings {
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly requestTimeoutMs: number;
  readonly connectionTimeoutMs: number;
  readonly tls?: TlsSettings | undefined;
  readonly sasl?: SaslSettings | undefined;
  /** Directory of the `file` broker. */
  readonly directory: string;
  readonly logger: Logger;
}

export interface TlsSettings {
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly serverName?: string | undefined;
}

export interface SaslSettings {
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  readonly username: string;
  readonly password: string;
}

type Load = (settings: BrokerSettings) => Promise<Broker>;

/** The one place that names adapters. A new broker is one line here, one folder under `adapters/`, one call of the contract suite. */
const brokers: Record<string, Load> = {
  kafkajs: async (settings) =>
    (await import('./adapters/kafkajs/kafkajs-broker.ts')).createKafkajsBroker(settings),
  file: async (settings) => (await import('./adapters/file/file-broker.ts')).createFileBroker(settings),
  memory: async () => (await import('./adapters/memory/memory-broker.ts')).createMemoryBroker(),
};

/** A broker whose adapter and vendor are loaded at its first use, so that start-up pays for neither. */
export function openBroker(name: string, settings: BrokerSettings): Broker {
  let loading: Promise<Broker> | undefined;
  const load = (): Promise<Broker> => {
    loading ??= (brokers[name] as Load)(settings);
    return loading;
  };
  const orFailure = async (use: (broker: Broker) => Promise<SendResult>): Promise<SendResult> => {
    try {
      return await use(await load());
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const message = `the broker client "${name}" could not be loaded: ${reason}`;
      return { ok: false, failure: { kind: 'fatal', cause: 'AdapterNotLoaded', message } };
    }
  };
  return {
    name,
    connect: () => orFailure((broker) => broker.connect()),
    send: (topic, partition, records) => orFailure((broker) => broker.send(topic, partition, records)),
    partitionsFor: async (topic) => (await load()).partitionsFor(topic),
    describe: async () => (await load()).describe(),
    close: async (deadlineMs) => {
      if (loading !== undefined) await (await loading).close(deadlineMs);
    },
  };
}
