import { AsyncLocalStorage } from 'node:async_hooks';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type * as Kafkajs from 'kafkajs';
import type {
  AuthenticationProviderArgs,
  Kafka,
  KafkaConfig,
  LogEntry,
  Mechanism,
  SASLOptions,
} from 'kafkajs';
import { SvcError } from '../../ground/errors.ts';
import { shared } from '../../ground/lifecycle.ts';
import { logger } from '../../observe/logger.ts';
import type { Compression } from '../kafka/compressors.ts';
import {
  type KafkaClientOptions,
  type KafkaSaslOptions,
  type KafkaTokenOptions,
  readCertificates,
} from '../kafka/kafka-client-options.ts';
import { isTokenRefused, type TokenSource } from '../kafka/token.ts';

interface KafkajsClientOptions extends KafkaClientOptions {
  /** Tries of kafkajs itself after the first. Default: 0, because the queue retries in order. */
  readonly retries?: number | undefined;
  /** Whether to read records in any compression. Default: false. */
  readonly readsAll?: boolean | undefined;
}

/**
 * kafkajs signs in again this long before the end of a session. Its default is 10 s, in which it does so before every request
 * while the token stays the same. A broker accepts that once a second only.
 */
const reauthenticateBeforeMs = 1_000;

interface KafkajsClient {
  readonly kafka: Kafka;
  /** All reads that `work` starts are bounded. A batch that expands too far is replaced by the records of `standIn`. */
  readBounded<T>(work: () => T): T;
  /** Drops every connection at once, for good. Requests in flight fail. */
  destroySockets(): void;
}

/** Loads and patches kafkajs and reads the certificates. The result opens clients, which share nothing. */
export async function loadKafkajs(options: KafkajsClientOptions): Promise<() => KafkajsClient> {
  const vendor = (await import('kafkajs')).default;
  await patchRequestQueue();
  const certificates = options.tls && readCertificates(options.tls);
  const signIn = options.sasl && (await createSignIn(options.sasl, options.connectionTimeoutMs));
  if (options.readsAll) await addCodecs(vendor);
  const config: KafkaConfig = {
    brokers: [...options.brokers],
    clientId: options.clientId,
    connectionTimeout: options.connectionTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    reauthenticationThreshold: reauthenticateBeforeMs,
    // svc retries by itself, because it can keep the order and tell what was stored.
    retry: { retries: options.retries ?? 0 },
    logLevel: vendor.logLevel.WARN,
    logCreator: () => (entry) => logLine(entry),
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
      readBounded: (work) => ownReading.run(true, work),
      destroySockets() {
        destroyed = true;
        for (const socket of sockets) socket.destroy(new Error('closed by svc'));
      },
    };
  };
}

type SocketTarget = { host: string; port: number; onConnect: () => void };

/** As in kafkajs, but unref'd while idle, and without Nagle's delay for small requests. */
function openSocket(
  { host, port, onConnect }: SocketTarget,
  certificates: (() => ConnectionOptions) | undefined,
): Socket {
  const servername = isIP(host) ? {} : { servername: host };
  const socket = certificates
    ? connectTls({ host, port, ...servername, ...certificates() }, onConnect)
    : connectTcp({ host, port }, onConnect);
  socket.setKeepAlive(true, 60_000);
  socket.setNoDelay(true);
  socket.unref();
  return socket;
}

/** At debug level: the adapter reports final failures itself, in one line. */
function logLine({ namespace, log }: LogEntry): void {
  const broker = typeof log.broker === 'string' ? log.broker : undefined;
  logger.debug(`kafkajs: ${log.message}`, { namespace: namespace || undefined, broker });
}

/** The inner cluster of kafkajs: its connections, and reads without a group. */
export function clusterOf<Cluster>(kafka: Kafka, options: object): Cluster {
  const symbol = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === 'private:Kafka:createCluster',
  );
  const make = symbol && (kafka as unknown as Record<symbol, unknown>)[symbol];
  if (typeof make !== 'function')
    throw new SvcError(
      'SVC_ADAPTERS_NOT_REACHABLE',
      'svc does not know how this version of kafkajs reaches its brokers',
    );
  return make.call(kafka, options) as Cluster;
}

