import type { Socket } from 'node:net';
import { clock } from '../../ground/clock.ts';
import { throttledLog } from '../../observe/logger.ts';
import { clusterPollMs, type HeldBack } from '../../publish/broker.ts';
import type { KafkaClientOptions } from './kafka-client-options.ts';
import { AnswerReader, checkCode, type KafkaRequest } from './protocol.ts';
import { BrokerError, isAnswer, NoAnswer, NoCommonVersion, socketCodeIn, who } from './send-failure.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** A connection that a client has opened and signed in. From here on, only svc reads and writes it. */
interface SignedIn {
  /** Unref'd, with no answer due on it. */
  readonly socket: Socket;
  /** How long the broker keeps it open; 0: no limit. */
  readonly sessionMs: number;
}

/** The whole task of a Kafka client in svc. Rejects with errors that `toSendFailure` knows. `signal` ends it at once. */
export type Transport = (address: Address, signal: AbortSignal) => Promise<SignedIn>;

export type LoadTransport = (options: KafkaClientOptions) => Promise<Transport>;

export const keyOf = ({ host, port }: Address): string => `${host}:${port}`;

export function parseAddress(text: string): Address {
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(text.slice(colon + 1)) };
}

// Connections to brokers, over the sockets that a transport opens.

/** One connection for each broker, opened at the first request. */
export interface Connections {
  readonly throttle: Throttle;
  /** Rejects with a `BrokerError`. */
  get(address: Address): BrokerConnection | Promise<BrokerConnection>;
  /** Opens a connection beside `old`, which may be dead without a word. Once open, it replaces `old`. */
  replace(address: Address, old: BrokerConnection): Promise<BrokerConnection>;
  has(address: Address): boolean;
  /** Fails its requests in flight, and those that wait for it to open. The next `get` opens another. */
  drop(address: Address): void;
  /** Retires connections that were opened before this time (monotonic clock). Requests in flight continue. */
  renew(beforeMs?: number): void;
  /** The number of open and usable connections. */
  count(): number;
  /** Other connections to the same brokers. They share `throttle`, and which brokers are away. */
  beside(): Connections;
  close(): void;
}

interface Opening {
  readonly connection: Promise<BrokerConnection>;
  readonly ending: AbortController;
}

/** @param pace and `throttle`: shared with instances `beside` it */
export function createConnections(
  transport: Transport,
  options: KafkaClientOptions,
  pace = createDialPace<unknown>(),
  throttle: Throttle = createThrottle(options),
): Connections {
  const open = new Map<string, BrokerConnection>();
  const opening = new Map<string, Opening>();
  let closed = false;

  const usable = (key: string): BrokerConnection | undefined => {
    const known = open.get(key);
    if (known === undefined || known.isUsable()) return known;
    open.delete(key);
    known.retire();
    return undefined;
  };

  function begin(key: string, address: Address): Promise<BrokerConnection> {
    const ending = new AbortController();
    const open = (signal: AbortSignal) => openNew(key, address, AbortSignal.any([ending.signal, signal]));
    const started = {
      ending,
      connection: firstAnswer(open, isAnswer).then((connection) => opened(key, connection)),
    };
    opening.set(key, started);
    const end = (): void => {
      if (opening.get(key) === started) opening.delete(key);
    };
    started.connection.then(end, end);
    return started.connection;
  }

  async function openNew(key: string, address: Address, signal: AbortSignal): Promise<BrokerConnection> {
    const opening = openConnection(transport, options, address, signal, throttle);
    const connection = await opening.catch((error: unknown) => {
      pace.failed(key, socketCodeIn(error), error);
      throw error;
    });
    // Another attempt was faster, or the caller has closed.
    if (signal.aborted) connection.destroy();
    signal.throwIfAborted();
    return connection;
  }

  function opened(key: string, connection: BrokerConnection): BrokerConnection {
    pace.connected();
    open.set(key, connection);
    return connection;
  }

  return {
    throttle,
    get(address) {
      const key = keyOf(address);
      const known = usable(key);
      if (known !== undefined) return known;
      const started = opening.get(key);
      if (started !== undefined) return started.connection;
      if (closed) return Promise.reject(new Error('closed by svc'));
      const refusal = pace.refusal(key);
      return refusal === undefined ? begin(key, address) : Promise.reject(refusal);
    },
    async replace(address, old) {
      const key = keyOf(address);
      const known = open.get(key);
      if (known !== undefined && known !== old && known.isUsable()) return known;
      if (closed) throw new Error('closed by svc');
      const fresh = await (opening.get(key)?.connection ?? begin(key, address));
      old.retire();
      return fresh;
    },
    has: (address) => usable(keyOf(address)) !== undefined,
    drop(address) {
      const key = keyOf(address);
      opening.get(key)?.ending.abort(new Error('closed by svc'));
      opening.delete(key);
      open.get(key)?.destroy();
      open.delete(key);
    },
    renew(beforeMs = Number.POSITIVE_INFINITY) {
      for (const [key, connection] of open)
        if (connection.openedAtMs < beforeMs && open.delete(key)) connection.retire();
    },
    count: () => [...open.values()].filter((connection) => connection.isUsable()).length,
    beside: () => createConnections(transport, options, pace, throttle),
    close() {
      closed = true;
      for (const { ending } of opening.values()) ending.abort(new Error('closed by svc'));
      for (const connection of open.values()) connection.destroy();
      open.clear();
    },
  };
}

