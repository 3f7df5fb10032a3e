import { within } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { isNamedValues, optionsProblem, plainObject } from '../ground/names.ts';
import { consoleLogger } from '../observe/logger.ts';
import { type ConsumedCounts, consumedBy } from '../observe/outcomes.ts';
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
import { type InboxOnce, nameOf, watchRetention } from './inbox.ts';
import { createPartitionQueues, sourceOf } from './source.ts';

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
   * handles their events again.
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
    onRead: watchRetention(inbox, logger),
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
    await commit();
    await source.close();
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
function atMost(most: number): () => Promise<() => void> {
  let inside = 0;
  const waiting: (() => void)[] = [];
  return async () => {
    if (inside >= most) await new Promise<void>((resolve) => waiting.push(resolve));
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
