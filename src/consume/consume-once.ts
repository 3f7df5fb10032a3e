import { sleep } from '../ground/builtins.ts';
import { backoffMs, within } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { isNamedValues, optionsProblem, plainObject } from '../ground/names.ts';
import { consoleLogger } from '../observe/logger.ts';
import { type ConsumedCounts, consumedBy } from '../observe/outcomes.ts';
import { can, has } from '../outbox/api/executor.ts';
import {
  type ConsumedRecord,
  createHandling,
  type DeadLetterOptions,
  deadLettersTo,
  type EventHandler,
  type EventHandlers,
  type ReadingOptions,
  type Upcasts,
} from './handle-event.ts';
import { type InboxOnce, nameOf } from './inbox.ts';

// biome-ignore lint/suspicious/noExplicitAny: each handler knows the payload of its type
type AnyPayloads = Readonly<Record<string, any>>;

/** `Payloads`: the payload types by event type, such as `EventPayloads` of `svc catalog`. Default: any. */
export interface ConsumeOptions<Tx = unknown, Payloads extends object = AnyPayloads> extends ReadingOptions {
  /** A consumer of `kafkajs` or `@platformatic/kafka`. svc connects, subscribes and closes it, so use it nowhere else. */
  readonly consumer: object;
  readonly topics: readonly string[];
  readonly inbox: InboxOnce<Tx> & { readonly consumer?: string };
  /** By event type; `'*'` handles all other types. */
  readonly handlers: EventHandlers<Tx, Payloads>;
  /**
   * Converts payloads of older versions: `{ ORDER_PLACED: [fromV1, fromV2] }`. The functions run in order, before the handler.
   * If one throws, the event is refused.
   */
  readonly upcast?: Upcasts;
  /** For events of a type without a handler. Default: `dead-letter`. */
  readonly otherTypes?: 'dead-letter' | 'ignore';
  /** The topic for events that cannot be handled. Without it such an event blocks its partition; other partitions continue. */
  readonly deadLetters?: DeadLetterOptions;
  readonly retry?: {
    /** Runs of a handler for one event, the first included. Runs while the database is unavailable do not count. Default: 5. */
    readonly maxAttempts?: number;
    /** Milliseconds before the second run; doubles with each further run. Default: 1,000. */
    readonly initialMs?: number;
    /** Milliseconds. Default: 60,000. */
    readonly maxMs?: number;
  };
  /** Milliseconds after which the handler's `signal` is aborted and svc logs that it hangs. Default: 60,000. */
  readonly handlerTimeoutMs?: number;
  /** Concurrent handlers, each with its own transaction: no more than the connections of the pool. Default: 8. */
  readonly concurrency?: number;
  /** Whether a group without committed offsets starts at the first record of a partition. Default: true. */
  readonly fromBeginning?: boolean;
  /** Called with each original error, which may hold values of the application. svc's own log lines hold none. */
  readonly onError?: (error: unknown, record: ConsumedRecord) => void;
}

export interface Consumption {
  /** The results so far: the sum of all consumers of this name in the process. */
  counts(): ConsumedCounts;
  /**
   * Starts no further event, waits for events in progress, commits, and leaves the group. Rejects with
   * `SVC_CONSUME_HANDLER_HANGS` if handlers still run after `timeoutMs` (default: 30,000). The next owner of the partition then
   * handles their events again. A broker that does not answer gets as long again; svc then logs that the client has not left its
   * group.
   */
  stop(timeoutMs?: number): Promise<void>;
}

const commitEveryMs = 1_000;
const cleanUpEveryMs = 3_600_000;

/**
 * Handles each event of the topics once, with an inbox: in order within a partition, partitions side by side. Resolves when it
 * consumes.
 *
 * `consumeOnce<PoolClient, EventPayloads>({ … })` types the events with the output of `svc catalog`, and accepts handlers for
 * these types only.
 *
 * @throws SvcError `SVC_CONSUME_OPTIONS`, `SVC_CONSUME_TABLE_MISSING`
 */