/** A connection to one broker that is signed in and knows the broker's request versions. */
export interface BrokerConnection {
  /** On the monotonic clock. */
  readonly openedAtMs: number;
  /** Whether it is open, and its session has time left. */
  isUsable(): boolean;
  /**
   * Sends the request in the newest version that both sides know. Rejects with a {@link BrokerError}, also after
   * `requestTimeoutMs` without an answer. Then the connection takes no further request, and closes with its last request in
   * flight. While the broker throttles this process, nothing is written, and the time limit does not run.
   */
  ask<T>(request: KafkaRequest<T>): Promise<T>;
  /** Closes at once and fails requests in flight. */
  destroy(): void;
  /** Closes after the last request in flight. */
  retire(): void;
}

/** After this part of a session that the broker limits, the next request opens another connection. */
const partOfLife = 0.8;

/** Rejects with a {@link BrokerError}. `signal` ends the attempt at once. */
export async function openConnection(
  transport: Transport,
  options: KafkaClientOptions,
  address: Address,
  signal: AbortSignal,
  throttle: Throttle = createThrottle(options),
): Promise<BrokerConnection> {
  const { clientId, requestTimeoutMs } = options;
  const broker = keyOf(address);
  const asBrokerError = (error: unknown): never => {
    throw new BrokerError(broker, error);
  };
  const { socket, sessionMs } = await transport(address, signal).catch(asBrokerError);
  const requests = createSocketRequests(socket, clientId);
  const lifeMs = sessionMs > 0 ? sessionMs * partOfLife : Number.POSITIVE_INFINITY;
  const openedAtMs = clock.monotonic();
  const { destroy } = requests;
  let inFlight = 0;
  let isRetired = false;

  function retire(): void {
    isRetired = true;
    if (inFlight === 0) destroy();
  }

  async function ask<T>(request: KafkaRequest<T>, versions?: Versions): Promise<T> {
    inFlight++;
    try {
      const version = versionOf(request, versions);
      await throttle.over(broker);
      const answer = requests.send(request.key, version, request.write(version), request.read !== undefined);
      const bytes = bodyOf(request, await answered(answer), version);
      throttle.heard(broker, throttleIn(request, bytes, version), request.name);
      return request.read?.(bytes, version) as T;
    } catch (error) {
      return asBrokerError(error);
    } finally {
      inFlight--;
      if (isRetired && inFlight === 0) destroy();
    }
  }

  /** Adds the time limit. The timer is unref'd; the caller keeps the process alive. */
  function answered(answer: Promise<Buffer>): Promise<Buffer> {
    const sentAtMs = clock.monotonic();
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout;
      const look = (): void => {
        // A broker does not read earlier requests while it throttles this process.
        const sinceMs = Math.max(sentAtMs, throttle.untilMs(broker));
        const leftMs = sinceMs + requestTimeoutMs - clock.monotonic();
        if (leftMs > 0) lookAfter(leftMs);
        else {
          retire();
          reject(new NoAnswer(requestTimeoutMs));
        }
      };
      const lookAfter = (ms: number): void => {
        timer = setTimeout(look, Math.ceil(ms)).unref();
      };
      lookAfter(requestTimeoutMs);
      answer.then(resolve, reject).finally(() => clearTimeout(timer));
    });
  }

  signal.addEventListener('abort', destroy);
  let versions: Versions;
  try {
    if (signal.aborted) destroy();
    versions = await ask(versionsRequest);
  } catch (error) {
    destroy();
    throw error;
  } finally {
    signal.removeEventListener('abort', destroy);
  }
  return {
    openedAtMs,
    isUsable: () => !isRetired && requests.isOpen() && clock.monotonic() - openedAtMs < lifeMs,
    ask: (request) => ask(request, versions),
    ...{ destroy, retire },
  };
}

