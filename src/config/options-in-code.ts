// Made by scripts/generate-config-docs.ts: change the options in src/config/schema, not this file.
import type { EncryptionKeyConfig } from './check/pii-keys.ts';

/** The options as `defineConfig` shows them in an editor. Those with a form of their own are in `define-config.ts`. */
export interface OptionsInCode {
  readonly svc: Svc;
  readonly management: Management;
}

interface Svc {
  /** Switches svc on. When false nothing is patched and nothing is loaded. Default: true. */
  readonly enabled: boolean;
  /** When true the process does not start where svc cannot work: it ends with exit code 78 and a line that says why (a wrong configuration, a Node that is too old, a target that cannot be patched, or whose compiled file is loaded in its place). In the environment it counts even where the file cannot be read. Default: false. */
  readonly required: boolean;
  readonly aop: SvcAop;
  readonly service: SvcService;
  readonly telemetry: SvcTelemetry;
  readonly log: SvcLog;
  readonly shutdown: SvcShutdown;
  readonly idGenerator: SvcIdGenerator;
  readonly broker: SvcBroker;
  readonly retry: SvcRetry;
  readonly outbox: SvcOutbox;
  readonly security: SvcSecurity;
  readonly context: SvcContext;
  readonly serde: SvcSerde;
  readonly pii: SvcPii;
}

interface SvcAop {
  /** Captures calls. When false only what the application publishes itself with publish() becomes an event. Default: true. */
  readonly enabled: boolean;
}

interface SvcService {
  /** Name of the service in `metadata.source.serviceName`. Default: OTEL_SERVICE_NAME, service.name of OTEL_RESOURCE_ATTRIBUTES, name in package.json of the application. */
  readonly name: string;
  /** Version of the service in `metadata.source.serviceVersion`. In YAML in quotes when it looks like a number. Default: service.version of OTEL_RESOURCE_ATTRIBUTES, version in package.json of the application. */
  readonly version: string;
}

interface SvcTelemetry {
  /** `node`: svc starts `@opentelemetry/sdk-node`, as the variables `OTEL_*` say, with the application's instrumentations. `none`: spans and metrics go to the SDK that the application starts, if any. Default: none. */
  readonly sdk: 'none' | 'node';
}

interface SvcLog {
  /** Least level of svc's own lines on standard error. Default: info. */
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'off';
  /** Form of svc's own lines on standard error: `text`, or `json`, one object a line. Default: text. */
  readonly format: 'text' | 'json';
}

interface SvcShutdown {
  /** Longest wait at the end of the process for events under way. 0 waits for none. In ms. Default: 10000. */
  readonly timeoutMs: number;
}

interface SvcIdGenerator {
  /** How event ids are made: `snowflake` numbers, or `uuidv7`: UUIDs of version 7, which need no worker ids. Default: snowflake. */
  readonly type: 'snowflake' | 'uuidv7';
  /** Worker id inside Snowflake ids. Must differ between all processes that publish. Default: derived, then leased, so that no two processes of a host share one. */
  readonly workerId: number;
  /** Folder in which processes of one host lease their worker ids. Default: a folder under the temporary folder of the system. */
  readonly leasePath: string;
  /** Where a worker id is leased: in Kafka, so that no two processes of any hosts share one, or on the host. `auto`: in Kafka where events go to Kafka. Default: auto. */
  readonly lease: 'auto' | 'host' | 'kafka';
  /** Group in Kafka whose members share the worker ids out among them. Needs the Read permission. Default: svc-workers. */
  readonly group: string;
}