export async function consumeOnce<Tx, Payloads extends object = AnyPayloads>(
  options: ConsumeOptions<Tx, NoInfer<Payloads>>,
): Promise<Consumption> {
  check(options as ConsumeOptions);
  const { topics, inbox, handlers, deadLetters, retry = {}, onError } = options;
  const logger = consoleLogger('info');
  const name = inbox.consumer ?? 'consumer';
  const source = sourceOf(options.consumer, {
    topics,
    fromBeginning: options.fromBeginning ?? true,
    onTrouble: (error) => logger.warn(`the consumer of ${name} failed (${nameOf(error)}) and tries again`),
  });
  const counts = consumedBy(name);
  const handle = createHandling({
    ...{ consumer: name, inbox: inbox as InboxOnce, handlers: byType(handlers) },
    ...{ upcasts: options.upcast, otherTypes: options.otherTypes ?? 'dead-letter', counts, logger },
    ...{ maxAttempts: retry.maxAttempts ?? 5, firstDelayMs: retry.initialMs ?? 1_000 },
    ...{ longestDelayMs: retry.maxMs ?? 60_000, handlerTimeoutMs: options.handlerTimeoutMs ?? 60_000 },
    sendDeadLetter: deadLetters && deadLettersTo(deadLetters),
    ...{ avro: options.avro, keys: options.keys, decrypt: options.decrypt },
    enter: atMost(options.concurrency ?? 8),
    onError(error, record) {
      try {
        onError?.(error, record);
      } catch {}
    },
  });
  await inbox.check?.();
  let ownWaiting = 0;
  const queues = createPartitionQueues({
    ...{ source, handle },
    onWaiting(count) {
      counts.waiting += count - ownWaiting;
      ownWaiting = count;
    },
  });

  let committing: Promise<void> = Promise.resolve();
  function commit(): Promise<void> {
    committing = committing.then(async () => {
      const commits = queues.takeCommits();
      if (commits.length === 0) return;
      try {
        await source.commit(commits);
      } catch (error) {
        queues.giveBack(commits);
        logger.debug(
          `offsets of ${name} were not committed (${nameOf(error)}); the next commit includes them`,
        );
      }
    });
    return committing;
  }
  const committer = setInterval(() => void commit(), commitEveryMs);
  const cleanUp = (): void =>
    void inbox
      .cleanup?.()
      .catch((error) => logger.warn(`the inbox of ${name} could not be cleaned up (${nameOf(error)})`));
  const cleaner = setInterval(cleanUp, cleanUpEveryMs);
  cleaner.unref();
  const end = (): void => {
    clearInterval(committer);
    clearInterval(cleaner);
  };
  try {
    await source.start(queues);
  } catch (error) {
    end();
    await source.close().catch(() => {});
    throw error;
  }
  cleanUp();

  let stopping: Promise<void> | undefined;
  async function stop(timeoutMs: number): Promise<void> {
    end();
    const isQuiet = await within(timeoutMs, queues.end());
    const leaving = commit()
      .then(() => source.close())
      .catch((error) => logger.warn(`the consumer of ${name} could not leave its group (${nameOf(error)})`));
    if (!(await within(timeoutMs, leaving)))
      logger.warn(`the consumer of ${name} has not left its group after ${timeoutMs} ms`);
    if (isQuiet) return;
    const left = queues.busy().map(({ topic, partition }) => `${topic}-${partition}`);
    throw new SvcError(
      'SVC_CONSUME_HANDLER_HANGS',
      `handlers still run after ${timeoutMs} ms, of ${left.join(', ')}: their events are handled again`,
    );
  }
  return {
    counts() {
      const sum = { handled: 0, repeated: 0, ignored: 0, dead_letter: 0, returned: 0, taken: 0, retries: 0 };
      for (const row of counts.all())
        for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += row[key];
      const { handled, repeated, ignored, dead_letter, returned, taken } = sum;
      return { ...sum, inHand: taken - handled - repeated - ignored - dead_letter - returned };
    },
    stop: (timeoutMs = 30_000) => {
      stopping ??= stop(timeoutMs);
      return stopping;
    },
  };
}

