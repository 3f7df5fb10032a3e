import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { ICustomPartitioner, Kafka, KafkaConfig, LogEntry } from 'kafkajs';
import type { Logger } from '../../observe/logger.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import { readCertificates } from '../kafka/read-certificates.ts';
import { addCodecs, type CodecOptions } from './add-codecs.ts';
import { createSignIn } from './kafkajs-sign-in.ts';
import { patchRequestQueue } from './request-queue-patch.ts';

export interface KafkajsClientOptions extends KafkaClientOptions, CodecOptions {
  /** How often kafkajs itself tries again. Default 0: the queue does it, where the order can be kept. */
  readonly retries?: number | undefined;
}

/**
 * So long before the end of a session kafkajs signs in again. By default it is 10 s, in which it does so before every
 * request while the token stays the same, and a broker takes that once a second only.
 */
const reauthenticateBeforeMs = 1_000;

/** One client of kafkajs with the sockets that it opened. */
export interface KafkajsClient {
  readonly kafka: Kafka;
  /** By the key as in Java; records without a key in turn. */
  readonly createPartitioner: ICustomPartitioner;
  /** Drops every connection at once, for good; requests under way fail. */
  destroySockets(): void;
}

export type OpenKafkajsClient = () => KafkajsClient;

/** Loads and patches kafkajs and reads the certificates; the result opens clients, which share nothing. */
export async function loadKafkajs(options: KafkajsClientOptions): Promise<OpenKafkajsClient> {
  const vendor = (await import('kafkajs')).default;
  await patchRequestQueue(options.logger);
  const ssl = options.tls && (await readCertificates(options.tls));
  const signIn = options.sasl && (await createSignIn(options.sasl, options.connectionTimeoutMs));
  await addCodecs(vendor, options);
  const config: KafkaConfig = {
    brokers: [...options.brokers],
    clientId: options.clientId,
    requestTimeout: options.requestTimeoutMs,
    connectionTimeout: options.connectionTimeoutMs,
    reauthenticationThreshold: reauthenticateBeforeMs,
    // svc retries by itself, where it can keep the order and tell what was stored.
    retry: { retries: options.retries ?? 0 },
    logLevel: vendor.logLevel.WARN,
    logCreator: () => (entry) => logLine(options.logger, entry),
    ...(ssl && { ssl }),
  };
  return () => {
    const sockets = new Set<Socket>();
    let destroyed = false;
    // kafkajs keeps its authenticator in the object it is given, so each client gets its own.
    const sasl = signIn && { sasl: signIn() };
    const socketFactory = (target: SocketTarget): Socket => {
      // kafkajs reconnects by itself when its requests fail.
      if (destroyed) throw new Error('closed by svc');
      return openSocket(target, sockets);
    };
    return {
      kafka: new vendor.Kafka({ ...config, ...sasl, socketFactory }),
      createPartitioner: vendor.Partitioners.DefaultPartitioner,
      destroySockets() {
        destroyed = true;
        for (const socket of sockets) socket.destroy(new Error('closed by svc'));
      },
    };
  };
}

type SocketTarget = { host: string; port: number; ssl: ConnectionOptions; onConnect: () => void };

/** As kafkajs does it, and: an idle connection does not keep the process alive, and small requests are not held back. */
function openSocket({ host, port, ssl, onConnect }: SocketTarget, sockets: Set<Socket>): Socket {
  const servername = isIP(host) ? {} : { servername: host };
  const socket = ssl
    ? connectTls({ host, port, ...servername, ...ssl }, onConnect)
    : connectTcp({ host, port }, onConnect);
  socket.setKeepAlive(true, 60_000);
  socket.setNoDelay(true);
  socket.unref();
  sockets.add(socket);
  socket.once('close', () => sockets.delete(socket));
  return socket;
}

/** What fails for good comes out of the adapter as one line; this is the client's own talk about it. */
function logLine(logger: Logger, { namespace, log }: LogEntry): void {
  const broker = typeof log.broker === 'string' ? log.broker : undefined;
  logger.debug(`kafkajs: ${log.message}`, { namespace: namespace || undefined, broker });
}