interface SvcBroker {
  /** What sends the events: `kafkajs` or `platformatic` (package `@platformatic/kafka`) to Kafka, `file` to a file per topic on this machine, `memory` keeps them for tests. Default: kafkajs where svc.broker.bootstrap-servers is set, else file. */
  readonly client: 'kafkajs' | 'platformatic' | 'file' | 'memory' | (string & {});
  /** Addresses of Kafka brokers, each host:port. */
  readonly bootstrapServers: readonly string[];
  /** Topic of every event whose target names none. Default: none: required. */
  readonly topic: string;
  /** Client id as the brokers see it in their logs, metrics and quotas. Default: svc. */
  readonly clientId: string;
  /** false: an async function resolves when its event is acknowledged, after `svc.broker.max-wait-ms` at the latest. true: nothing waits. Synchronous functions never wait. Default: false. */
  readonly asyncMode: boolean;
  /** Longest wait of a captured call for the outcome of its event. Then the call returns what it returned, and the event goes on in the background; with `failOnError` it fails with `TimeoutException` (`SVC_PUBLISH_TIMEOUT`), and the event may still arrive. In ms. Default: 2000. */
  readonly maxWaitMs: number;
  /** Longest wait for the answer of a broker to one request. In ms. Default: 30000. */
  readonly requestTimeoutMs: number;
  /** Longest wait for a connection to a broker. In ms. Default: 3000. */
  readonly connectionTimeoutMs: number;
  /** Who confirms an event before it counts as published: `all` replicas in sync, the leader alone (`1`), or nobody (`0`). Less than `all` loses events when a broker fails, and nothing tells of those lost. Default: all. */
  readonly acks: 'all' | '1' | '0';
  /** How a send is compressed. `snappy` and `lz4` only with client `platformatic`; recovery reads all of them. Default: none. */
  readonly compression: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';
  /** Sends to the broker at once, each a batch for one partition. Further events wait in the buffer. In sends. Default: 8. */
  readonly maxInFlight: number;
  readonly buffer: SvcBrokerBuffer;
  readonly batch: SvcBrokerBatch;
  /** What an event may take in all, retries among it. The last two seconds (a quarter of less than eight) are for the dead letter topic and the backup, where it goes when its topic has not acknowledged it by then. In ms. Default: 30000. */
  readonly deliveryTimeoutMs: number;
  readonly file: SvcBrokerFile;
  readonly tls: SvcBrokerTls;
  readonly sasl: SvcBrokerSasl;
  /** Dead letter topic of events that could not be sent. Default: none: events go to the backup. */
  readonly dlqTopic: string;
  /** Form of a dead letter: `operations` holds the event as a text, `recovery` as an object. `svc dlq` reads both. Default: operations. */
  readonly dlqFormat: 'operations' | 'recovery';
  /** Folder of local backup files. Made when it is needed, open to its owner only (0700). Default: ./dlq-backup. */
  readonly dlqBackupPath: string;
  readonly backup: SvcBrokerBackup;
}

interface SvcBrokerBuffer {
  /** Events in memory until they are acknowledged. One more goes to the next tier at once. In events. Default: 10000. */
  readonly maxEvents: number;
  /** Bytes of events in memory until they are acknowledged. What exceeds them goes to the next tier at once. In bytes. Default: 33554432. */
  readonly maxBytes: number;
}

interface SvcBrokerBatch {
  /** Events in one send. In events. Default: 500. */
  readonly maxEvents: number;
  /** Bytes in one send; a larger event is sent alone. Keep it below message.max.bytes of the brokers (1 MB by default). In bytes. Default: 900000. */
  readonly maxBytes: number;
  /** How long an event waits at most for others to share its send, where its partition is busy or was sent to within that time; 5 ms where the last send was of one event. Then small sends to several partitions of a topic leave one after the other, within as long again. None waits where the partition has rested, or where 100 events or 128 KiB are there. With svc.broker.async-mode false: 2 ms where the last send was of 10 events or more, otherwise none. In ms. Default: 20. */
  readonly lingerMs: number;
}

interface SvcBrokerFile {
  /** Folder of the topic files of client `file`: `<path>/<topic>.ndjson`, one record a line. Default: ./svc-topics. */
  readonly path: string;
}

interface SvcBrokerTls {
  /** Encrypts the connection to the brokers. Default: false. */
  readonly enabled: boolean;
  /** PEM file with the authorities to trust instead. Default: the authorities that Node trusts. */
  readonly caFile: string;
  /** PEM file with the client certificate. Needs svc.broker.tls.key-file. */
  readonly certFile: string;
  /** PEM file with the key of the client certificate. */
  readonly keyFile: string;
  /** Name that the certificate of the broker must bear. Default: the host of the broker. */
  readonly serverName: string;
}