function versionOf({ key, name, oldest, newest }: KafkaRequest<unknown>, versions?: Versions): number {
  if (versions === undefined) return newest;
  const [least, max] = versions.get(key) ?? [0, -1];
  const version = Math.min(max, newest);
  if (version < Math.max(least, oldest)) throw new NoCommonVersion(name);
  return version;
}

interface Waiting {
  resolve(answer: Buffer): void;
  reject(error: Error): void;
}

/** A longer answer does not come from Kafka. */
const longestAnswer = 256 * 1024 * 1024;
const nothing = Buffer.alloc(0);

/** Requests and answers over one socket. Each answer carries the id of its request. */
function createSocketRequests(socket: Socket, clientId: string) {
  const client = Buffer.from(clientId, 'utf8');
  const waiting = new Map<number, Waiting>();
  let lastId = 0;
  let unread: Buffer = nothing;
  let end: Error | undefined;

  function fail(error: Error): void {
    end ??= error;
    socket.destroy();
    for (const { reject } of waiting.values()) reject(end);
    waiting.clear();
  }

  function read(chunk: Buffer): void {
    unread = unread.length === 0 ? chunk : Buffer.concat([unread, chunk]);
    while (unread.length >= 8) {
      const size = unread.readInt32BE(0);
      if (size < 4 || size > longestAnswer) {
        fail(new Error('Connection closed: no answer of Kafka'));
        return;
      }
      if (unread.length < 4 + size) return;
      const id = unread.readInt32BE(4);
      waiting.get(id)?.resolve(unread.subarray(8, 4 + size));
      waiting.delete(id);
      unread = unread.subarray(4 + size);
    }
  }

  const closed = (): void => fail(new Error('Connection closed'));
  // Those of the client that signed in.
  socket.removeAllListeners('data');
  socket.on('data', read).on('error', fail).on('end', closed).on('close', closed);

  return {
    isOpen: () => end === undefined && socket.writable,
    /** Resolves with the answer, without its head. If no answer is due, it resolves at once. */
    send(key: number, version: number, body: readonly Buffer[], isAnswered: boolean): Promise<Buffer> {
      if (end !== undefined) return Promise.reject(end);
      lastId = (lastId + 1) & 0x7fffffff;
      const id = lastId;
      const head = requestHead(key, version, id, client);
      const [first = nothing, ...rest] = body;
      head.writeInt32BE(body.reduce((sum, { length }) => sum + length, head.length - 4));
      return new Promise((resolve, reject) => {
        if (isAnswered) waiting.set(id, { resolve, reject });
        socket.cork();
        socket.write(Buffer.concat([head, first]));
        for (const piece of rest) socket.write(piece);
        socket.uncork();
        if (!isAnswered) resolve(nothing);
      });
    },
    /** Closes at once and fails requests in flight. */
    destroy: (): void => fail(new Error('closed by svc')),
  };
}

/**
 * Quotas (KIP-219): an answer says for how long the client must not write, and until then the broker does not read that
 * connection. Nothing is written to that broker over any connection, because each write over another one makes the delay
 * longer.
 */
