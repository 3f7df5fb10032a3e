// Facts shared by the configuration, the management server and the Kafka clients.

/** Shorter bearer tokens can be guessed. */
export const minTokenLength = 16;

/** Ids of the specification, and that of the console; `management.endpoints.web.exposure.include` lists them, or `*`. */
export const endpointIds = [
  ...(['health', 'info', 'metrics', 'prometheus', 'svc-metrics', 'svc-outbox'] as const),
  'svc-console',
] as const;
export type EndpointId = (typeof endpointIds)[number];

/** Actions on a process; `management.actions.exclude` disables single ones. */
export const actionIds = [
  'backup-drain',
  'circuit-breaker-reset',
  'dlq-recover',
  'keys-invalidate',
  'outbox-replay',
] as const;

/** Access to the details of the health endpoint. `when-authorized`: requests with the token; others get the bare status. */
export const showDetails = ['always', 'never', 'when-authorized'] as const;
export type ShowDetails = (typeof showDetails)[number];

/** As reports show them; `svc.circuit.state` is the index in this list. */
export const circuitStates = ['CLOSED', 'OPEN', 'HALF-OPEN'] as const;
export type CircuitState = (typeof circuitStates)[number];

/** Compression of records: the values of `svc.broker.compression`. */
export const compressions = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;
export type KafkaCompression = (typeof compressions)[number];

/** The properties of a client. Each row of `clients` has all of them. */
interface ClientTraits {
  /** Sends to Kafka: there are servers and a cluster, and worker ids can be leased. */
  readonly isKafka: boolean;
  /** Writes topic files of JSON texts below `svc.broker.file.path`. */
  readonly isFiles: boolean;
  /** Events never leave the process. */
  readonly staysInMemory: boolean;
  /** Codecs that would need an unmaintained package. */
  readonly cannotCompress: readonly KafkaCompression[];
  /** Where events go, for people; empty: unknown. */
  addresses(broker: { bootstrapServers: readonly string[]; file: { path: string } }): readonly string[];
}

const ownClient: ClientTraits = {
  ...{ isKafka: false, isFiles: false, staysInMemory: false, cannotCompress: [] },
  addresses: () => [],
};
const kafkaClient: ClientTraits = {
  ...ownClient,
  ...{ isKafka: true, addresses: ({ bootstrapServers }) => bootstrapServers },
};

/** The values of `svc.broker.client`. A new one needs a row here and one in `start/adapters.ts`. */
const clients = {
  kafkajs: { ...kafkaClient, cannotCompress: ['snappy', 'lz4'] },
  platformatic: kafkaClient,
  file: { ...ownClient, isFiles: true, addresses: ({ file }) => [file.path] },
  memory: { ...ownClient, staysInMemory: true },
} as const satisfies Readonly<Record<string, ClientTraits>>;
export type ClientName = keyof typeof clients;
export const clientNames = Object.keys(clients) as readonly ClientName[];

/** @param name may be that of an application's own broker */
export const clientOf = (name: string): ClientTraits =>
  Object.hasOwn(clients, name) ? clients[name as ClientName] : ownClient;

export const usualClient = (hasServers: boolean): ClientName => (hasServers ? 'kafkajs' : 'file');

/** SASL mechanisms with a password. */
export const passwordMechanisms = ['plain', 'scram-sha-256', 'scram-sha-512'] as const;

/**
 * The default ports of the management server. svc starts before the application, so none of them may be one that an application
 * or an exporter listens on. None is assigned by IANA or in Prometheus' list of default ports (9100 to 9999, and some higher
 * ones).
 */
export const usualPorts = { first: 17_820, count: 10 } as const;

/** A key that configured rules or marks need. DOWN: events with such fields are refused. */
export interface KeyHealth {
  /** `configuration`, `aws-kms`, `vault-transit`, … */
  readonly provider: string;
  /** The name that rules use. */
  readonly keyId: string;
  readonly status: 'UP' | 'DOWN';
  /** One line: why the key is DOWN; for an UP key, why it cannot be replaced at present. */
  readonly error?: string;
}
