import type { Logger } from './observe/logger.ts';
import type { KeyProvider } from './protect/key-provider.ts';
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

/** What every key provider is made from, as `svc.pii.kms` has it; each takes what it needs. Left out: its own default. */
export interface KeyProviderSettings {
  /** What the service calls a key, by the name that rules use. Of a list the first makes new keys, all decrypt. */
  readonly keys?: Readonly<Record<string, readonly string[]>> | undefined;
  readonly region?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly encryptionContext?: Readonly<Record<string, string>> | undefined;
  readonly address?: string | undefined;
  readonly engine?: 'kv-v1' | 'kv-v2' | 'transit' | undefined;
  readonly mount?: string | undefined;
  readonly field?: string | undefined;
  readonly namespace?: string | undefined;
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly caFile?: string | undefined;
}

type LoadKeyProvider = (settings: KeyProviderSettings) => Promise<KeyProvider>;

/** By the values of `svc.pii.kms.type`. */
const keyProviders: Record<'aws' | 'vault', LoadKeyProvider> = {
  aws: async (settings) =>
    (await import('./adapters/aws-kms/aws-kms-key-provider.ts')).createAwsKmsKeyProvider(settings),
  vault: async (settings) =>
    (await import('./adapters/vault/vault-key-provider.ts')).createVaultKeyProvider(settings),
};

/** Rejects with an `SvcError` where the settings cannot work. The vendor's package is loaded at the first call of the provider. */
export function openKeyProvider(name: 'aws' | 'vault', settings: KeyProviderSettings): Promise<KeyProvider> {
  return keyProviders[name](settings);
}
