import { X509Certificate } from 'node:crypto';
import { type ConnectionOptions, createSecureContext } from 'node:tls';
import { SvcError } from '../../ground/errors.ts';
import { readBoundedSync } from '../../ground/files.ts';
import type { KafkaCompression, passwordMechanisms } from '../../ground/management.ts';
import type { Logger } from '../../observe/logger.ts';

export interface KafkaTlsOptions {
  /** PEM files, read at the first connection. Without `caFile` the authorities that Node trusts are taken. */
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Name expected in the broker's certificate. Default: the host it is reached by. */
  readonly serverName?: string | undefined;
}

export type KafkaSaslOptions = KafkaPasswordOptions | KafkaTokenOptions;

export interface KafkaPasswordOptions {
  readonly mechanism: (typeof passwordMechanisms)[number];
  readonly username: string;
  readonly password: string;
}

/** A token, from an endpoint (OAuth client credentials), from a file, or as it is: the first of them that is given. */
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

/** By whom a record must be confirmed: all replicas in sync, the leader, or nobody. */
type KafkaAcks = 'all' | '1' | '0';

export type { KafkaCompression };

/** What every client of Kafka is made from. */
export interface KafkaClientOptions {
  /** `host:port` of the brokers to begin with. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  /** How long a broker may take to answer one request. */
  readonly requestTimeoutMs: number;
  readonly connectionTimeoutMs: number;
  readonly tls?: KafkaTlsOptions | undefined;
  readonly sasl?: KafkaSaslOptions | undefined;
  /** Default `all`. */
  readonly acks?: KafkaAcks | undefined;
  /** With `acks: all`, Kafka stores a batch once that is sent again. Default: true. */
  readonly idempotence?: boolean | undefined;
  /** Default `none`. `snappy` and `lz4` are for platformatic only. */
  readonly compression?: KafkaCompression | undefined;
  /** `false`: Kafka is never asked to make a topic that is not there. Default: where its brokers do so. */
  readonly makesTopics?: false | undefined;
  readonly logger: Logger;
}

/** Gives what Node's TLS asks for, for one connection. */
export type Certificates = () => ConnectionOptions;

/**
 * Certificates and keys are replaced while a process runs: each connection gets what the files hold by then. Synchronous, for
 * a connection is opened in one go, and those are few. Where the files cannot be read or used, or are just being replaced, the
 * last good ones stay in use, and one line says so.
 *
 * @throws SvcError that names the setting of a file that cannot be read or used the first time.
 */
export function readCertificates(tls: KafkaTlsOptions, logger: Logger): Certificates {
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

/** Said here, where it is sure to be these files, and not by whatever opens a connection. */
function checkUse(files: Record<'ca' | 'cert' | 'key', Buffer | undefined>): void {
  try {
    createSecureContext(files);
    // Which takes any text for authorities, and trusts none then.
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