function byType(handlers: object): ReadonlyMap<string, EventHandler> {
  return new Map(Object.entries(handlers) as [string, EventHandler][]);
}

const optionNames: Readonly<Record<keyof ConsumeOptions, readonly string[]>> = {
  ...{ consumer: [], topics: [], inbox: [], handlers: [], upcast: [], otherTypes: [], onError: [] },
  ...{ handlerTimeoutMs: [], concurrency: [], fromBeginning: [], avro: [], keys: [] },
  retry: ['maxAttempts', 'initialMs', 'maxMs'],
  deadLetters: ['topic', 'producer', 'format'],
  decrypt: ['only', 'v0'],
};

function checkNames(options: ConsumeOptions): void {
  const problem = optionsProblem(options, Object.keys(optionNames));
  if (problem !== undefined) throw badOption(problem);
  for (const [name, parts] of Object.entries(optionNames)) {
    const value = options[name as keyof ConsumeOptions];
    const wrong = parts.length > 0 && value !== undefined ? optionsProblem(value, parts) : undefined;
    if (wrong !== undefined) throw badOption(`${name}: ${wrong}`);
  }
}

function check(options: ConsumeOptions): void {
  checkNames(options);
  const { topics, inbox, handlers, upcast, deadLetters, ...numbers } = options;
  if (!Array.isArray(topics) || topics.length === 0) throw badOption('topics must name at least one topic');
  if (typeof inbox?.once !== 'function') throw badOption('inbox must be the result of createInbox');
  if (!isNamedValues(handlers) || Object.values(handlers).some((handler) => typeof handler !== 'function'))
    throw badOption('handlers must be functions by event type: { ORDER_PLACED: async (event, tx) => … }');
  if (upcast !== undefined && !isNamedValues(upcast)) throw badOption(`upcast must be ${plainObject}`);
  for (const [type, list] of Object.entries(upcast ?? {}))
    if (!Array.isArray(list) || !list.every((each) => typeof each === 'function'))
      throw badOption(`upcast must be lists of functions by event type, but ${type} is not a list`);
  if (deadLetters !== undefined && topics.includes(deadLetters.topic))
    throw badOption('deadLetters.topic must not be one of the consumed topics');
  const { retry = {}, handlerTimeoutMs, concurrency } = numbers;
  const counted = { ...retry, handlerTimeoutMs, concurrency };
  for (const [name, value] of Object.entries(counted))
    if (value !== undefined && !(value >= 1)) throw badOption(`${name} must be a number from 1`);
}

function badOption(says: string): SvcError {
  return new SvcError('SVC_CONSUME_OPTIONS', `consumeOnce: ${says}`);
}

/** A semaphore. The result releases its slot; further calls have no effect. */
function atMost(max: number): () => Promise<() => void> {
  let inside = 0;
  const waiting: (() => void)[] = [];
  return async () => {
    if (inside >= max) await new Promise<void>((resolve) => waiting.push(resolve));
    else inside++;
    let isInside = true;
    return () => {
      if (!isInside) return;
      isInside = false;
      const next = waiting.shift();
      if (next === undefined) inside--;
      else next();
    };
  };
}

interface Partition {
  readonly topic: string;
  readonly partition: number;
}

const keyOf = ({ topic, partition }: Partition): string => `${topic}:${partition}`;

interface Commit extends Partition {
  /** Of the next record. */
  readonly offset: bigint;
  readonly leaderEpoch: number | undefined;
}

interface RecordSink {
  /** Whether a record of this partition fits. `waits`: it does not, and that may take long. */
  stateOf(partition: Partition): 'free' | 'full' | 'waits';
  /** Resolves when the state is no longer `full`. */
  whenNotFull(partition: Partition): Promise<void>;
  push(record: ConsumedRecord): void;
  /** The complete new assignment of this consumer. */
  assigned(partitions: readonly Partition[]): void;
}

