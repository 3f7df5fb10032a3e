import type { Socket } from 'node:net';
import { type Clock, systemClock } from '../../ground/clock.ts';
import { throttledLog } from '../../observe/logger.ts';
import { clusterPollMs, type HeldBack } from '../../publish/broker.ts';
import type { KafkaClientOptions } from './kafka-client-options.ts';
import {
  bodyOf,
  type KafkaRequest,
  requestHead,
  throttleIn,
  type Versions,
  versionsRequest,
} from './protocol.ts';
import { BrokerError, isAnswer, NoAnswer, NoCommonVersion, socketCodeIn, who } from './send-failure.ts';
import { type Address, keyOf, type Transport } from './transport.ts';

/** One connection for each broker, opened when it is asked for. */
export interface Connections {
  /** Rejects with a `BrokerError`. */
  get(address: Address): BrokerConnection | Promise<BrokerConnection>;
  /** One beside `old`, which may be dead without a word. Once it is open it takes its place, and `old` gets no further request. */
  replace(address: Address, old: BrokerConnection): Promise<BrokerConnection>;
  has(address: Address): boolean;
  /** Its requests under way fail, those that wait for it to open too, and the next one opens another. */
  drop(address: Address): void;
  /** None that was opened before this time (on the monotonic clock) is used for another request; what is under way goes on. */
  renew(beforeMs?: number): void;
  /** Those that are open and usable. */
  count(): number;
  /** For good. */
  close(): void;
}

interface Opening {
  readonly connection: Promise<BrokerConnection>;
  readonly ending: AbortController;
}

/** @param pace and `throttle`: shared with others who connect to the same brokers */
export function createConnections(
  transport: Transport,
  options: KafkaClientOptions,
  pace: DialPace<unknown> = createDialPace(systemClock),
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
    // It may be one too many, or too late.
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
    close() {
      closed = true;
      for (const { ending } of opening.values()) ending.abort(new Error('closed by svc'));
      for (const connection of open.values()) connection.destroy();
      open.clear();
    },
  };
}

/** A connection to one broker, signed in, which has told what requests it understands. */
export interface BrokerConnection {
  /** On the monotonic clock. */
  readonly openedAtMs: number;
  /** Whether it is there, and the broker lets it live for a while. */
  isUsable(): boolean;
  /**
   * In the newest version that both sides know. Rejects with a {@link BrokerError}, also where there is no answer within
   * `requestTimeoutMs`: then the connection is used for nothing else, and closes with what is under way on it. While the broker holds
   * this process back by a quota, nothing is written, and that time does not run.
   */
  ask<T>(request: KafkaRequest<T>): Promise<T>;
  /** At once: requests under way fail. */
  destroy(): void;
  /** When no request is under way any more. */
  retire(): void;
}

/** Of a session the broker limits: then the next request opens another connection. */
const partOfLife = 0.8;