/** The version whose internals the patch knows: the last release, of 2023. */
const knownVersion = '2.2.4';

/** The installed version of kafkajs; `undefined` if it does not say. */
async function versionOfKafkajs(): Promise<string | undefined> {
  try {
    return (await import('kafkajs/package.json', { with: { type: 'json' } })).default.version;
  } catch {
    return undefined;
  }
}

const said = new Set<string>();

/** Once per process, because all clients use the same kafkajs. `effect`: what svc cannot do. */
function sayUnknown(version: string | undefined, effect: string): void {
  if (said.has(effect)) return;
  said.add(effect);
  const found = version === knownVersion ? 'that is installed' : (version ?? 'of an unknown version');
  logger.warn(`kafkajs ${found} is not the version that svc knows (${knownVersion}): ${effect}`);
}

type Sasl = SASLOptions | Mechanism;

/** The credentials of kafkajs. All clients from one call share their token. */
async function createSignIn(sasl: KafkaSaslOptions, timeoutMs: number): Promise<() => Sasl> {
  if (sasl.mechanism !== 'oauthbearer') return () => ({ ...sasl }) as SASLOptions;
  const { createTokenSource } = await import('../kafka/token.ts');
  const token = createTokenSource(sasl, timeoutMs);
  return () => ({
    mechanism: 'oauthbearer',
    // The provider of kafkajs does not read the answer.
    authenticationProvider: ({ saslAuthenticate }) => ({
      authenticate: () => signIn(token, sasl.extensions, saslAuthenticate),
    }),
  });
}

async function signIn(
  token: TokenSource,
  extensions: KafkaTokenOptions['extensions'],
  saslAuthenticate: AuthenticationProviderArgs['saslAuthenticate'],
): Promise<void> {
  const pairs = Object.entries(extensions ?? {}).map(([name, value]) => `\u0001${name}=${value}`);
  const secret = await token();
  const text = Buffer.from(`n,,\u0001auth=Bearer ${secret}${pairs.join('')}\u0001\u0001`);
  const length = Buffer.alloc(4);
  length.writeInt32BE(text.length);
  await saslAuthenticate({
    request: { encode: () => Buffer.concat([length, text]) },
    response: {
      decode: (answer) => answer,
      parse: (answer) => {
        if (!isTokenRefused(answer)) return answer;
        token.refused(secret);
        throw Object.assign(new Error('token refused'), { name: refused });
      },
    },
  });
}

const refused = 'KafkaJSSASLAuthenticationError';

// changes to kafkajs: its timers, its codecs, and a channel for its consumer.

/** The part of kafkajs's request queue (one per connection) that the patch uses. */
interface RequestQueue {
  readonly inflight: Map<number, SocketRequest>;
  readonly pending: readonly SocketRequest[];
  readonly requestTimeout: number;
  readonly enforceRequestTimeout: boolean;
  readonly throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  requestTimeoutIntervalId: NodeJS.Timeout | undefined;
  isConnected(): boolean;
  destroy(): void;
  checkPendingRequests(): void;
  scheduleCheckPendingRequests(): void;
  scheduleRequestTimeoutCheck(): void;
  sendSocketRequest(request: SocketRequest): void;
}

interface SocketRequest {
  readonly sentAt: number;
  readonly requestTimeout: number;
  timeoutRequest(): void;
}

const pendingCheckMs = 10;
const timeoutCheckMs = 100;
const methods = [
  'destroy',
  'checkPendingRequests',
  'scheduleCheckPendingRequests',
  'scheduleRequestTimeoutCheck',
  'sendSocketRequest',
] as const;

/**
 * kafkajs 2.2.4 re-arms a 1 ms timer on every connection for ever, with a delay that Node 24 warns about (tulios/kafkajs#1751).
 * It also looks for requests that timed out every 100 ms. With the patch, both timers run only while requests wait, and neither
 * keeps a process alive. Other versions of kafkajs are not patched.
 */