/** A Kafka client that the application has created, and whose consumer group it names. */
interface RecordSource {
  /** Resolves when the client has joined its group, or retries in the background. */
  start(sink: RecordSink): Promise<void>;
  /** Pauses this partition; others continue. */
  hold(partition: Partition): void;
  release(partition: Partition): void;
  commit(commits: readonly Commit[]): Promise<void>;
  /** Leaves the group; later records are discarded. */
  close(): Promise<void>;
}

interface SourceOptions {
  readonly topics: readonly string[];
  /** Where a group without committed offsets starts. */
  readonly fromBeginning: boolean;
  /** Logs an error that the client retries by itself. */
  readonly onTrouble: (error: unknown) => void;
}

/** @throws SvcError `SVC_CONSUME_OPTIONS` */
function sourceOf(consumer: unknown, options: SourceOptions): RecordSource {
  if (isKafkajsConsumer(consumer)) return kafkajsSource(consumer, options);
  if (isPlatformaticConsumer(consumer)) return platformaticSource(consumer, options);
  throw new SvcError(
    'SVC_CONSUME_OPTIONS',
    'consumeOnce: consumer must be a consumer of kafkajs or @platformatic/kafka',
  );
}

type HeaderValue = Buffer | string | (Buffer | string)[] | undefined;

interface KafkajsConsumer {
  readonly events: { readonly GROUP_JOIN: string; readonly CRASH: string };
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  subscribe(options: { topics: string[]; fromBeginning: boolean }): Promise<void>;
  run(options: {
    autoCommit: false;
    partitionsConsumedConcurrently: number;
    eachBatch(payload: { batch: KafkajsBatch }): Promise<void>;
  }): Promise<void>;
  on(
    event: string,
    listener: (event: {
      payload: { memberAssignment: Record<string, number[]>; error: Error; restart: boolean };
    }) => void,
  ): () => void;
  pause(partitions: { topic: string; partitions: number[] }[]): void;
  resume(partitions: { topic: string; partitions: number[] }[]): void;
  commitOffsets(offsets: { topic: string; partition: number; offset: string }[]): Promise<void>;
}

interface KafkajsBatch {
  readonly topic: string;
  readonly partition: number;
  readonly messages: readonly {
    readonly offset: string;
    readonly key: Buffer | string | null;
    readonly value: Buffer | string | null;
    readonly timestamp: string;
    readonly headers?: Readonly<Record<string, HeaderValue>>;
  }[];
}

function isKafkajsConsumer(given: unknown): given is KafkajsConsumer {
  return can(given, 'subscribe', 'run', 'pause', 'resume', 'commitOffsets') && has(given, 'events');
}

