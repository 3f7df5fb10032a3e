import type { PathRule } from '../ground/pii-rule.ts';
import type { LogFormat, LogLevel } from '../observe/logger.ts';
import type { Names } from './check/names.ts';
import type { EncryptionKeyConfig } from './check/pii-keys.ts';
import type { TargetConfig } from './schema/target.ts';

/**
 * Where a user or session id comes from: `header:x-user-id`, `baggage:user.id`, `request:user.id` (a property path of
 * Node's request object, for what Express middleware such as passport puts on it), or a function of that request, which is
 * `undefined` outside of one. Fastify and Koa keep the user on objects of their own: call `setContext` in a hook there.
 * A function answers with a string, number or bigint, else the value is not known; one that throws is named once in the log.
 */
export type ActorSource = string | ((request: unknown) => unknown);

/** The whole configuration, checked, with its defaults. Paths are absolute. Durations are milliseconds. */
export interface Config {
  readonly enabled: boolean;
  readonly required: boolean;
  readonly aop: { readonly enabled: boolean };
  readonly service: {
    /** `null`: not configured; `context/source.ts` knows where else to look. */
    readonly name: string | null;
    readonly version: string | null;
  };
  readonly log: { readonly level: LogLevel; readonly format: LogFormat };
  readonly broker: {
    readonly acks: 'all' | '1' | '0';
    readonly compression: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';
    readonly client: 'kafkajs' | 'platformatic' | 'file' | 'memory';
    readonly bootstrapServers: readonly string[];
    /** Empty only when there are problems, no configuration, or svc is off. */
    readonly topic: string;
    readonly clientId: string;
    readonly asyncMode: boolean;
    readonly maxWaitMs: number;
    readonly requestTimeoutMs: number;
    readonly connectionTimeoutMs: number;
    /** Sends at once. */
    readonly maxInFlight: number;
    readonly buffer: { readonly maxEvents: number; readonly maxBytes: number };
    readonly batch: { readonly maxEvents: number; readonly maxBytes: number; readonly lingerMs: number };
    readonly deliveryTimeoutMs: number;
    readonly file: { readonly path: string };
    /** `undefined`: no dead letter topic. */
    readonly dlqTopic: string | undefined;
    readonly dlqFormat: 'operations' | 'recovery';
    readonly dlqBackupPath: string;
    readonly backup: {
      readonly localEnabled: boolean;
      readonly s3Enabled: boolean;
      /** There when `s3Enabled`. */
      readonly s3Bucket: string | undefined;
      readonly s3Prefix: string;
      readonly s3Region: string | undefined;
      readonly s3Endpoint: string | undefined;
      readonly format: 'event' | 'record';
      readonly maxFiles: number;
      readonly maxBytes: number;
      /** `rate` is in events a second. */
      readonly drain: { readonly enabled: boolean; readonly rate: number };
    };
    readonly tls: {
      readonly enabled: boolean;
      readonly caFile: string | undefined;
      readonly certFile: string | undefined;
      readonly keyFile: string | undefined;
      readonly serverName: string | undefined;
    };
    readonly sasl: {
      /** `undefined`: svc does not sign in. Else what the mechanism needs is there. */
      readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512' | 'oauthbearer' | undefined;
      readonly username: string | undefined;
      readonly password: string | undefined;
      readonly oauthbearer: {
        readonly tokenEndpointUrl: string | undefined;
        readonly clientId: string | undefined;
        readonly clientSecret: string | undefined;
        readonly scope: string | undefined;
        readonly tokenFile: string | undefined;
        readonly token: string | undefined;
        /** Each `name=value`. */
        readonly extensions: readonly string[];
      };
    };
  };
  readonly retry: {
    readonly enabled: boolean;
    readonly maxAttempts: number;
    /** Milliseconds. */
    readonly initialInterval: number;
    readonly multiplier: number;
    /** Milliseconds. */
    readonly maxInterval: number;
    readonly jitter: boolean;
  };
  readonly shutdown: { readonly timeoutMs: number };
  readonly idGenerator: {
    readonly type: 'snowflake' | 'uuidv7';
    /** `undefined`: derived and leased. */
    readonly workerId: number | undefined;
    readonly leasePath: string | undefined;
    /** How a worker id is leased that no other process has. */
    readonly lease: 'auto' | 'host' | 'kafka';
    /** In Kafka, of the processes that share worker ids. */
    readonly group: string;
  };
  readonly security: { readonly useForwardedHeaders: boolean; readonly trustedProxies: readonly string[] };
  readonly context: {
    readonly correlationId: {
      /** Lower case. */
      readonly headers: readonly string[];
      readonly generate: boolean;
      readonly responseHeader: string | undefined;
    };
    readonly actor: { readonly userId: ActorSource | undefined; readonly sessionId: ActorSource | undefined };
    readonly tags: { readonly baggage: readonly string[] };
  };
  readonly management: {
    /** `port` is `undefined`: the usual one, or the next free one. */
    readonly server: {
      readonly port: number | undefined;
      readonly address: string;
      readonly token: string | undefined;
    };
    readonly endpoints: { readonly web: { readonly exposure: { readonly include: readonly string[] } } };
    readonly endpoint: {
      readonly health: {
        readonly showDetails: 'always' | 'never' | 'when-authorized';
        readonly readinessNeedsBroker: boolean;
      };
    };
  };
  readonly pii: {
    readonly enabled: boolean;
    readonly fields: readonly PathRule[];
    readonly detect: 'off' | 'report';
    readonly crypto: {
      readonly defaultKey: string | undefined;
      readonly keys: readonly EncryptionKeyConfig[];
      readonly salt: string | undefined;
      /** `undefined`: where NODE_ENV is `production`. */
      readonly requireSalt: boolean | undefined;
      readonly format: 'specification' | 'v1';
    };
    readonly kms: {
      readonly enabled: boolean;
      /** There where it is enabled. */
      readonly type: 'aws' | 'vault' | undefined;
      readonly keys: Names | undefined;
      readonly aws: {
        readonly region: string | undefined;
        readonly endpoint: string | undefined;
        readonly defaultKeyArn: string | undefined;
        readonly encryptionContext: Names | undefined;
        readonly dekCacheTtlMs: number;
        readonly dekCacheMaxSize: number;
      };
      readonly vault: {
        readonly address: string;
        readonly token: string | undefined;
        readonly tokenFile: string | undefined;
        readonly namespace: string | undefined;
        readonly mode: 'kv' | 'kv-v1' | 'kv-v2' | 'transit';
        readonly mountPath: string | undefined;
        readonly defaultKeyPath: string | undefined;
        readonly field: string;
        readonly caFile: string | undefined;
        readonly dekCacheTtlMs: number;
        readonly dekCacheMaxSize: number;
      };
    };
  };
  /** The valid ones of `svc.targets`. */
  readonly targets: readonly TargetConfig[];
  /** Folder that relative paths start from: that of the configuration file, else the working directory. */
  readonly baseDir: string;
  /** The configuration file that was read. */
  readonly file: string | undefined;
}