interface SvcBrokerSasl {
  /** How svc signs in to the brokers. `oauthbearer` takes a token, the others username and password. */
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512' | 'oauthbearer';
  /** Name to sign in with. */
  readonly username: string;
  /** Password to sign in with. Better as an environment variable than in a file. */
  readonly password: string;
  readonly oauthbearer: SvcBrokerSaslOauthbearer;
}

interface SvcBrokerSaslOauthbearer {
  /** Where svc gets its tokens (OAuth client credentials), and new ones before they expire. Needs client-id and client-secret. */
  readonly tokenEndpointUrl: string;
  /** Client id at the token endpoint. */
  readonly clientId: string;
  /** Client secret at the token endpoint. Better as an environment variable than in a file. */
  readonly clientSecret: string;
  /** Scope to ask the token endpoint for. */
  readonly scope: string;
  /** File with the token, instead of an endpoint. Read again for each connection, as Kubernetes renews it. */
  readonly tokenFile: string;
  /** The token itself, instead of an endpoint. It is not renewed. */
  readonly token: string;
  /** SASL extensions that go with the token, each name=value, such as logicalCluster=lkc-1. */
  readonly extensions: readonly string[];
}

interface SvcBrokerBackup {
  /** Backup to local files, after S3 where that is enabled too. Default: true. */
  readonly localEnabled: boolean;
  /** Backup to S3 or a compatible object store. Needs the package @aws-sdk/client-s3. Default: false. */
  readonly s3Enabled: boolean;
  /** Bucket of the S3 backup. */
  readonly s3Bucket: string;
  /** Prefix of the object keys: `<prefix>/yyyy/MM/dd/<eventId>.json`. Default: dlq-backup. */
  readonly s3Prefix: string;
  /** Region of the bucket. Credentials are found by the AWS SDK as well. Default: as the AWS SDK finds it (AWS_REGION, profile). */
  readonly s3Region: string;
  /** Address of a compatible store such as MinIO or Ceph; buckets are then named in the path. Default: AWS. */
  readonly s3Endpoint: string;
  /** What a backup file holds: `event` the event itself (`<eventId>.json`), `record` the event with reason and time (`<epoch_millis>.json`). Default: event. */
  readonly format: 'event' | 'record';
  /** Event files in the folder. Further events are appended to segment files, many events a file. In files. Default: 10000. */
  readonly maxFiles: number;
  /** Most that the local backup may hold. Further events are lost, with the alert. In bytes. Default: 10737418240. */
  readonly maxBytes: number;
  readonly drain: SvcBrokerBackupDrain;
}

interface SvcBrokerBackupDrain {
  /** When the cluster is back, a running process sends its local backup to the original topics by itself. Default: true. */
  readonly enabled: boolean;
  /** How many events of the backup are sent a second. With `drain.order: key` only those that a process left which is gone, and that no new event waits behind; the others are sent as fast as the cluster takes them. In events/s. Default: 500. */
  readonly rate: number;
  /** Whether events keep the order of their key over an outage. `key`: while events of a partition wait in the local backup, later ones of it go behind them. `none`: later ones go to the topic at once, and those in the backup arrive after them. Default: key. */
  readonly order: 'key' | 'none';
}

interface SvcRetry {
  /** Retries failed sends. When false a failed event goes to the next tier at once. Default: true. */
  readonly enabled: boolean;
  /** Retries after the first try, which is immediate. Events behind wait, so that their order is kept. Default: 3. */
  readonly maxAttempts: number;
  /** Wait before the first retry. In ms. Default: 1000. */
  readonly initialInterval: number;
  /** Growth of the wait from one retry to the next: 1 s, 2 s, 4 s by default. Default: 2. */
  readonly multiplier: number;
  /** Longest wait between retries. In ms. Default: 10000. */
  readonly maxInterval: number;
  /** Makes each wait up to 20 % shorter or longer, so that many processes do not come back at once. Default: false. */
  readonly jitter: boolean;
}