/** Records are passed on at once, so that the client continues with other partitions and its heartbeats. */
function kafkajsSource(
  consumer: KafkajsConsumer,
  { topics, fromBeginning, onTrouble }: SourceOptions,
): RecordSource {
  const closing = new AbortController();
  /** From a crash until the client is in its group again, or has crashed again. */
  let isStarting = false;
  /** Between two groups the client has no partitions, and throws. */
  const tryTo = (work: () => void): void => {
    try {
      work();
    } catch {}
  };

  async function open(sink: RecordSink): Promise<void> {
    await consumer.connect();
    if (closing.signal.aborted) return consumer.disconnect();
    await consumer.subscribe({ topics: [...topics], fromBeginning });
    await consumer.run({
      autoCommit: false,
      partitionsConsumedConcurrently: 1,
      async eachBatch({ batch: { topic, partition, messages } }) {
        for (const { offset, key, value, timestamp, headers } of messages)
          sink.push({
            ...{ topic, partition, offset: BigInt(offset), timestamp: Number(timestamp) },
            key: key === null ? null : key.toString(),
            value: typeof value === 'string' ? Buffer.from(value) : value,
            headers: textsOf(headers ?? {}),
          });
      },
    });
  }

  /** The client gives up at errors that it takes for permanent, such as some of a broker that is still starting. */
  async function openAgain(sink: RecordSink): Promise<void> {
    for (let failures = 1; await waited(failures, closing.signal); failures++)
      try {
        await open(sink);
        return;
      } catch (error) {
        onTrouble(error);
      }
  }

  /** After the listeners of the event, the client has set the timer of its restart, or is in its group. */
  function disconnectNext(): void {
    setImmediate(() => void consumer.disconnect().catch(() => {}));
  }

  return {
    async start(sink: RecordSink) {
      const { GROUP_JOIN, CRASH } = consumer.events;
      consumer.on(GROUP_JOIN, ({ payload: { memberAssignment } }) => {
        isStarting = false;
        if (closing.signal.aborted) return disconnectNext();
        sink.assigned(
          Object.entries(memberAssignment).flatMap(([topic, partitions]) =>
            partitions.map((partition) => ({ topic, partition })),
          ),
        );
      });
      consumer.on(CRASH, ({ payload: { error, restart } }) => {
        isStarting = true;
        if (closing.signal.aborted) return disconnectNext();
        onTrouble(error);
        if (!restart) void openAgain(sink);
      });
      await open(sink);
    },
    hold: ({ topic, partition }) => tryTo(() => consumer.pause([{ topic, partitions: [partition] }])),
    release: ({ topic, partition }) => tryTo(() => consumer.resume([{ topic, partitions: [partition] }])),
    commit: (commits) =>
      consumer.commitOffsets(
        commits.map(({ topic, partition, offset }) => ({ topic, partition, offset: String(offset) })),
      ),
    async close() {
      closing.abort();
      // A client that is starting joins its group even after `disconnect`, so its next event disconnects it.
      if (!isStarting) await consumer.disconnect();
    },
  };
}

/** Resolves with false, at once, when the signal aborts. */
async function waited(failures: number, signal: AbortSignal): Promise<boolean> {
  await sleep(backoffMs(failures, 500, 10_000), undefined, { signal }).catch(() => {});
  return !signal.aborted;
}

function textsOf(headers: Readonly<Record<string, HeaderValue>>): ConsumedRecord['headers'] {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const first = Array.isArray(value) ? value[0] : value;
    if (first !== undefined && first !== null && name !== '__proto__') texts[name] = first.toString();
  }
  return texts;
}

interface PlatformaticMessage {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  readonly key: Buffer | string | undefined;
  readonly value: Buffer | string | undefined;
  readonly timestamp: bigint;
  readonly headers: ReadonlyMap<Buffer | string, Buffer | string>;
  readonly leaderEpoch: number;
}

interface MessagesStream extends AsyncIterable<PlatformaticMessage> {
  on(event: 'error', listener: () => void): unknown;
  close(): Promise<void>;
}

type Assignments = readonly { readonly topic: string; readonly partitions: readonly number[] }[];

interface PlatformaticConsumer {
  /** A new array at each change. */
  readonly assignments: Assignments | null;
  memberId: string | null;
  /** The subscription: by topic, how often it is tracked. A stream tracks its topics until it ends. */
  readonly topics: Map<string, number> & {
    trackAll(...topics: string[]): unknown;
    untrack(topic: string): unknown;
  };
  consume(options: object): Promise<MessagesStream>;
  commit(options: { offsets: (Commit & { leaderEpoch: number })[] }): Promise<void>;
  on(event: string, listener: (given: never) => void): unknown;
  removeListener(event: string, listener: () => void): unknown;
  close(force: boolean): Promise<void>;
}

function isPlatformaticConsumer(given: unknown): given is PlatformaticConsumer {
  return can(given, 'consume', 'commit', 'close', 'on') && has(given, 'topics');
}

const bytes = (value: unknown): unknown => value;
const raw = { key: bytes, value: bytes, headerKey: bytes, headerValue: bytes };
const groupJoin = 'consumer:group:join';
/** UNKNOWN_MEMBER_ID of the Kafka protocol. */
const unknownMemberId = 25;

