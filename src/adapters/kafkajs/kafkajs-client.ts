import { readFile } from 'node:fs/promises';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { ICustomPartitioner, Kafka, KafkaConfig, LogEntry, SASLOptions } from 'kafkajs';
import { systemClock } from '../../clock.ts';
import { SvcError } from '../../errors.ts';
import type { Logger } from '../../observe/logger.ts';
import { patchRequestQueue } from './request-queue-patch.ts';

export interface KafkajsTlsOptions {
  /** PEM files, read at the first connection. Without `caFile` the authorities that Node trusts are taken. */
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Name expected in the broker's certificate. Default: the host it is reached by. */
  readonly serverName?: string | undefined;
}

export interface KafkajsSaslOptions {
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  readonly username: string;
  readonly password: string;
}

export interface KafkajsClientOptions {
  /** `host:port` of the brokers to begin with. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  /** How long a broker may take to answer one request. */
  readonly requestTimeoutMs: number;
  readonly connectionTimeoutMs: number;
  readonly tls?: KafkajsTlsOptions | undefined;
  readonly sasl?: KafkajsSaslOptions | undefined;
  readonly logger: Logger;
  /** How often kafkajs itself tries again. Default 0: the queue does it, where the order can be kept. */
  readonly retries?: number | undefined;
}

/** One client of kafkajs with the sockets that it opened. */
export interface KafkajsClient {
  readonly kafka: Kafka;
  /** By the key as in Java; records without a key in turn. */
  readonly createPartitioner: ICustomPartitioner;
  /** Drops every connection at once, for good; requests under way fail. */
  destroySockets(): void;
  /** Drops the connections on which an answer has been due for so long. */
  destroySilent(silentMs: number): void;
}

/** Other than in the options of the adapter. */
export interface OpenOptions {
  readonly brokers?: readonly string[];
  readonly requestTimeoutMs?: number;
}

/** Each client begins with another broker of the list: one that hangs there must not hold up all of them. */
export type OpenKafkajsClient = (other?: OpenOptions) => KafkajsClient;

/** Loads and patches kafkajs and reads the certificates; the result opens clients, which share nothing. */
export async function loadKafkajs(options: KafkajsClientOptions): Promise<OpenKafkajsClient> {
  const vendor = (await import('kafkajs')).default;
  await patchRequestQueue(options.logger);
  const ssl = options.tls && (await readCertificates(options.tls));
  const config: KafkaConfig = {
    brokers: [],
    clientId: options.clientId,
    connectionTimeout: options.connectionTimeoutMs,
    // svc retries by itself, where it can keep the order and tell what was stored.
    retry: { retries: options.retries ?? 0 },
    logLevel: vendor.logLevel.WARN,
    logCreator: () => (entry) => logLine(options.logger, entry),
    ...(ssl && { ssl }),
  };
  let opened = 0;
  return ({ brokers = options.brokers, requestTimeoutMs = options.requestTimeoutMs } = {}) => {
    const sockets = new Map<Socket, Traffic>();
    const first = opened++ % brokers.length;
    let destroyed = false;
    // kafkajs keeps its authenticator in the object it is given, so each client gets its own.
    const sasl = options.sasl && { sasl: { ...options.sasl } as SASLOptions };
    const socketFactory = (target: SocketTarget): Socket => {
      // kafkajs reconnects by itself when its requests fail.
      if (destroyed) throw new Error('closed by svc');
      return openSocket(target, sockets);
    };
    return {
      kafka: new vendor.Kafka({
        ...{ ...config, ...sasl, socketFactory, requestTimeout: requestTimeoutMs },
        brokers: [...brokers.slice(first), ...brokers.slice(0, first)],
      }),
      createPartitioner: vendor.Partitioners.DefaultPartitioner,
      destroySockets() {
        destroyed = true;
        for (const socket of sockets.keys()) socket.destroy(new Error('closed by svc'));
      },
      destroySilent(silentMs) {
        const nowMs = systemClock.monotonic();
        for (const [socket, { readAtMs, writtenBefore }] of sockets) {
          const isOwed = socket.bytesWritten > writtenBefore && nowMs - readAtMs >= silentMs;
          if (isOwed) socket.destroy(new Error('closed by svc'));
        }
      },
    };
  };
}

/** Of one connection: when it was last heard of, and how much had been written to it by then. */
interface Traffic {
  readAtMs: number;
  writtenBefore: number;
}

type SocketTarget = { host: string; port: number; ssl: ConnectionOptions; onConnect: () => void };

/** As kafkajs does it, and: an idle connection does not keep the process alive, and small requests are not held back. */
function openSocket({ host, port, ssl, onConnect }: SocketTarget, sockets: Map<Socket, Traffic>): Socket {
  const servername = isIP(host) ? {} : { servername: host };
  const socket = ssl
    ? connectTls({ host, port, ...servername, ...ssl }, onConnect)
    : connectTcp({ host, port }, onConnect);
  socket.setKeepAlive(true, 60_000);
  socket.setNoDelay(true);
  socket.unref();
  const traffic = { readAtMs: systemClock.monotonic(), writtenBefore: 0 };
  socket.on('data', () => {
    traffic.readAtMs = systemClock.monotonic();
    traffic.writtenBefore = socket.bytesWritten;
  });
  sockets.set(socket, traffic);
  socket.once('close', () => sockets.delete(socket));
  return socket;
}

async function readCertificates(tls: KafkajsTlsOptions): Promise<ConnectionOptions> {
  const [ca, cert, key] = await Promise.all([
    readPem('ca-file', tls.caFile),
    readPem('cert-file', tls.certFile),
    readPem('key-file', tls.keyFile),
  ]);
  return {
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
    ...(tls.serverName !== undefined && { servername: tls.serverName }),
  };
}

async function readPem(setting: string, file: string | undefined): Promise<Buffer | undefined> {
  if (file === undefined) return undefined;
  try {
    return await readFile(file);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    throw new SvcError(
      'SVC_ADAPTERS_TLS_FILE',
      `cannot read "${file}" (${reason}): check svc.broker.tls.${setting}`,
    );
  }
}

/** What fails for good comes out of the adapter as one line; this is the client's own talk about it. */
function logLine(logger: Logger, { namespace, log }: LogEntry): void {
  const broker = typeof log.broker === 'string' ? log.broker : undefined;
  logger.debug(`kafkajs: ${log.message}`, { namespace: namespace || undefined, broker });
}