interface SvcOutbox {
  /** Transactional outbox: targets with `outbox` store their events in the transaction of the call, and they are sent from there. Default: false. */
  readonly enabled: boolean;
  readonly datasource: SvcOutboxDatasource;
  /** Table of the outbox; with its schema as in `app.svc_outbox_events`. Default: svc_outbox_events. */
  readonly table: string;
  /** When svc makes the table where there is none: `embedded` in SQLite only, `always`, or `never`. Else a missing table is an error. Default: embedded. */
  readonly initializeSchema: 'embedded' | 'always' | 'never';
  /** What becomes of a call outside any transaction: `error` lets it fail, `autocommit` stores its event by itself; so of a call whose own transaction commits before what it returns is known. Default: error. */
  readonly onNoTransaction: 'error' | 'autocommit';
  /** Sends the rows from this process; false leaves that to `svc relay`, or to another tool such as Debezium. Default: true. */
  readonly publisherEnabled: boolean;
  /** Wait between two looks at the table. In ms. Default: 1000. */
  readonly pollIntervalMs: number;
  /** Rows taken at once. In rows. Default: 100. */
  readonly batchSize: number;
  /** More rows are taken at once while many wait. Default: true. */
  readonly dynamicBatchingEnabled: boolean;
  /** Tries of one row that may fail by its own fault; then it is FAILED. While the broker is away no row loses a try. Default: 3. */
  readonly maxRetries: number;
  /** What becomes of the later rows of an aggregate that has a FAILED one: `skip` sends them, `block` keeps them back until that row is retried or discarded. Default: skip. */
  readonly onFailed: 'skip' | 'block';
  /** Longest wait for one send. In s. Default: 10. */
  readonly sendTimeoutSeconds: number;
  /** Stops sending while the broker is away. Default: true. */
  readonly circuitBreakerEnabled: boolean;
  /** Deletes rows whose time is over: svc.outbox.retention-days, svc.outbox.failed-retention-days. Default: false. */
  readonly cleanupEnabled: boolean;
  /** How long published rows are kept, with svc.outbox.cleanup-enabled. 0, also without it: a row is deleted as soon as it is sent; where svc.outbox.publisher-enabled is false, in the transaction that wrote it (docs/debezium.md). In days. Default: 7. */
  readonly retentionDays: number;
  /** How long rows are kept that are FAILED, with svc.outbox.cleanup-enabled. In days. Default: 30. */
  readonly failedRetentionDays: number;
}

interface SvcOutboxDatasource {
  /** Database of the outbox table, which is that of the application: svc opens connections of its own to it. Default: the variable `DATABASE_URL`. */
  readonly url: string;
}

interface SvcSecurity {
  /** Takes the client address from `Forwarded` or `X-Forwarded-For`, as far as the proxies in svc.security.trusted-proxies vouch for it. Default: false. */
  readonly useForwardedHeaders: boolean;
  /** Addresses and ranges of proxies whose forwarding headers are believed; `unix` for whoever connects through a Unix domain socket. */
  readonly trustedProxies: readonly string[];
}

interface SvcContext {
  readonly correlationId: SvcContextCorrelationId;
  readonly actor: SvcContextActor;
  readonly tags: SvcContextTags;
}

interface SvcContextCorrelationId {
  /** Request headers that may bring a correlation id; the first one present counts. Default: x-correlation-id,x-request-id. */
  readonly headers: readonly string[];
  /** Makes a correlation id for requests that bring none. Default: false. */
  readonly generate: boolean;
  /** Response header that returns the correlation id. */
  readonly responseHeader: string;
}

interface SvcContextActor {
  /** Where `metadata.actor.userId` comes from: `header:x-user-id`, `baggage:user.id`, `request:user.id`, or a function of the request. */
  readonly userId: string | ((request: unknown) => unknown);
  /** Where `metadata.actor.sessionId` comes from, in the same forms. */
  readonly sessionId: string | ((request: unknown) => unknown);
}

