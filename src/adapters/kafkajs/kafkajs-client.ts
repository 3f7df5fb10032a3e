import { connect as connectTcp, isIP, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { ICustomPartitioner, Kafka, KafkaConfig, LogEntry } from 'kafkajs';
import { systemClock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { createDialPace, type DialPace } from '../kafka/dial-pace.ts';
import type { KafkaClientOptions } from '../kafka/kafka-client-options.ts';
import { type Certificates, readCertificates } from '../kafka/read-certificates.ts';
import type { Compression } from '../kafka/records/record-batch.ts';
import { createSignIn } from './kafkajs-sign-in.ts';
import { addCodecs, type CodecOptions } from './wire/add-codecs.ts';
import { patchProduce } from './wire/produce-patch.ts';
import { patchRequestQueue } from './wire/request-queue-patch.ts';

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
  /** Whether one message may carry a whole batch. */
  readonly canCarry: boolean;
  /** Of batches that are carried. */
  readonly compression: Compression | undefined;
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

export type LoadedKafkajs = OpenKafkajsClient & {
  /** Of all clients that it has opened. */
  connectionCount(): number;
};

/** Loads and patches kafkajs and reads the certificates; the result opens clients, which share nothing. */
export async function loadKafkajs(options: KafkajsClientOptions): Promise<LoadedKafkajs> {
  const vendor = (await import('kafkajs')).default;
  const [canCarry] = await Promise.all([patchProduce(options.logger), patchRequestQueue(options.logger)]);
  const certificates = options.tls && readCertificates(options.tls, options.logger);
  const signIn = options.sasl && (await createSignIn(options.sasl, options.connectionTimeoutMs));
  await addCodecs(vendor, options);
  const compression = await compressionOf(options);
  const config: KafkaConfig = {
    brokers: [],
    clientId: options.clientId,
    connectionTimeout: options.connectionTimeoutMs,
    reauthenticationThreshold: reauthenticateBeforeMs,
    // svc retries by itself, where it can keep the order and tell what was stored.
    retry: { retries: options.retries ?? 0 },
    logLevel: vendor.logLevel.WARN,
    logCreator: () => (entry) => logLine(options.logger, entry),
    ssl: certificates !== undefined,
  };
  let opened = 0;
  const pace = createDialPace<NodeJS.ErrnoException>(systemClock);
  const connected = new Set<Socket>();
  const open: OpenKafkajsClient = ({
    brokers = options.brokers,
    requestTimeoutMs = options.requestTimeoutMs,
  } = {}) => {
    const sockets = new Map<Socket, Traffic>();
    // One for brokers of its own begins with them: it does not count among those that take turns.
    const first = brokers === options.brokers ? opened++ % brokers.length : 0;
    let destroyed = false;
    // kafkajs keeps its authenticator in the object it is given, so each client gets its own.
    const sasl = signIn && { sasl: signIn() };
    const socketFactory = (target: SocketTarget): Socket => {
      // kafkajs reconnects by itself when its requests fail.
      if (destroyed) throw new Error('closed by svc');
      const socket = openSocket(target, certificates, sockets, pace);
      socket.once(certificates ? 'secureConnect' : 'connect', () => connected.add(socket));
      socket.once('close', () => connected.delete(socket));
      return socket;
    };
    return {
      kafka: new vendor.Kafka({
        ...{ ...config, ...sasl, socketFactory, requestTimeout: requestTimeoutMs },
        brokers: [...brokers.slice(first), ...brokers.slice(0, first)],
      }),
      canCarry,
      compression,
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
  return Object.assign(open, { connectionCount: () => connected.size });
}

/** The configuration lets kafkajs have these two only. */
async function compressionOf({ compression }: CodecOptions): Promise<Compression | undefined> {
  if (compression !== 'gzip' && compression !== 'zstd') return undefined;
  return (await import('../kafka/records/compressors.ts')).compressionByNode(compression);
}

/** Of one connection: when it was last heard of, and how much had been written to it by then. */
interface Traffic {
  readAtMs: number;
  writtenBefore: number;
}

type SocketTarget = { host: string; port: number; onConnect: () => void };

/** As kafkajs does it, and: an idle connection does not keep the process alive, and small requests are not held back. */
function openSocket(
  { host, port, onConnect }: SocketTarget,
  certificates: Certificates | undefined,
  sockets: Map<Socket, Traffic>,
  pace: DialPace<NodeJS.ErrnoException>,
): Socket {
  const address = `${host}:${port}`;
  const refusal = pace.refusal(address);
  if (refusal !== undefined) return refusedSocket(refusal);
  const servername = isIP(host) ? {} : { servername: host };
  const socket = certificates
    ? connectTls({ host, port, ...servername, ...certificates() }, onConnect)
    : connectTcp({ host, port }, onConnect);
  socket.once('connect', pace.connected);
  socket.once('error', (error: NodeJS.ErrnoException) => pace.failed(address, error.code, error));
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

/** One that fails at once, as the last try did. */
function refusedSocket(refusal: Error): Socket {
  const socket = new Socket();
  process.nextTick(() => socket.destroy(refusal));
  return socket;
}

/** What fails for good comes out of the adapter as one line; this is the client's own talk about it. */
function logLine(logger: Logger, { namespace, log }: LogEntry): void {
  const broker = typeof log.broker === 'string' ? log.broker : undefined;
  logger.debug(`kafkajs: ${log.message}`, { namespace: namespace || undefined, broker });
}