interface Throttle {
  /** @param broker `host:port` @param request its name in Kafka's protocol */
  heard(broker: string, ms: number, request: string): void;
  /** On the monotonic clock; `-Infinity`: never throttled. */
  untilMs(broker: string): number;
  isHeld(broker: string): boolean;
  /** Resolves when the throttle ends; `undefined`: not throttled. The timer is unref'd. */
  over(broker: string): Promise<void> | undefined;
  /** The broker's last throttle, even if it is over. Without `broker`: the one that ends last. */
  of(broker?: string): HeldBack | undefined;
}

const sayMs = 60_000;
/** A longer throttle is in another unit. */
const longestMs = 3_600_000;

function createThrottle(options: Pick<KafkaClientOptions, 'clientId' | 'sasl'>): Throttle {
  const held = new Map<string, HeldBack>();
  const say = throttledLog({
    level: 'warn',
    intervalMs: sayMs,
    saysLeftOut: false,
  });

  const throttle: Throttle = {
    heard(broker, ms, request) {
      if (!(ms > 0)) return;
      const forMs = Math.min(ms, longestMs);
      const untilMs = clock.monotonic() + forMs;
      const message = lineOf(forMs, request, options);
      if (untilMs > throttle.untilMs(broker)) held.set(broker, { forMs, untilMs, message });
      say(quotaOf(request), message, { broker });
    },
    untilMs: (broker) => held.get(broker)?.untilMs ?? Number.NEGATIVE_INFINITY,
    isHeld: (broker) => throttle.untilMs(broker) > clock.monotonic(),
    over: (broker) => (throttle.isHeld(broker) ? wait(broker) : undefined),
    of(broker) {
      if (broker !== undefined) return held.get(broker);
      let last: HeldBack | undefined;
      for (const each of held.values()) if (last === undefined || each.untilMs > last.untilMs) last = each;
      return last;
    },
  };

  async function wait(broker: string): Promise<void> {
    for (;;) {
      const leftMs = throttle.untilMs(broker) - clock.monotonic();
      if (leftMs <= 0) return;
      await new Promise((resolve) => setTimeout(resolve, Math.ceil(leftMs)).unref());
    }
  }

  return throttle;
}

/** The quotas that Kafka counts a request in. The answer does not say which one was exceeded. */
function quotaOf(request: string): string {
  if (request === 'Produce') return 'producer_byte_rate (or request_percentage)';
  return request === 'Metadata' ? 'request_percentage (or controller_mutation_rate)' : 'request_percentage';
}

function lineOf(
  forMs: number,
  request: string,
  options: Pick<KafkaClientOptions, 'clientId' | 'sasl'>,
): string {
  const client = `the client id "${options.clientId}"`;
  const user = options.sasl === undefined ? '' : ` or ${who(options as KafkaClientOptions)}`;
  return `Kafka delays events for ${(forMs / 1_000).toFixed(1)} s, by the quota ${quotaOf(request)} of ${client}${user}. Events wait in memory: raise the quota, or send less`;
}

/** Beside the first try. */
const maxRetries = 2;

/**
 * A question over a dead connection has no answer until its time-out, however soon the cluster is back. So it is asked again
 * every 750 ms, and the first answer counts. Each further try has a second and a half. Rejects as the first try does, up to 750
 * ms later if other tries are in flight.
 *
 * @param ask `signal` is aborted when this try is no longer needed; `isAgain`: other tries have no answer yet
 * @param isAnswer whether an error is the cluster's own answer, which another try would repeat
 */
export function firstAnswer<T>(
  ask: (signal: AbortSignal, isAgain: boolean) => Promise<T>,
  isAnswer: (error: unknown) => boolean,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const inFlight = new Set<AbortController>();
    const again: AbortController[] = [];
    let firstFailure: { readonly error: unknown } | undefined;

    function end(): void {
      clearInterval(timer);
      for (const each of inFlight) each.abort();
    }

    function fail(error: unknown): void {
      end();
      reject(error);
    }

    function begin(isAgain: boolean): AbortController {
      const one = new AbortController();
      inFlight.add(one);
      ask(one.signal, isAgain).then(
        (answer) => {
          end();
          resolve(answer);
        },
        (error: unknown) => {
          if (!isAgain) firstFailure = { error };
          inFlight.delete(one);
          if (isAnswer(error)) fail(error);
          else if (inFlight.size === 0) fail(firstFailure?.error);
        },
      );
      return one;
    }

    const timer = setInterval(() => {
      if (firstFailure !== undefined) return fail(firstFailure.error);
      again.push(begin(true));
      if (again.length <= maxRetries) return;
      const oldest = again.shift() as AbortController;
      oldest.abort();
      inFlight.delete(oldest);
    }, clusterPollMs).unref();
    begin(false);
  });
}