interface SvcContextTags {
  /** Keys of baggage entries that become `metadata.tags`. */
  readonly baggage: readonly string[];
}

interface SvcSerde {
  /** Form of the record value: `JSON`, or `AVRO` in the wire format of Confluent, with schemas in a registry (install `avsc`). Default: JSON. */
  readonly type: 'JSON' | 'AVRO';
  /** Schema registry with the API of Confluent, such as `https://registry.example.com:8081`. Required for `AVRO`. */
  readonly schemaRegistryUrl: string;
  /** User of the registry, or its API key (basic authentication). */
  readonly schemaRegistryUsername: string;
  /** Password of that user, or the secret of the API key. */
  readonly schemaRegistryPassword: string;
  /** Token for the registry (bearer authentication). */
  readonly schemaRegistryToken: string;
  /** File that holds the token, read at each request: an agent may renew it. */
  readonly schemaRegistryTokenFile: string;
  /** PEM file of the authorities to trust. Default: the authorities that Node trusts. */
  readonly schemaRegistryCaFile: string;
  /** Files with the Avro schema of the payload, by event type: `{ ORDER_CREATED: schemas/order.avsc }`. The payload of other types is JSON in a string. */
  readonly schemas: Readonly<Record<string, string | readonly string[]>>;
  /** Subject of a schema: `topic` (`<topic>-value`, for topics with one event type), `record` (its full name), or both. Default: topic-record. */
  readonly subjectNameStrategy: 'topic' | 'record' | 'topic-record';
  /** Registers schemas that the registry lacks. When false they must be there. Default: true. */
  readonly autoRegister: boolean;
  /** Where events go whose schema id is not known yet, while the registry is away: `wait` in memory while `svc.retry` tries again, then in the backup, or straight in the `backup`: as JSON, which is encoded once the registry answers. Default: wait. */
  readonly onRegistryUnavailable: 'wait' | 'backup';
}

interface SvcPii {
  /** Protects what is marked, by rules here and by `@PiiField`. When false everything is published as it is. Default: true. */
  readonly enabled: boolean;
  /** `report` warns once of each path whose values look like personal data (e-mail, phone, card, IBAN) and carry no mark. Costs time: for tests and staging. Default: off. */
  readonly detect: 'off' | 'report';
  readonly crypto: SvcPiiCrypto;
  readonly kms: SvcPiiKms;
}

interface SvcPiiCrypto {
  /** Key of ENCRYPT: Base64 of 32 bytes (or 32 characters). Its id is `default`. */
  readonly defaultKey: string;
  /** Further keys, for rotation: a list of `{ id, key, status }`. The one with status `primary` encrypts; those with `decrypt` encrypt nothing any more. */
  readonly keys: readonly EncryptionKeyConfig[];
  /** Key of HASH: 16 random bytes or more. Default: a public text, with a security warning; none in production. */
  readonly salt: string;
  /** Refuses to start when a rule hashes and no salt is configured. Default: `true` where NODE_ENV is `production`. */
  readonly requireSalt: boolean;
  /** Layout of ciphertexts. `specification` is read by other languages; `v1` adds the key id, and opens only in the field it was written to. Default: specification. */
  readonly format: 'specification' | 'v1';
}

interface SvcPiiKms {
  /** Takes the keys of ENCRYPT from a key management service instead of `svc.pii.crypto`. Default: false. */
  readonly enabled: boolean;
  /** AWS KMS (install `@aws-sdk/client-kms`), or HashiCorp Vault and OpenBao. */
  readonly type: 'aws' | 'vault' | (string & {});
  /** What becomes of events while their key cannot be had: `refuse`, or `hold` in memory until it can, as many as `svc.broker.buffer.max-events` and each for `svc.broker.delivery-timeout-ms`; later events wait behind them. Events of the outbox are refused, as their transaction cannot wait. Default: refuse. */
  readonly onUnavailable: 'refuse' | 'hold';
  /** What the service calls each key, by the `keyId` of rules: `{ customer: arn:… }`. Of a list the first makes new keys. Default: the same name. */
  readonly keys: Readonly<Record<string, string | readonly string[]>>;
  readonly aws: SvcPiiKmsAws;
  readonly vault: SvcPiiKmsVault;
}