/**
 * Its stream carries all partitions in one sequence. A full partition pauses the stream. If it may take long, because the
 * partition waits, its records are dropped, so that the others continue. When there is space again, a new stream starts at the
 * committed offsets, as the old one has read past the dropped records. The same when a partition moves to another member, as it
 * may come back. Duplicates are recognized by their offsets.
 */
function platformaticSource(
  consumer: PlatformaticConsumer,
  { topics, fromBeginning, onTrouble }: SourceOptions,
): RecordSource {
  let stream: MessagesStream | undefined;
  /** Number of streams requested. */
  let wanted = 0;
  let opened = 0;
  let opening: Promise<void> = Promise.resolve();
  let reading: Promise<void> | undefined;
  const closing = new AbortController();
  let assignments: Assignments | null = null;
  let ours: ReadonlySet<string> = new Set();
  const dropped = new Set<string>();
  let lookAtAssignments = (): void => {};
  let isMember = false;

  /**
   * The subscription lasts longer than a stream. Otherwise a member that rejoins between two streams subscribes to nothing: it is
   * left without partitions, or the client throws where nobody can catch it.
   */
  function consume(): Promise<MessagesStream> {
    // The client joins for a topic that it does not track yet.
    if (!isMember)
      for (const topic of topics) while (consumer.topics.has(topic)) consumer.topics.untrack(topic);
    const consuming = consumer.consume({
      ...{ topics: [...topics], autocommit: false, mode: 'committed', deserializers: raw },
      fallbackMode: fromBeginning ? 'earliest' : 'latest',
    });
    if (!isMember) consumer.topics.trackAll(...topics);
    return consuming;
  }

  async function open(own: number): Promise<void> {
    if (own < wanted || closing.signal.aborted) return;
    const last = stream;
    dropped.clear();
    if (!isMember) await last?.close().catch(() => {});
    try {
      stream = await consume();
      isMember = true;
      // An error event without a listener ends the process, and nothing reads this stream yet. `readAll` reports the error.
      stream.on('error', () => {});
      opened = own;
    } finally {
      await last?.close().catch(() => {});
    }
  }

  function openNext(): Promise<void> {
    const own = ++wanted;
    opening = opening.catch(() => {}).then(() => open(own));
    // `readOn` awaits it too, and reports the error.
    opening.catch(() => {});
    return opening;
  }

  async function readAll(sink: RecordSink): Promise<void> {
    const own = opened;
    for await (const message of stream as MessagesStream) {
      const record = recordOf(message);
      lookAtAssignments();
      if (own === wanted) await sink.whenNotFull(record);
      if (closing.signal.aborted) return;
      if (own !== wanted) continue;
      if (sink.stateOf(record) === 'waits') dropped.add(keyOf(record));
      else if (!dropped.has(keyOf(record))) sink.push(record);
    }
    if (own === wanted) throw new Error('the stream has ended');
  }

  /** A stream ends at the first error of its client. */
  async function readOn(sink: RecordSink): Promise<void> {
    for (let failures = 0; !closing.signal.aborted; ) {
      const begun = performance.now();
      try {
        await opening;
        await readAll(sink);
      } catch (error) {
        if (closing.signal.aborted) return;
        if (performance.now() - begun > 30_000) failures = 0;
        onTrouble(error);
        if (await waited(++failures, closing.signal)) void openNext();
      }
    }
  }

  function hasLeft(error: unknown): void {
    if (!isMember || closing.signal.aborted) return;
    isMember = false;
    onTrouble(error);
    void openNext();
  }

  // The client has given up a rejoin, and no longer sends heartbeats. Without a listener, this event ends the process. It may come after
  // `close`, so the listener stays.
  consumer.on('error', hasLeft);
  // With `groupProtocol: 'consumer'` the client does not join again when the broker no longer knows it.
  consumer.on('consumer:heartbeat:error', ({ error }: { error: { response?: { errorCode?: number } } }) => {
    if (error.response?.errorCode === unknownMemberId) hasLeft(error);
  });

  return {
    async start(sink) {
      // Compares the property: with `groupProtocol: 'consumer'` no event reports assignments.
      lookAtAssignments = () => {
        if (consumer.assignments === assignments) return;
        assignments = consumer.assignments;
        const partitions = (assignments ?? []).flatMap(({ topic, partitions }) =>
          partitions.map((partition) => ({ topic, partition })),
        );
        sink.assigned(partitions);
        const before = ours;
        ours = new Set(partitions.map(keyOf));
        if ([...before].some((key) => !ours.has(key))) void openNext();
      };
      consumer.on(groupJoin, lookAtAssignments);
      await openNext();
      reading = readOn(sink);
    },
    hold() {},
    release(partition) {
      if (dropped.has(keyOf(partition))) void openNext();
    },
    commit(commits) {
      lookAtAssignments();
      return consumer.commit({
        offsets: commits.map((commit) => ({ ...commit, leaderEpoch: commit.leaderEpoch ?? -1 })),
      });
    },
    async close() {
      closing.abort();
      consumer.removeListener(groupJoin, lookAtAssignments);
      await opening.catch(() => {});
      await stream?.close().catch(() => {});
      try {
        await consumer.close(true);
      } catch (error) {
        // A client that cannot leave its group stays open, and keeps the process. Without an id it has no group to leave.
        consumer.memberId = null;
        await consumer.close(true);
        throw error;
      }
      await reading;
    },
  };
}