export async function patchRequestQueue(
  parts: () => Promise<readonly [string | undefined, RequestQueue]> = installed,
): Promise<void> {
  const [version, prototype] = await parts().catch(() => []);
  const isKnown =
    version === knownVersion && methods.every((name) => typeof prototype?.[name] === 'function');
  if (!isKnown || prototype === undefined) {
    sayUnknown(version, 'an idle process may use more CPU, and may not exit');
    return;
  }
  const patched = shared('kafkajs-request-queues', () => new WeakSet<object>());
  if (patched.has(prototype)) return;
  patched.add(prototype);
  patch(prototype);
}

async function installed(): Promise<readonly [string | undefined, RequestQueue]> {
  return Promise.all([versionOfKafkajs(), queuePrototype()]);
}

async function queuePrototype(): Promise<RequestQueue> {
  // @ts-expect-error kafkajs has no types for its inner modules.
  return (await import('kafkajs/src/network/requestQueue/index.js')).default.prototype;
}

function patch(prototype: RequestQueue): void {
  const { destroy, sendSocketRequest } = prototype;

  prototype.scheduleCheckPendingRequests = function () {
    if (this.throttleCheckTimeoutId !== null || this.pending.length === 0) return;
    const throttledForMs = this.throttledUntil - Date.now();
    const check = () => {
      this.throttleCheckTimeoutId = null;
      this.checkPendingRequests();
    };
    this.throttleCheckTimeoutId = setTimeout(check, throttledForMs > 0 ? throttledForMs : pendingCheckMs);
  };

  prototype.destroy = function () {
    destroy.call(this);
    this.requestTimeoutIntervalId = undefined;
  };

  // Called once by a new connection, which has nothing in flight yet.
  prototype.scheduleRequestTimeoutCheck = function () {
    this.destroy();
  };

  prototype.sendSocketRequest = function (request) {
    sendSocketRequest.call(this, request);
    if (!this.enforceRequestTimeout || this.requestTimeoutIntervalId !== undefined) return;
    const tick = () => failTimedOutRequests(this);
    this.requestTimeoutIntervalId = setInterval(tick, Math.min(this.requestTimeout, timeoutCheckMs)).unref();
  };
}

function failTimedOutRequests(queue: RequestQueue): void {
  for (const request of [...queue.inflight.values()]) {
    if (Date.now() - request.sentAt > request.requestTimeout) request.timeoutRequest();
  }
  if (!queue.isConnected()) {
    queue.destroy();
  } else if (queue.inflight.size === 0) {
    clearInterval(queue.requestTimeoutIntervalId);
    queue.requestTimeoutIntervalId = undefined;
  }
}

type Vendor = Pick<typeof Kafkajs, 'CompressionCodecs' | 'CompressionTypes'>;

/** A codec in the form of kafkajs: it compresses kafkajs's own encoder, and decompresses bytes. */
interface Codec {
  compress(encoder: { buffer: Buffer }): Promise<Buffer>;
  decompress(data: Buffer): Promise<Buffer>;
}

/** Marks svc's own reads, because the application shares the table of codecs. */
const ownReading = shared('kafkajs-reading', () => new AsyncLocalStorage<true>());

/**
 * kafkajs reads gzip only. This adds zstd from Node, and snappy and lz4, which only `@platformatic/kafka` writes, from that
 * package. Codecs that the application has added stay, and its own reads are unchanged.
 */