interface SvcPiiKmsAws {
  /** Region of the keys. Default: as the AWS SDK finds it. */
  readonly region: string;
  /** A VPC endpoint, or a test server. */
  readonly endpoint: string;
  /** Key of rules without `keyId`: ARN, key id or `alias/…`. */
  readonly defaultKeyArn: string;
  /** Bound to each data key and shown in CloudTrail; readers must give the same. Not secret. */
  readonly encryptionContext: Readonly<Record<string, string | readonly string[]>>;
  /** How long a key is used before it is replaced, in the background. In ms. Default: 300000. */
  readonly dekCacheTtlMs: number;
  /** Keys that are kept; the oldest one goes first. Default: 100. */
  readonly dekCacheMaxSize: number;
}

interface SvcPiiKmsVault {
  /** Address of the server. `http:` only on loopback. Default: https://127.0.0.1:8200. */
  readonly address: string;
  /** Token to read keys with. */
  readonly token: string;
  /** File that holds the token, read at each call: an agent may renew it. */
  readonly tokenFile: string;
  /** Namespace of the server. */
  readonly namespace: string;
  /** `kv` (as `kv-v2`) and `kv-v1`: a K/V store holds the keys. `transit`: the server makes data keys (envelope encryption). Default: kv. */
  readonly mode: 'kv' | 'kv-v1' | 'kv-v2' | 'transit';
  /** Where the engine is mounted. Default: `secret`, for Transit `transit`. */
  readonly mountPath: string;
  /** Key of rules without `keyId`: path of the secret below the mount, or name of the Transit key. */
  readonly defaultKeyPath: string;
  /** Field of the secret that holds the key: Base64 of 32 bytes. Default: key. */
  readonly field: string;
  /** PEM file of the authorities to trust. Default: the authorities that Node trusts. */
  readonly caFile: string;
  /** How long a key is used before it is replaced, in the background. In ms. Default: 300000. */
  readonly dekCacheTtlMs: number;
  /** Keys that are kept; the oldest one goes first. Default: 100. */
  readonly dekCacheMaxSize: number;
}

interface Management {
  readonly server: ManagementServer;
  readonly endpoints: ManagementEndpoints;
  readonly endpoint: ManagementEndpoint;
}

interface ManagementServer {
  /** Port of the management server. 0 takes a free one, -1 starts no server. One that is named here and taken by others is a warning, and there is no server; processes of node:cluster and of pm2 take the next free one. Default: 9464, or the next free one up to 9473. */
  readonly port: number;
  /** Address that the management server listens on. Any other than loopback needs management.server.token. Default: 127.0.0.1. */
  readonly address: string;
  /** Bearer token that callers must send: 16 characters or more. */
  readonly token: string;
  /** Bearer token for the endpoints that change or send something, such as a replay of the outbox: 16 characters or more. It reads as well; with it, management.server.token reads only. Without either, nothing acts. Default: management.server.token. */
  readonly actionToken: string;
}

interface ManagementEndpoints {
  readonly web: ManagementEndpointsWeb;
}

interface ManagementEndpointsWeb {
  readonly exposure: ManagementEndpointsWebExposure;
}

interface ManagementEndpointsWebExposure {
  /** Endpoints that are served. `*` is all of them, an empty list starts no server. Default: health,info,metrics,prometheus,svc-metrics,svc-outbox. */
  readonly include: readonly string[];
}

interface ManagementEndpoint {
  readonly health: ManagementEndpointHealth;
}

interface ManagementEndpointHealth {
  /** Who sees the details of the health endpoint. Default: always. */
  readonly showDetails: 'always' | 'never' | 'when-authorized';
  /** Whether `/actuator/health/readiness` is DOWN wherever `/actuator/health` is. false: only where this instance itself does not do its work, so that an outage of Kafka takes no instance out of service. Default: false. */
  readonly readinessNeedsBroker: boolean;
}