function recordOf(message: PlatformaticMessage): ConsumedRecord {
  const { topic, partition, offset, key, value, timestamp, leaderEpoch } = message;
  const headers: Record<string, string> = {};
  for (const [name, text] of message.headers)
    if (String(name) !== '__proto__') headers[String(name)] = String(text ?? '');
  return {
    ...{ topic, partition, offset, headers, leaderEpoch, timestamp: Number(timestamp) },
    key: key === undefined || key === null ? null : String(key),
    value: value === undefined || value === null ? null : Buffer.from(value),
  };
}

/** Records of one partition in memory. Above `maxQueued` its source is held; at `fewQueued` it is released. */
const maxQueued = 200;
const fewQueued = 50;

interface PartitionQueuesOptions {
  readonly source: Pick<RecordSource, 'hold' | 'release'>;
  /** Resolves with whether the record is done; its offset is then committed. Never rejects. */
  readonly handle: ReturnType<typeof createHandling>;
  readonly onWaiting: (count: number) => void;
}

interface PartitionQueues extends RecordSink {
  /** The offsets that were handled since the last call. */
  takeCommits(): readonly Commit[];
  /** Offsets that the broker has not stored: returned again with the next ones. */
  giveBack(commits: readonly Commit[]): void;
  /** Starts no further record; resolves when none is in progress. */
  end(): Promise<void>;
  busy(): readonly Partition[];
}

interface PartitionQueue extends Partition {
  readonly records: ConsumedRecord[];
  readonly over: AbortController;
  /** The offset after the last queued record. */
  next: bigint;
  isHeld: boolean;
  isWaiting: boolean;
  /** Resolves when its last record, and the queue before it, are done. */
  work: Promise<void>;
  isWorking: boolean;
  onChange: (() => void)[];
}

