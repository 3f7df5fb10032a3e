import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Kafka, KafkaConfig, LogEntry } from 'kafkajs';
import type { Logger } from '../../observe/logger.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import { type Certificates, readCertificates } from '../kafka/read-certificates.ts';
import { createSignIn } from './kafkajs-sign-in.ts';
import { addCodecs } from './wire/add-codecs.ts';
import { patchRequestQueue } from './wire/request-queue-patch.ts';

export interface KafkajsClientOptions extends KafkaClientOptions {
  /** How often kafkajs itself tries again. Default 0: the queue does it, where the order can be kept. */
  readonly retries?: number | undefined;
  /** Whether records in any compression are to be read. Default false. */
  readonly readsAll?: boolean | undefined;
}

/**
 * So long before the end of a session kafkajs signs in again. By default it is 10 s, in which it does so before every
 * request while the token stays the same, and a broker takes that once a second only.
 */
const reauthenticateBeforeMs = 1_000;

/** One client of kafkajs with the sockets that it opened. */
export interface KafkajsClient {
  readonly kafka: Kafka;
  /** Drops every connection at once, for good; requests under way fail. */
  destroySockets(): void;
}

/** Loads and patches kafkajs and reads the certificates; the result opens clients, which share nothing. */
export async function loadKafkajs(options: KafkajsClientOptions): Promise<() => KafkajsClient> {
  const vendor = (await import('kafkajs')).default;
  await patchRequestQueue(options.logger);
  const certificates = options.tls && readCertificates(options.tls, options.logger);
  const signIn = options.sasl && (await createSignIn(options.sasl, options.connectionTimeoutMs));
  if (options.readsAll) await addCodecs(vendor);
  const config: KafkaConfig = {
    brokers: [...options.brokers],
    clientId: options.clientId,
    connectionTimeout: options.connectionTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    reauthenticationThreshold: reauthenticateBeforeMs,
    // svc retries by itself, where it can keep the order and tell what was stored.
    retry: { retries: options.retries ?? 0 },
    logLevel: vendor.logLevel.WARN,
    logCreator: () => (entry) => logLine(options.logger, entry),
    ssl: certificates !== undefined,
  };
  return () => {
    const sockets = new Set<Socket>();
    let destroyed = false;
    // kafkajs keeps its authenticator in the object it is given, so each client gets its own.
    const sasl = signIn && { sasl: signIn() };
    const socketFactory = (target: SocketTarget): Socket => {
      // kafkajs reconnects by itself when its requests fail.
      if (destroyed) throw new Error('closed by svc');
      const socket = openSocket(target, certificates);
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      return socket;
    };
    return {
      kafka: new vendor.Kafka({ ...config, ...sasl, socketFactory }),
      destroySockets() {
        destroyed = true;
        for (const socket of sockets) socket.destroy(new Error('closed by svc'));
      },
    };
  };
}

type SocketTarget = { host: string; port: number; onConnect: () => void };

/** As kafkajs does it, and: an idle connection does not keep the process alive, and small requests are not held back. */
function openSocket({ host, port, onConnect }: SocketTarget, certificates: Certificates | undefined): Socket {
  const servername = isIP(host) ? {} : { servername: host };
  const socket = certificates
    ? connectTls({ host, port, ...servername, ...certificates() }, onConnect)
    : connectTcp({ host, port }, onConnect);
  socket.setKeepAlive(true, 60_000);
  socket.setNoDelay(true);
  socket.unref();
  return socket;
}

/** What fails for good comes out of the adapter as one line; this is the client's own talk about it. */
function logLine(logger: Logger, { namespace, log }: LogEntry): void {
  const broker = typeof log.broker === 'string' ? log.broker : undefined;
  logger.debug(`kafkajs: ${log.message}`, { namespace: namespace || undefined, broker });
}