/** Rejects with a {@link BrokerError}. `signal` ends the attempt, at once. */
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
  const openedAtMs = systemClock.monotonic();
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

  /** Within the time limit. Who waits for it keeps the process alive, or nobody. */
  function answered(answer: Promise<Buffer>): Promise<Buffer> {
    const sentAtMs = systemClock.monotonic();
    return new Promise((resolve, reject) => {
      let timer: NodeJS.Timeout;
      const look = (): void => {
        // A broker that holds this process back does not read what was written before.
        const sinceMs = Math.max(sentAtMs, throttle.untilMs(broker));
        const leftMs = sinceMs + requestTimeoutMs - systemClock.monotonic();
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
    isUsable: () => !isRetired && requests.isOpen() && systemClock.monotonic() - openedAtMs < lifeMs,
    ask: (request) => ask(request, versions),
    ...{ destroy, retire },
  };
}

function versionOf({ key, name, oldest, newest }: KafkaRequest<unknown>, versions?: Versions): number {
  if (versions === undefined) return newest;
  const [least, most] = versions.get(key) ?? [0, -1];
  const version = Math.min(most, newest);
  if (version < Math.max(least, oldest)) throw new NoCommonVersion(name);
  return version;
}

/** Requests and answers over one socket, of which each answer has the number of its request. */
interface SocketRequests {
  isOpen(): boolean;
  /** Resolves with the answer, without its head; where none is awaited, at once. */
  send(key: number, version: number, body: readonly Buffer[], isAnswered: boolean): Promise<Buffer>;
  /** At once: requests under way fail. */
  destroy(): void;
}

interface Waiting {
  resolve(answer: Buffer): void;
  reject(error: Error): void;
}

/** What is longer is no answer of Kafka: something else listens there. */
const longestAnswer = 256 * 1024 * 1024;
const nothing = Buffer.alloc(0);

function createSocketRequests(socket: Socket, clientId: string): SocketRequests {
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
  // Those of the client that has signed it in.
  socket.removeAllListeners('data');
  socket.on('data', read).on('error', fail).on('end', closed).on('close', closed);

  return {
    isOpen: () => end === undefined && socket.writable,
    send(key, version, body, isAnswered) {
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
    destroy: () => fail(new Error('closed by svc')),
  };
}

/**
 * What brokers say of quotas (KIP-219): an answer tells for how long nothing is to be written, and until then its connection is not
 * read. So nothing is written to that broker over any connection, for each write over another one would make it longer.
 */
export interface Throttle {
  /** @param broker `host:port` @param request its name in Kafka's protocol */
  heard(broker: string, ms: number, request: string): void;
  /** On the monotonic clock; `-Infinity`: it never held this process back. */
  untilMs(broker: string): number;
  isHeld(broker: string): boolean;
  /** Resolves when it may be written to; `undefined`: it may now. The wait keeps no process alive. */
  over(broker: string): Promise<void> | undefined;
  /** The last that a broker has said, also when it is over; without `broker`: the one that ends last. */
  of(broker?: string): HeldBack | undefined;
}

const sayMs = 60_000;
/** A Kafka that says more has another unit in mind. */
const longestMs = 3_600_000;

export function createThrottle(
  options: Pick<KafkaClientOptions, 'logger' | 'clientId' | 'sasl'>,
  clock: Clock = systemClock,
): Throttle {
  const held = new Map<string, HeldBack>();
  const say = throttledLog(options.logger, clock, {
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

/** The quotas that Kafka counts a request in. The answer does not tell which of them it was. */
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

/** A broker that is well answers in milliseconds. */
const silentMs = 2_000;
/** Over the slowest network. */
const longestSilentMs = 10_000;

/**
 * When the whole cluster was last silent: a question that any of its brokers could answer had no answer, nor had any send, as over a
 * network that is only slow. Connections from
 * before that may be dead without a word, as where a machine or a network was lost, and whoever waits on one of them waits
 * for ever, long after the cluster is back.
 */
export interface Silence {
  /** Passes on what the question comes to. `over`: it was answered over another connection. */
  notice<T>(question: Promise<T>, over?: AbortSignal): Promise<T>;
  /** On the monotonic clock. */
  lastAtMs(): number;
}

/**
 * @param onSilent called each time, and again every 2 s as long as there is no answer
 * @param heard what the last send was answered: nothing is heard for 2 s, and twice as long as that took, 10 s at most
 */
export function createSilence(clock: Clock, onSilent: () => void, heard: () => Answer | undefined): Silence {
  let lastAtMs = Number.NEGATIVE_INFINITY;
  return {
    async notice(question, over) {
      let timer: NodeJS.Timeout | undefined;
      let hasLooked = false;
      const look = (): void => {
        if (hasLooked && over?.aborted) return;
        hasLooked = true;
        const nowMs = clock.monotonic();
        const { atMs, tookMs } = heard() ?? { atMs: Number.NEGATIVE_INFINITY, tookMs: 0 };
        const leftMs = atMs + Math.min(Math.max(silentMs, 2 * tookMs), longestSilentMs) - nowMs;
        if (leftMs <= 0) {
          lastAtMs = nowMs;
          onSilent();
        }
        lookAfter(leftMs > 0 ? leftMs : silentMs);
      };
      const lookAfter = (delayMs: number): void => {
        timer = setTimeout(look, delayMs).unref();
      };
      lookAfter(silentMs);
      try {
        return await question;
      } finally {
        clearTimeout(timer);
      }
    },
    lastAtMs: () => lastAtMs,
  };
}

/** Beside the first try. */
const maxRetries = 2;

/**
 * What is asked over a connection that is dead without a word has no answer for as long as its time-outs are, however soon the
 * cluster is back. Here it is asked once more every 750 ms, and the first answer counts. A further try has a second and a half.
 * Rejects as the first one does, up to 750 ms later where others may be answered still.
 *
 * @param ask `signal` is aborted when nobody waits for this try any more; `isAgain`: others are without an answer
 * @param isAnswer whether an error is what the cluster says: then no other try would say anything else
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

/** Whoever asks while the question is under way gets its answer: many of them would stand in one another's way. */
export function oneAtATime<T>(): (ask: () => Promise<T>) => Promise<T> {
  let inFlight: Promise<T> | undefined;
  return (ask) => {
    inFlight ??= ask().finally(() => {
      inFlight = undefined;
    });
    return inFlight;
  };
}

/** As Kafka's own clients do it: the mean is over this time and what has passed of the next. */
const windowMs = 30_000;

export interface Answer {
  /** When it came, on the monotonic clock. */
  readonly atMs: number;
  readonly tookMs: number;
}

/** How long the broker takes to answer. */
export interface AnswerTimes {
  record(ms: number): void;
  last(): Answer | undefined;
  /** Milliseconds, over the last 30 to 60 seconds; `null`: nothing was answered. */
  mean(): number | null;
}

interface Window {
  count: number;
  sumMs: number;
}

export function createAnswerTimes(clock: Clock): AnswerTimes {
  const empty = (): Window => ({ count: 0, sumMs: 0 });
  let startMs = clock.monotonic();
  let before = empty();
  let now = empty();
  let last: Answer | undefined;

  function turn(): void {
    const turns = Math.floor((clock.monotonic() - startMs) / windowMs);
    if (turns === 0) return;
    startMs += turns * windowMs;
    before = turns === 1 ? now : empty();
    now = empty();
  }

  return {
    record(ms) {
      turn();
      last = { atMs: clock.monotonic(), tookMs: ms };
      now.count++;
      now.sumMs += ms;
    },
    last: () => last,
    mean() {
      turn();
      const count = before.count + now.count;
      return count === 0 ? null : (before.sumMs + now.sumMs) / count;
    },
  };
}

/** Tries to connect to brokers that have refused it, in the time from one question to the next. */
const maxTries = 2;

/** Of what is not there, whoever asks for it; what a broker itself refuses is not among them. */
const away = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN', 'ENOTFOUND', 'EAI_AGAIN']);

/**
 * How often brokers that are away are tried. A client goes through all it knows, some of them twice, with each send and each
 * question: a list of brokers would be tried many times a second by each process of a service, at the very moment when they
 * start. Here the two that were tried longest ago have their turn, and for the others the last refusal stands. As soon as one
 * broker is connected to, all are tried again at once.
 */
interface DialPace<Refusal> {
  /** What the broker said last, where it is not its turn yet; `undefined`: it is to be tried. */
  refusal(address: string): Refusal | undefined;
  /** `code`: of Node. */
  failed(address: string, code: string | undefined, refusal: Refusal): void;
  connected(): void;
}

export function createDialPace<Refusal>(clock: Clock): DialPace<Refusal> {
  /** In the order of their last try. */
  const refusals = new Map<string, Refusal>();
  let triedAtMs: number[] = [];

  return {
    refusal(address) {
      const refusal = refusals.get(address);
      if (refusal === undefined) return undefined;
      const nowMs = clock.monotonic();
      triedAtMs = triedAtMs.filter((atMs) => nowMs - atMs < clusterPollMs);
      const turns = Math.max(0, maxTries - triedAtMs.length);
      const isNext = [...refusals.keys()].slice(0, turns).includes(address);
      if (!isNext) return refusal;
      triedAtMs.push(nowMs);
      // Its turn is over, even where nothing is heard of this try.
      refusals.delete(address);
      refusals.set(address, refusal);
      return undefined;
    },
    failed(address, code, refusal) {
      if (code === undefined || !away.has(code)) return;
      const isNew = !refusals.has(address);
      refusals.delete(address);
      refusals.set(address, refusal);
      if (isNew) triedAtMs.push(clock.monotonic());
    },
    connected() {
      refusals.clear();
      triedAtMs = [];
    },
  };
}
