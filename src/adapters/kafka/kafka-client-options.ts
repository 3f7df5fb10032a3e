import { X509Certificate } from 'node:crypto';
import { type ConnectionOptions, createSecureContext } from 'node:tls';
import { SvcError } from '../../ground/errors.ts';
import { readBoundedSync } from '../../ground/files.ts';
import type { KafkaCompression, passwordMechanisms } from '../../ground/management.ts';
import { logger } from '../../observe/logger.ts';

export interface KafkaTlsOptions {
  /** PEM files, read at the first connection. Default of `caFile`: the authorities that Node trusts. */
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Name expected in the broker's certificate. Default: the host of the connection. */
  readonly serverName?: string | undefined;
}

export type KafkaSaslOptions = KafkaPasswordOptions | KafkaTokenOptions;

export interface KafkaPasswordOptions {
  readonly mechanism: (typeof passwordMechanisms)[number];
  readonly username: string;
  readonly password: string;
}

/** A token from an endpoint (OAuth client credentials), from a file, or as a value. The first one that is given is used. */
export interface KafkaTokenOptions {
  readonly mechanism: 'oauthbearer';
  readonly tokenEndpointUrl?: string | undefined;
  readonly clientId?: string | undefined;
  readonly clientSecret?: string | undefined;
  readonly scope?: string | undefined;
  /** Read again for each connection. */
  readonly tokenFile?: string | undefined;
  readonly token?: string | undefined;
  /** SASL extensions that go with the token. */
  readonly extensions?: Readonly<Record<string, string>> | undefined;
}

/** Confirmation of a record: by all replicas in sync, by the leader, or none. */
type KafkaAcks = 'all' | '1' | '0';

export type { KafkaCompression };

export interface KafkaClientOptions {
  /** `host:port` of the first brokers to ask. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  /** Time limit for the answer to one request. */
  readonly requestTimeoutMs: number;
  readonly connectionTimeoutMs: number;
  readonly tls?: KafkaTlsOptions | undefined;
  readonly sasl?: KafkaSaslOptions | undefined;
  /** Default: `all`. */
  readonly acks?: KafkaAcks | undefined;
  /** With `acks: all`, Kafka stores a batch that is sent again once. Default: true. */
  readonly idempotence?: boolean | undefined;
  /** Default: `none`. `snappy` and `lz4` need platformatic. */
  readonly compression?: KafkaCompression | undefined;
  /** `false`: never let Kafka create a missing topic. Default: as the brokers are configured. */
  readonly makesTopics?: false | undefined;
}

/**
 * Certificates and keys are replaced while a process runs, so each call reads the files again, for one connection. Reading is synchronous,
 * because connections are few. If the files cannot be read or used, the last good ones stay in use, with a warning.
 *
 * @throws SvcError that names the setting, if the first read fails
 */
export function readCertificates(tls: KafkaTlsOptions): () => ConnectionOptions {
  let good = readOnce(tls);
  let said: string | undefined;
  return () => {
    try {
      good = readOnce(tls);
      said = undefined;
    } catch (error) {
      const reason = error instanceof SvcError ? error.message : 'the certificates cannot be read';
      if (reason !== said) logger.warn(`${reason}; the previous certificates stay in use`);
      said = reason;
    }
    return good;
  };
}

function readOnce(tls: KafkaTlsOptions): ConnectionOptions {
  const ca = readPem('ca-file', tls.caFile);
  const cert = readPem('cert-file', tls.certFile);
  const key = readPem('key-file', tls.keyFile);
  checkUse({ ca, cert, key });
  return {
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
    ...(tls.serverName !== undefined && { servername: tls.serverName }),
  };
}

/** Checks the files here, where a fault is certainly theirs. */
function checkUse(files: Record<'ca' | 'cert' | 'key', Buffer | undefined>): void {
  try {
    createSecureContext(files);
    // createSecureContext accepts any text as authorities, and then trusts none.
    if (files.ca !== undefined) new X509Certificate(files.ca);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unusable';
    throw new SvcError(
      'SVC_ADAPTERS_TLS_FILE',
      `the files in svc.broker.tls cannot be used (${reason}): check ca-file, and that cert-file and key-file belong together`,
    );
  }
}

function readPem(setting: string, file: string | undefined): Buffer | undefined {
  if (file === undefined) return undefined;
  try {
    return readBoundedSync(file);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    throw new SvcError(
      'SVC_ADAPTERS_TLS_FILE',
      `cannot read "${file}" (${reason}): check svc.broker.tls.${setting}`,
    );
  }
}
