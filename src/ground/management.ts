// What the configuration and what it sets up, the management server and clients of Kafka, both have to know.

/** Shorter bearer tokens can be guessed. */
export const minTokenLength = 16;

/** Ids of the specification, and that of the page for people; `management.endpoints.web.exposure.include` lists them, or `*`. */
export const endpointIds = [
  ...(['health', 'info', 'metrics', 'prometheus', 'svc-metrics', 'svc-outbox'] as const),
  'svc-console',
] as const;
export type EndpointId = (typeof endpointIds)[number];

/** What a request may do to a process; `management.actions.exclude` switches single ones off. */
export const actionIds = [
  'backup-drain',
  'circuit-breaker-reset',
  'dlq-recover',
  'keys-invalidate',
  'outbox-replay',
] as const;
export type ActionId = (typeof actionIds)[number];

/** Who sees the details of the health endpoint. `when-authorized`: requests with the token; the rest see the bare status. */
export const showDetails = ['always', 'never', 'when-authorized'] as const;
export type ShowDetails = (typeof showDetails)[number];

/** As reports show it; `svc.circuit.state` is its position in this list. */
export const circuitStates = ['CLOSED', 'OPEN', 'HALF-OPEN'] as const;
export type CircuitState = (typeof circuitStates)[number];

/** How records can be compressed, by the values of `svc.broker.compression`. */
export const compressions = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;
export type KafkaCompression = (typeof compressions)[number];

/** What a client is asked about: each row of `clients` has all answers. */
interface ClientTraits {
  /** It sends to Kafka: there are servers, a cluster, and worker ids can be leased. */
  readonly isKafka: boolean;
  /** It writes topic files, of JSON texts, below `svc.broker.file.path`. */
  readonly isFiles: boolean;
  /** Its events never leave the process. */
  readonly staysInMemory: boolean;
  /** What it would need a package for that nobody maintains. */
  readonly cannotCompress: readonly KafkaCompression[];
  /** Where its events go, for people; empty: not known. */
  addresses(broker: { bootstrapServers: readonly string[]; file: { path: string } }): readonly string[];
}

/** A broker that the application registers. */
const ownClient: ClientTraits = {
  ...{ isKafka: false, isFiles: false, staysInMemory: false, cannotCompress: [] },
  addresses: () => [],
};
const kafkaClient: ClientTraits = {
  ...ownClient,
  ...{ isKafka: true, addresses: ({ bootstrapServers }) => bootstrapServers },
};

/** The values of `svc.broker.client`. A new one is a row here, and one in `start/adapters.ts`. */
export const clients = {
  kafkajs: { ...kafkaClient, cannotCompress: ['snappy', 'lz4'] },
  platformatic: kafkaClient,
  file: { ...ownClient, isFiles: true, addresses: ({ file }) => [file.path] },
  memory: { ...ownClient, staysInMemory: true },
} as const satisfies Readonly<Record<string, ClientTraits>>;
export type ClientName = keyof typeof clients;
export const clientNames = Object.keys(clients) as readonly ClientName[];

/** @param name of a broker of the application's own as well */
export const clientOf = (name: string): ClientTraits =>
  Object.hasOwn(clients, name) ? clients[name as ClientName] : ownClient;

/** The client of a configuration that names none. */
export const usualClient = (hasServers: boolean): ClientName => (hasServers ? 'kafkajs' : 'file');

/** How a password signs in to the brokers. */
export const passwordMechanisms = ['plain', 'scram-sha-256', 'scram-sha-512'] as const;
export const saslMechanisms = [...passwordMechanisms, 'oauthbearer'] as const;

/**
 * Where the management server listens unless configured otherwise, and how many ports it tries. svc starts before the application, so
 * none of them may be one that an application or its exporters listen on: IANA has assigned none, and Prometheus' list of default
 * ports (9100 to 9999, and some higher ones) has none.
 */
export const usualPorts = { first: 17_820, count: 10 } as const;