/** Attempts to connect to brokers that refused, in each `clusterPollMs`. */
const maxTries = 2;

/** Codes of a broker that is away, whatever is asked. A broker's own refusals are not among them. */
const away = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENOTFOUND', 'EAI_AGAIN']);

/**
 * Limits how often brokers that are away are tried. Each send and each question tries all known brokers, some twice. A service
 * with many processes would try them many times a second, at the very moment when they start. So the two brokers that were
 * tried longest ago are tried, and the others get their last refusal. As soon as one broker accepts a connection, all are tried
 * again at once.
 */
export function createDialPace<Refusal>() {
  /** In the order of the last try. */
  const refusals = new Map<string, Refusal>();
  let triedAtMs: number[] = [];

  return {
    /** The last refusal of a broker that must not be tried yet; `undefined`: try it. */
    refusal(address: string): Refusal | undefined {
      const refusal = refusals.get(address);
      if (refusal === undefined) return undefined;
      const nowMs = clock.monotonic();
      triedAtMs = triedAtMs.filter((atMs) => nowMs - atMs < clusterPollMs);
      const turns = Math.max(0, maxTries - triedAtMs.length);
      const isNext = [...refusals.keys()].slice(0, turns).includes(address);
      if (!isNext) return refusal;
      triedAtMs.push(nowMs);
      // Moves to the end, even if this try never ends.
      refusals.delete(address);
      refusals.set(address, refusal);
      return undefined;
    },
    /** `code`: of Node. */
    failed(address: string, code: string | undefined, refusal: Refusal): void {
      if (code === undefined || !away.has(code)) return;
      const isNew = !refusals.has(address);
      refusals.delete(address);
      refusals.set(address, refusal);
      if (isNew) triedAtMs.push(clock.monotonic());
    },
    connected(): void {
      refusals.clear();
      triedAtMs = [];
    },
  };
}

/** The body of an answer, after the tags of its head. */
export function bodyOf(
  { flexible }: Pick<KafkaRequest<unknown>, 'flexible'>,
  bytes: Buffer,
  version: number,
): Buffer {
  if (flexible === undefined || version < flexible) return bytes;
  const answer = new AnswerReader(bytes);
  answer.tags();
  return answer.rest();
}

/** Milliseconds for which the client must not write; 0 if the broker does not say, or has waited itself. */
function throttleIn(
  { throttle }: Pick<KafkaRequest<unknown>, 'throttle'>,
  answer: Buffer,
  version: number,
): number {
  if (throttle === undefined || version < throttle.from || answer.length < 4) return 0;
  return answer.readInt32BE(throttle.at === 'start' ? 0 : answer.length - 4);
}

/** The versions that a broker supports: key of a request -> its oldest and newest version. */
type Versions = ReadonlyMap<number, readonly [oldest: number, newest: number]>;

/** In the version that every Kafka answers. */
const versionsRequest: KafkaRequest<Versions> = {
  ...{ key: 18, name: 'ApiVersions', oldest: 0, newest: 0 },
  write: () => [],
  read(bytes) {
    const answer = new AnswerReader(bytes);
    checkCode(answer.int16());
    return new Map(answer.list(() => [answer.int16(), [answer.int16(), answer.int16()]] as const));
  },
};

/** The head of a request, without its length. */
export function requestHead(key: number, version: number, id: number, clientId: Buffer): Buffer {
  const head = Buffer.allocUnsafe(14 + clientId.length);
  head.writeInt16BE(key, 4);
  head.writeInt16BE(version, 6);
  head.writeInt32BE(id, 8);
  head.writeInt16BE(clientId.length, 12);
  head.set(clientId, 14);
  return head;
}