/** Handles the records of a partition in order, and partitions side by side. */
function createPartitionQueues({ source, handle, onWaiting }: PartitionQueuesOptions): PartitionQueues {
  const queues = new Map<string, PartitionQueue>();
  let ours: ReadonlySet<string> = new Set();
  const commits = new Map<string, Commit>();
  /** A partition can come back while one of its records is in progress. */
  const left = new Map<string, Promise<void>>();
  const working = new Set<PartitionQueue>();
  let waiting = 0;
  let isEnding = false;

  function changed(queue: PartitionQueue): void {
    const told = queue.onChange;
    queue.onChange = [];
    for (const tell of told) tell();
  }

  function setWaiting(queue: PartitionQueue, isWaiting: boolean): void {
    if (queue.isWaiting === isWaiting) return;
    queue.isWaiting = isWaiting;
    waiting += isWaiting ? 1 : -1;
    onWaiting(waiting);
    changed(queue);
  }

  async function run(queue: PartitionQueue): Promise<void> {
    queue.isWorking = true;
    working.add(queue);
    const { signal } = queue.over;
    for (let record = queue.records.shift(); record !== undefined; record = queue.records.shift()) {
      const isDone = await handle(record, { signal, waits: (isWaiting) => setWaiting(queue, isWaiting) });
      setWaiting(queue, false);
      if (!isDone) break;
      const { topic, partition, offset, leaderEpoch } = record;
      // For a partition that has moved nothing is committed: its new owner continues from its own offsets.
      if (queues.get(keyOf(queue)) === queue)
        commits.set(keyOf(queue), { topic, partition, offset: offset + 1n, leaderEpoch });
      if (queue.records.length < maxQueued) changed(queue);
      if (queue.isHeld && queue.records.length <= fewQueued && !signal.aborted) {
        queue.isHeld = false;
        source.release(queue);
      }
    }
    queue.isWorking = false;
    working.delete(queue);
  }

  function queueOf(partition: Partition): PartitionQueue {
    const key = keyOf(partition);
    const known = queues.get(key);
    if (known !== undefined) return known;
    const queue: PartitionQueue = {
      ...{ topic: partition.topic, partition: partition.partition, records: [], over: new AbortController() },
      ...{ next: -1n, isHeld: false, isWaiting: false, isWorking: false, onChange: [] },
      work: left.get(key) ?? Promise.resolve(),
    };
    queues.set(key, queue);
    return queue;
  }

  function leave(queue: PartitionQueue): void {
    const key = keyOf(queue);
    queues.delete(key);
    commits.delete(key);
    queue.records.length = 0;
    queue.over.abort();
    changed(queue);
    if (queue.isHeld) source.release(queue);
    left.set(key, queue.work);
    void queue.work.then(() => {
      if (left.get(key) === queue.work) left.delete(key);
    });
  }

  function stateOf(partition: Partition): ReturnType<RecordSink['stateOf']> {
    const queue = queues.get(keyOf(partition));
    if (queue === undefined || queue.records.length < maxQueued) return 'free';
    return queue.isWaiting ? 'waits' : 'full';
  }

  return {
    stateOf,
    whenNotFull: (partition) =>
      stateOf(partition) === 'full'
        ? new Promise((resolve) => queueOf(partition).onChange.push(resolve))
        : Promise.resolve(),
    push(record) {
      // A client may have read ahead in a partition that has moved, and whose new owner starts at an earlier record.
      if (isEnding || !ours.has(keyOf(record))) return;
      const queue = queueOf(record);
      // After a rebalance a client starts at the last committed offset.
      if (record.offset < queue.next) return;
      queue.next = record.offset + 1n;
      queue.records.push(record);
      if (!queue.isHeld && queue.records.length >= maxQueued) {
        queue.isHeld = true;
        source.hold(queue);
      }
      if (!queue.isWorking) {
        queue.isWorking = true;
        queue.work = queue.work.then(() => run(queue));
      }
    },
    assigned(partitions) {
      ours = new Set(partitions.map(keyOf));
      for (const queue of [...queues.values()])
        if (!ours.has(keyOf(queue))) leave(queue);
        // A restarted client does not know that the partition is held.
        else if (queue.isHeld) source.hold(queue);
    },
    takeCommits() {
      const taken = [...commits.values()];
      commits.clear();
      return taken;
    },
    giveBack(given) {
      for (const commit of given) {
        const key = keyOf(commit);
        if (queues.has(key) && !commits.has(key)) commits.set(key, commit);
      }
    },
    async end() {
      isEnding = true;
      for (const queue of queues.values()) {
        queue.records.length = 0;
        queue.over.abort();
        changed(queue);
      }
      await Promise.all([...[...queues.values()].map(({ work }) => work), ...left.values()]);
    },
    busy: () => [...working].map(({ topic, partition }) => ({ topic, partition })),
  };
}