async function addCodecs({ CompressionCodecs, CompressionTypes }: Vendor): Promise<void> {
  const { compressionOf, expand } = await import('../kafka/compressors.ts');
  const table = CompressionCodecs as unknown as Record<number, () => Codec>;
  for (const [type, name] of [
    [CompressionTypes.GZIP, 'gzip'],
    [CompressionTypes.ZSTD, 'zstd'],
    [CompressionTypes.Snappy, 'snappy'],
    [CompressionTypes.LZ4, 'lz4'],
  ] as const) {
    const others = codecIn(table, type);
    if (others !== undefined && bounded.has(others)) continue;
    const codec: Codec = {
      async compress(encoder) {
        if (others !== undefined) return others.compress(encoder);
        const { compress } = (await compressionOf(name)) as Compression;
        return compress(encoder.buffer);
      },
      async decompress(data) {
        const isOwn = ownReading.getStore() === true;
        if (!isOwn && others !== undefined) return others.decompress(data);
        const { records = 0 } = countsOf(data) ?? {};
        if (isOwn && records > maxRecords) throw tooManyRecords(records);
        const before = expanded.get(data.buffer);
        if (isOwn && before !== undefined && before.records + records > maxRecords) throw endOfAnswer();
        try {
          const bytes = await expand(name, data, isOwn ? before?.bytes : undefined);
          if (isOwn) addExpanded(data, bytes.length, records);
          return bytes;
        } catch (error) {
          if (!(error instanceof SvcError) || error.code !== 'SVC_ADAPTERS_BATCH_TOO_LARGE') throw error;
          if (isOwn && before !== undefined) throw endOfAnswer();
          const bytes = standIn(data, error);
          if (isOwn) addExpanded(data, bytes.length, records);
          return bytes;
        }
      },
    };
    bounded.add(codec);
    table[type] = () => codec;
  }
}

const bounded = new WeakSet<Codec>();

function codecIn(table: Record<number, () => Codec>, type: number): Codec | undefined {
  try {
    return table[type]?.();
  } catch {
    return undefined;
  }
}

/** The head of a batch, in bytes, and the positions of its fields. */
const batchHead = { bytes: 61, magicAt: 16, lastDeltaAt: 23, countAt: 57 } as const;
/** Limit for one answer of a broker. kafkajs allocates some hundred bytes for each record, and fails above 120,000. */
const maxRecords = 100_000;

/** The expanded size of the batches of one answer, which are limited together: 6 KB can expand to 64 MiB. */
const expanded = new WeakMap<object, { bytes: number; records: number }>();

function addExpanded(data: Buffer, bytes: number, records: number): void {
  const before = expanded.get(data.buffer);
  expanded.set(data.buffer, {
    bytes: (before?.bytes ?? 0) + bytes,
    records: (before?.records ?? 0) + records,
  });
}

/** With this name, kafkajs takes the batch as cut off: it uses the batches before it, and asks for this one again. */
function endOfAnswer(): Error {
  const error = new Error('svc: the batches of this response expand too far together');
  return Object.assign(error, { name: 'KafkaJSPartialMessageError' });
}

function tooManyRecords(records: number): SvcError {
  return new SvcError(
    'SVC_ADAPTERS_BATCH_TOO_LARGE',
    `a compressed batch has ${records} records, of which svc reads ${maxRecords} at most: neither the batch nor later records were read`,
  );
}

/** The counts in the head of the batch, which kafkajs leaves before `data`. */
function countsOf(data: Buffer): { readonly records: number; readonly lastDelta: number } | undefined {
  if (data.byteOffset < batchHead.bytes) return undefined;
  const head = Buffer.from(data.buffer, data.byteOffset - batchHead.bytes, batchHead.bytes);
  if (head[batchHead.magicAt] !== 2) return undefined;
  return { records: head.readInt32BE(batchHead.countAt), lastDelta: head.readInt32BE(batchHead.lastDeltaAt) };
}

/**
 * One record for each record of the batch, with the reason as its value. It is not an event, so it is listed as unreadable at
 * its offset, and reading continues after the batch.
 */
function standIn(data: Buffer, reason: SvcError): Buffer {
  const { records = 0, lastDelta = 0 } = countsOf(data) ?? {};
  if (records < 1 || records > maxRecords) throw reason;
  const value = Buffer.from(`svc: ${reason.message}`);
  return Buffer.concat(
    Array.from({ length: records }, (_, index) => {
      const delta = varint(index === records - 1 ? lastDelta : index);
      // No attributes, the time of the batch, no key, no headers.
      const body = [Buffer.from([0, 0]), delta, varint(-1), varint(value.length), value, Buffer.from([0])];
      const record = Buffer.concat(body);
      return Buffer.concat([varint(record.length), record]);
    }),
  );
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value >= 0 ? value * 2 : -value * 2 - 1;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}
