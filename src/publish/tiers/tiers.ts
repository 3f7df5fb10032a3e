// tiers/: where events go that their topic did not take: dead letters, then backups, then the alert.

import { AsyncResource } from 'node:async_hooks';
import { readdirSync } from 'node:fs';
import type { Config } from '../../config/config.ts';
import { clock, inTime, within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { loadChunk } from '../../ground/lifecycle.ts';
import { logger, type ThrottledLog, throttledLog } from '../../observe/logger.ts';
import type { BackupState } from '../../observe/metrics.ts';
import { isolate } from '../../observe/otel-api.ts';
import {
  type Ledger,
  maxRecentDlqEvents,
  type Outcome,
  type RecentDlqEvent,
} from '../../observe/outcomes.ts';
import type { createLossAlert } from '../api/caller-wait.ts';
import {
  type Broker,
  createSendSlots,
  doubtsCount,
  faultOf,
  nameOf,
  partitionOf,
  partitionOfKey,
  type SendFailure,
  type SendFailureKind,
} from '../broker.ts';
import type { ClusterState } from '../main/cluster-state.ts';
import { createBackupOrder, isSpilled, type KeyOrder } from '../order/backup-order.ts';
import type * as Recovery from '../recovery/recover.ts';
import { type BatchLimits, createMemory, createSender, type MemoryLimits } from '../sender/sender.ts';
import {
  type BackupEvent,
  type EventBackupStrategy,
  type FailedEvent,
  registeredBackupStrategies,
} from '../tier.ts';
import type { TopicReader } from '../topic-reader.ts';
import { type DlqFormat, toDlqRecord, toSmallerDlqRecord } from './dlq-message.ts';

/**
 * Stores events that their topic did not take.
 *
 * - `store` resolves with `true` when the event is stored, and with `false` when the next tier must be tried. It never rejects, and
 *   it references the event before it returns. Any number may run at once. The tier bounds its own memory.
 * - `store` is called in the AsyncLocalStorage context of the call that the event is from.
 * - `close` flushes: each `store` has its answer when it resolves, at `deadlineMs` at the latest.
 */
export interface Tier {
  readonly name: 'dlq' | 'backup';
  store(failed: FailedEvent): Promise<boolean>;
  close(deadlineMs: number): Promise<void>;
}

type Drain = ReturnType<typeof Recovery.startDrain>;
type DrainParts = Parameters<typeof Recovery.startDrain>[0];

/** The local backup. */
type LocalFiles = EventBackupStrategy &
  DrainParts['files'] & { endSync(): void; state(): Partial<BackupState> | undefined };

interface TiersParts {
  readonly broker: Broker;
  readonly ledger: Ledger;
  readonly alert: Pick<ReturnType<typeof createLossAlert>, 'lost'>;
  /** While it is away, its dead letter topic is skipped. */
  readonly cluster: Pick<ClusterState, 'isAway' | 'isThere' | 'answered'>;
  readonly openS3: () => EventBackupStrategy;
  /** `isJournal`: only this process reads what it has stored. */
  readonly openLocal: (isJournal: boolean) => LocalFiles;
  readonly openSource: DrainParts['openSource'];
  /** `undefined`: the topics of this client cannot be read. */
  readonly openReader: ((topic: string) => Promise<TopicReader>) | undefined;
}

/** The shares of `svc.broker.delivery-timeout-ms`. The tiers behind the topic get a quarter, two seconds at most. */
export function deliveryTimesOf({ broker: { deliveryTimeoutMs } }: Config) {
  const tiersMs = Math.min(Math.floor(deliveryTimeoutMs / 4), 2_000);
  return { topicMs: deliveryTimeoutMs - tiersMs, tiersMs };
}

const nothingWaits = { files: 0, events: 0, bytes: 0, tooLarge: 0 };

/** The tiers behind the main topic: dead letter topic, backup, lost; and what empties the backup. */
export function createTiers(config: Config, parts: TiersParts) {
  const { broker, cluster, ledger, alert, openSource, openReader } = parts;
  const { dlqTopic, dlqFormat, dlqBackupPath: directory, backup } = config.broker;
  const drains = backup.localEnabled && backup.drain.enabled;
  const isJournal = drains && backup.format === 'journal' && backup.drain.order !== 'none';
  const local = backup.localEnabled ? parts.openLocal(isJournal) : undefined;
  const order = isJournal ? createBackupOrder({ partitionOfKey }) : undefined;
  const s3 = backup.s3Enabled && backup.s3Bucket !== undefined ? parts.openS3() : undefined;
  const configured = [s3, local].filter((strategy) => strategy !== undefined);
  const backupTier = createBackupTier({
    strategies: () => [...registeredBackupStrategies(), ...configured],
    drained: local,
    onDrainable: order?.stored,
  });
  const dlqTier =
    dlqTopic === undefined
      ? undefined
      : createDlqTier({
          ...{ broker, cluster, topic: dlqTopic, format: dlqFormat, partitionOf },
          leastTimeMs: deliveryTimesOf(config).tiersMs / 2,
          onSendFailed: ledger.brokerFailed,
        });
  const { kept, recentDlq } = createTierLog();
  const onLost = ({ event, topic, failure }: FailedEvent): void => alert.lost(event, topic, failure);
  const chain = createTierChain({
    tiers: dlqTier === undefined ? [backupTier] : [dlqTier, backupTier],
    onKept: kept,
    onDlqFailed: ({ event }) => ledger.dlqFailed(event.eventType),
    onLost,
  });
  const drain =
    local !== undefined && drains
      ? drainLater(directory, {
          start(mayHaveBacklog) {
            const { startDrain } = loadChunk(import.meta.url, '../recovery/recover.ts') as typeof Recovery;
            const ratePerSecond = backup.drain.rate;
            return startDrain({
              ...{ files: local, openSource, broker, cluster, order, mayHaveBacklog, ratePerSecond },
            });
          },
          onNothingLeft: () => order?.earlierRun({ topics: new Set() }),
        })
      : undefined;

  return {
    recentDlq,
    /** Keeps new events in order with those in the backup. `undefined`: there is no such order. */
    order: order as KeyOrder | undefined,
    async next(failed: FailedEvent): Promise<Outcome> {
      const outcome = await chain.next(failed);
      if (outcome === 'backup') drain?.stored();
      return outcome;
    },
    /** Makes the open files of the local backup readable for others. `undefined`: only this process empties its backup. */
    finishBackup: isJournal ? undefined : local?.finishSegments,
    /** A thread of this process has ended: its events in the backup are sent at once. */
    threadEnded(): void {
      void local?.recount();
      drain?.look();
    },
    /** The contents of the local backup, and how many events were drained. */
    backup: (): BackupState => ({
      ...nothingWaits,
      ...local?.state(),
      drained: drain?.count() ?? 0,
      oldestMs: order?.oldestMs() ?? 0,
    }),
    dlqWaiting:
      dlqTopic === undefined || openReader === undefined
        ? () => null
        : createDlqWaiting(() => openReader(dlqTopic)),
    /** At the exit of the process, synchronously: stores these events and those in the tiers. Returns how many were stored. */
    storeSync(failed: Iterable<FailedEvent>): number {
      const count = backupTier.storeSync([...new Set([...failed, ...chain.inFlight()])]);
      local?.endSync();
      return count;
    },
    /** Stores a later event. Returns `false` after it has reported the loss. */
    storeLateSync(failed: FailedEvent): boolean {
      const isStored = backupTier.storeSync([failed]) === 1;
      if (!isStored) onLost(failed);
      return isStored;
    },
    async close(deadlineMs: number): Promise<void> {
      const end = clock.monotonic() + deadlineMs;
      const draining = drain?.close();
      // The drain notes its events in flight before the files are handed over.
      if (draining !== undefined && isJournal) await within(deadlineMs / 2, draining);
      await chain.close(Math.max(0, end - clock.monotonic()));
      if (draining !== undefined) await within(Math.max(0, end - clock.monotonic()), draining);
    },
  };
}

/** How long an answer, or the lack of one, is reused. */
const freshMs = 60_000;

/** Counts unrecovered dead letters in the background, at most once a minute and only on request. `null`: unknown. */
export function createDlqWaiting(
  openReader: () => Promise<Pick<TopicReader, 'open' | 'count' | 'close'>>,
): () => number | null {
  let waiting: number | null = null;
  let isAsking = false;
  let askAtMs = Number.NEGATIVE_INFINITY;

  async function count(): Promise<number> {
    const reader = await openReader();
    try {
      await reader.open(false);
      return await reader.count();
    } finally {
      await reader.close();
    }
  }

  async function ask(): Promise<void> {
    isAsking = true;
    try {
      waiting = await isolate(count);
    } catch (error) {
      waiting = null;
      logger.debug(`svc cannot count the dead letters: ${(error as Error).message}`);
    }
    isAsking = false;
    askAtMs = clock.monotonic() + freshMs;
  }

  return () => {
    if (!isAsking && clock.monotonic() >= askAtMs) void ask();
    return waiting;
  };
}

/** Whether another process may have left events. They are drained from the start. */
function mayHoldEvents(path: string): boolean {
  try {
    return readdirSync(path).some((name) => /\.(json|ndjson)(\.open)?$|^svc-backup-/.test(name));
  } catch {
    return false;
  }
}

/** The first look for events of other processes, if the folder was empty at the start. */
const firstLookMs = 60_000;

interface DrainLaterOptions {
  readonly start: (mayHaveBacklog: boolean) => Drain;
  /** No other process has left events. */
  readonly onNothingLeft: () => void;
}

/** Loads the drain at the first event in the backup, because most processes never have one. */
function drainLater(directory: string, { start, onNothingLeft }: DrainLaterOptions): Drain {
  // An event may start it: timers and sends must not keep the context of that call.
  const outside = new AsyncResource('svc');
  const mayHaveBacklog = mayHoldEvents(directory);
  let drain: Drain | undefined;
  let isClosed = false;
  const started = (): Drain => {
    drain ??= start(mayHaveBacklog);
    return drain;
  };
  if (mayHaveBacklog) started();
  else onNothingLeft();
  const timer = setTimeout(started, firstLookMs).unref();
  return {
    stored() {
      if (!isClosed) outside.runInAsyncScope(() => started().stored());
    },
    look() {
      if (!isClosed && (drain !== undefined || mayHoldEvents(directory)))
        outside.runInAsyncScope(() => started().look());
    },
    count: () => drain?.count() ?? 0,
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await drain?.close();
    },
  };
}

interface TierChainOptions {
  /** In the order in which they are tried, without those that are not configured. */
  readonly tiers: readonly Tier[];
  readonly onKept: (name: Tier['name'], failed: FailedEvent) => void;
  readonly onDlqFailed: (failed: FailedEvent) => void;
  /** No tier stored it: raises the alert. */
  readonly onLost: (failed: FailedEvent) => void;
}

/** Tries the tiers in order. Each event ends in exactly one of them, or is lost. */
export function createTierChain(options: TierChainOptions) {
  const inFlight = new Set<FailedEvent>();
  const limiter = createConcurrencyLimiter();

  async function firstThatStores(failed: FailedEvent): Promise<Tier['name'] | 'lost'> {
    const { endedBy } = failed.failure;
    const isBehind = isSpilled(failed.failure);
    // Spilled events go to the backup, and elsewhere only if they would be lost.
    for (const tier of isBehind ? options.tiers.toReversed() : options.tiers) {
      // A process that ends has no time for a topic: the backup is sent later. With a wrong clock, or without the schema registry,
      // the event can be sent unchanged later, so a dead letter would not help.
      const fault = faultOf(failed.failure);
      const isNoLetter = endedBy === 'shutdown' || fault === 'clock' || fault === 'registry';
      if (tier.name === 'dlq' && isNoLetter && options.tiers.length > 1) continue;
      if (await isStored(tier, failed)) {
        options.onKept(tier.name, failed);
        return tier.name;
      }
      if (tier.name === 'dlq') options.onDlqFailed(failed);
    }
    if (endedBy !== 'behind-unless-full') options.onLost(failed);
    return 'lost';
  }

  /** `await` in `try`, because a call of `catch` could fail at the end of the stack. */
  async function isStored(tier: Tier, failed: FailedEvent): Promise<boolean> {
    try {
      return await tier.store(failed);
    } catch {
      return false;
    }
  }

  return {
    async next(failed: FailedEvent): Promise<Outcome> {
      inFlight.add(failed);
      // Continues on a new stack: the application's may be used up.
      await limiter.acquire(failed.record.value.length);
      try {
        return await firstThatStores(failed);
      } finally {
        limiter.release();
        inFlight.delete(failed);
      }
    },
    /** Events without an answer of a tier yet. The end of the process must save them. */
    inFlight: (): Iterable<FailedEvent> => inFlight,
    async close(deadlineMs: number): Promise<void> {
      const end = clock.monotonic() + deadlineMs;
      limiter.open();
      // Events that may begin do so first.
      await undefined;
      // In sequence: events that the dead letter topic refuses go to the backup.
      for (const tier of options.tiers) await tier.close(Math.max(0, end - clock.monotonic()));
    },
  };
}

interface ConcurrencyLimits {
  /** Events in the tiers at once. Each takes some 9 KB of promises and closures, and 3 KB before (measured). */
  readonly maxOnTheWay: number;
  /** Events that wait. Beyond it the first one begins: the tiers have their own limits. */
  readonly waiting: MemoryLimits;
}

export const usualLimits: ConcurrencyLimits = {
  maxOnTheWay: 1_000,
  waiting: { maxEvents: 10_000, maxBytes: 32 * 1024 * 1024 },
};

/** Limits how many events enter the tiers at once, in FIFO order: an outage sends thousands in one turn. */
export function createConcurrencyLimiter(limits = usualLimits) {
  const memory = createMemory(limits.waiting);
  const waiting: (() => void)[] = [];
  let { maxOnTheWay } = limits;
  let onTheWay = 0;

  const beginFirst = (): void => waiting.shift()?.();

  return {
    /** Resolves when an event of this size may begin. */
    acquire(bytes: number): Promise<void> {
      while (onTheWay >= maxOnTheWay || waiting.length > 0) {
        if (memory.reserve(bytes)) {
          return new Promise((resolve) => {
            waiting.push(() => {
              memory.release(bytes);
              onTheWay++;
              resolve();
            });
          });
        }
        if (waiting.length === 0) break;
        beginFirst();
      }
      onTheWay++;
      return Promise.resolve();
    },
    /** An acquired event has its outcome. */
    release() {
      onTheWay--;
      if (onTheWay < maxOnTheWay) beginFirst();
    },
    /** Lets all waiting and later events begin. */
    open() {
      maxOnTheWay = Number.POSITIVE_INFINITY;
      while (waiting.length > 0) beginFirst();
    },
  };
}

const places: Readonly<Record<Tier['name'], string>> = { dlq: 'dead letter topic', backup: 'backup' };

/** Logs events that did not reach their topic, without payloads. */
export function createTierLog() {
  const warn = throttledLog({ level: 'warn' });
  const sayError = throttledLog();
  let recent: readonly RecentDlqEvent[] = [];
  return {
    /** Throttled: a few lines, however many events there are. */
    kept(tier: Tier['name'], { event: { eventId, eventType }, topic, failure }: FailedEvent): void {
      const { cause, message } = failure;
      // Nothing of this machine is published until its clock is set.
      const say = faultOf(failure) === 'clock' ? sayError : warn;
      const fields = { eventId, eventType, topic, cause };
      say(`${tier} ${cause}`, `event kept in the ${places[tier]}: ${message}`, fields);
      if (tier !== 'dlq') return;
      const one = { eventType, failureReason: `${cause}: ${message}`, timestampMs: clock.now() };
      recent = [one, ...recent].slice(0, maxRecentDlqEvents);
    },
    /** The last events in the dead letter topic, newest first. */
    recentDlq: () => recent,
  };
}

export interface DlqOptions {
  readonly broker: Pick<Broker, 'send' | 'partitionsFor'>;
  readonly topic: string;
  readonly format: DlqFormat;
  readonly partitionOf: (key: string | null, partitionCount: number) => number;
  /** The single try takes the rest of its events' delivery time, at least this. */
  readonly leastTimeMs: number;
  /** While it is away, events go to the next tier at once. */
  readonly cluster: Pick<ClusterState, 'isAway'>;
  readonly onSendFailed: (kind: SendFailureKind) => void;
}

interface Letter {
  readonly failed: FailedEvent;
  readonly settle: (stored: boolean) => void;
  /** The full letter was too large: the event is tried alone. */
  isSmaller: boolean;
}

const maxBatch: BatchLimits = { maxEvents: 250, maxBytes: 512 * 1024 };
const maxWaitingCount = 10_000;
const maxWaitingBytes = 32 * 1024 * 1024;
/** After a failure of the topic itself, events skip it this long. Then one batch tries again. */
const pauseMs = 5_000;

/**
 * The dead letter topic. It is tried once, because the retries are used up. Dead letters of one partition are sent in order, one
 * send at a time. A letter too large for the topic is replaced by the smaller event alone; if that fails, it goes to the next tier.
 */
export function createDlqTier(options: DlqOptions): Tier {
  const { broker, topic } = options;
  const say = throttledLog({ intervalMs: pauseMs, saysLeftOut: false });
  let waiting: Letter[] = [];
  let count = 0;
  let bytes = 0;
  let isSending = false;
  let pausedUntilMs = Number.NEGATIVE_INFINITY;
  let partitionCount: number | undefined;
  /** The cluster did not know the topic when it was last asked. */
  let isMissing = false;
  const onIdle: (() => void)[] = [];
  const sender = createSender<Letter>({
    ...{ bytesOf, limits: maxBatch, maxInFlight: Number.POSITIVE_INFINITY },
    toRecord: ({ failed, isSmaller }, nowMs) =>
      isSmaller ? toSmallerDlqRecord(failed, 'value', nowMs) : toDlqRecord(failed, options.format, nowMs),
    send: ({ partition }, records) => isolate(() => broker.send(topic, partition, records)),
    timeLimit: { limitMs: timeLeftMs, keepsAlive: true, late: () => (isMissing ? tooLateToBeMade : tooLate) },
    mayGo(letter, { isLate }) {
      if (!isClosed() && !isLate) return 'send';
      settle([letter], false);
      return 'ended';
    },
    onStored: (_, letters) => settle(letters, true),
    onFailed(_, { events: letters }, failure, { isSplit }) {
      const { kind, cause, message } = failure;
      options.onSendFailed(kind);
      // It may have been created again, with fewer partitions.
      if (doubtsCount(failure)) partitionCount = undefined;
      const [letter] = letters;
      if (isSplit || letter === undefined) return 'ended';
      if (kind === 'too_large' && !letter.isSmaller) {
        letter.isSmaller = true;
        return 'rebuild';
      }
      if (kind !== 'too_large') say(cause, `dead letter topic "${topic}": ${message}`, { kind, cause });
      // An error of one letter says nothing about the others.
      if (faultOf(failure) !== 'record') pausedUntilMs = clock.monotonic() + pauseMs;
      settle(letters, false);
      return 'ended';
    },
  });

  function settle(letters: readonly Letter[], stored: boolean): void {
    for (const { failed, settle: answer } of letters) {
      count--;
      bytes -= failed.record.value.length;
      answer(stored);
    }
  }

  function isClosed(): boolean {
    return options.cluster.isAway || clock.monotonic() < pausedUntilMs;
  }

  /** Of the letter with the latest deadline. */
  function timeLeftMs(letters: readonly Letter[]): number {
    const deadlines = letters.map(({ failed }) => failed.deadlineAtMs ?? Number.POSITIVE_INFINITY);
    return Math.max(options.leastTimeMs, Math.max(...deadlines) - clock.monotonic());
  }

  async function sendAll(letters: readonly Letter[]): Promise<void> {
    if (partitionCount === undefined) {
      const asking = isolate(() => broker.partitionsFor(topic)).then(
        (count) => {
          isMissing = count === undefined;
          return count;
        },
        () => undefined,
      );
      partitionCount = await inTime(asking, {
        limitMs: timeLeftMs(letters),
        keepsAlive: true,
        late: () => undefined,
      });
    }
    for (const letter of letters) {
      const { key } = letter.failed.record;
      const count = partitionCount;
      sender.put(letter, topic, count === undefined ? undefined : options.partitionOf(key, count));
    }
    await sender.idle();
  }

  async function pump(): Promise<void> {
    // One round at a time keeps the order of each partition, even if the number of partitions becomes known in between.
    while (waiting.length > 0) {
      const letters = waiting;
      waiting = [];
      await sendAll(letters);
    }
    isSending = false;
    for (const resolve of onIdle.splice(0)) resolve();
  }

  return {
    name: 'dlq',
    store(failed) {
      const size = failed.record.value.length;
      if (isClosed() || count >= maxWaitingCount || bytes + size > maxWaitingBytes)
        return Promise.resolve(false);
      count++;
      bytes += size;
      return new Promise((answer) => {
        waiting.push({ failed, settle: answer, isSmaller: false });
        if (isSending) return;
        isSending = true;
        setImmediate(() => void pump());
      });
    },
    async close(deadlineMs) {
      if (count > 0) await within(deadlineMs, new Promise<void>((resolve) => onIdle.push(resolve)));
    },
  };
}

const bytesOf = ({ failed }: Letter): number => failed.record.value.length;

const tooLate: SendFailure = {
  kind: 'unknown_outcome',
  cause: 'TimeoutException',
  message: 'no answer within the time of its events (svc.broker.delivery-timeout-ms)',
};
/** With automatic creation the topic would exist by then. */
const tooLateToBeMade: SendFailure = {
  ...tooLate,
  message: `${tooLate.message}: it does not exist: create it, or set auto.create.topics.enable on the brokers`,
};

interface BackupTierOptions {
  /** In the order in which they are tried. Called for each event, because applications may register theirs at any time. */
  readonly strategies: () => readonly EventBackupStrategy[];
  /** The strategy whose events are drained. Spilled events are given to it first, even when it is busy. */
  readonly drained?: EventBackupStrategy | undefined;
  /** The drained strategy has stored an event. */
  readonly onDrainable?: ((failed: FailedEvent) => void) | undefined;
}

interface BackupTier extends Tier {
  readonly name: 'backup';
  /** For the end of the process. Synchronous; returns how many events are stored. */
  storeSync(failed: readonly FailedEvent[]): number;
}

/**
 * How long a failed strategy is skipped if another one follows: an S3 that hangs costs one wait, not one per event. Also the
 * minimum interval of log lines about it.
 */
const backupPauseMs = 5_000;
/** A `store` that takes longer has failed. */
const answerMs = 30_000;
/** Concurrent stores in one strategy. Further events go to the next one. */
const maxInFlight = 256;
/** Concurrent second tries of events that no strategy took. */
const maxSecondTries = 32;
/** Events that wait for their second try. Further ones are lost. */
const maxWaiting = 10_000;
/** Bytes that wait for their second try, and bytes in flight in one strategy: a strategy that hangs must not fill the memory. */
const maxBytes = 128 * 1024 * 1024;

interface StrategyState {
  readonly inFlight: ReturnType<typeof createMemory>;
  readonly say: ThrottledLog;
  pausedUntilMs: number;
}

/** Tries backup strategies in order. The first one that stores an event keeps it. */
export function createBackupTier(options: BackupTierOptions): BackupTier {
  const states = new WeakMap<EventBackupStrategy, StrategyState>();
  const secondTries = createSendSlots(maxSecondTries);
  const waiting = createMemory({ maxEvents: maxWaiting, maxBytes });
  let inFlight = 0;
  const onIdle: (() => void)[] = [];

  function stateOf(strategy: EventBackupStrategy): StrategyState {
    let state = states.get(strategy);
    if (state === undefined) {
      state = {
        inFlight: createMemory({ maxEvents: Number.POSITIVE_INFINITY, maxBytes }),
        say: throttledLog({ intervalMs: backupPauseMs, saysLeftOut: false }),
        pausedUntilMs: Number.NEGATIVE_INFINITY,
      };
      states.set(strategy, state);
    }
    return state;
  }

  function report(strategy: EventBackupStrategy, state: StrategyState, error: unknown): void {
    state.pausedUntilMs = clock.monotonic() + backupPauseMs;
    state.say('', `backup "${strategy.name}" failed: ${reasonOf(error)}`);
  }

  async function tryOne(strategy: EventBackupStrategy, event: BackupEvent): Promise<boolean> {
    const state = stateOf(strategy);
    const size = event.value.length;
    if (!state.inFlight.reserve(size)) {
      report(strategy, state, tooSlow(state.inFlight.bytes));
      return false;
    }
    try {
      // In plain JavaScript it may store synchronously and return nothing.
      const storing = isolate(async () => strategy.store(event));
      await inTime(storing, { limitMs: answerMs, keepsAlive: false, late: noAnswer });
      return true;
    } catch (error) {
      report(strategy, state, error);
      return false;
    } finally {
      state.inFlight.release(size);
    }
  }

  async function store(failed: FailedEvent): Promise<boolean> {
    const event = toBackupEvent(failed, clock.now());
    const { drained } = options;
    const isFirst = isSpilled(failed.failure) ? drained : undefined;
    const strategies = inOrder(options.strategies(), isFirst);
    for (const [index, strategy] of strategies.entries()) {
      const isLast = index === strategies.length - 1;
      const state = stateOf(strategy);
      const isBusy = state.inFlight.events >= maxInFlight || clock.monotonic() < state.pausedUntilMs;
      if (isBusy && !isLast && strategy !== isFirst) continue;
      if (!(await tryOne(strategy, event))) continue;
      if (strategy === drained) options.onDrainable?.(failed);
      return true;
    }
    return strategies.length > 1 && tryAgain(strategies.slice(0, -1), event, failed);
  }

  /**
   * Before an event is lost, all strategies but the last one are tried again, a few events at a time. They were busy, or too slow
   * to answer in time.
   */
  async function tryAgain(
    strategies: readonly EventBackupStrategy[],
    event: BackupEvent,
    failed: FailedEvent,
  ): Promise<boolean> {
    const size = event.value.length;
    if (!waiting.reserve(size)) return false;
    await new Promise<void>((resolve) => secondTries.acquire(resolve));
    waiting.release(size);
    try {
      for (const strategy of strategies) {
        if (!(await tryOne(strategy, event))) continue;
        if (strategy === options.drained) options.onDrainable?.(failed);
        return true;
      }
      return false;
    } finally {
      secondTries.release();
    }
  }

  return {
    name: 'backup',
    async store(failed) {
      inFlight++;
      const stored = await store(failed);
      inFlight--;
      if (inFlight === 0) for (const resolve of onIdle.splice(0)) resolve();
      return stored;
    },
    storeSync(failed) {
      const events = failed.map((one) => toBackupEvent(one, clock.now()));
      for (const strategy of options.strategies()) {
        if (strategy.storeSync === undefined || events.length === 0) continue;
        try {
          const left: unknown = strategy.storeSync(events);
          if (left instanceof Promise) throw notSync(left);
          return events.length;
        } catch (error) {
          logger.error(`backup "${strategy.name}" failed: ${reasonOf(error)}`);
        }
      }
      return 0;
    },
    async close(deadlineMs) {
      const end = clock.monotonic() + deadlineMs;
      if (inFlight > 0) await within(deadlineMs, new Promise<void>((resolve) => onIdle.push(resolve)));
      const rest = Math.max(0, end - clock.monotonic());
      const closing = options.strategies().map((strategy) => closed(strategy, rest));
      await within(rest, Promise.all(closing));
    },
  };
}

function inOrder(
  strategies: readonly EventBackupStrategy[],
  first: EventBackupStrategy | undefined,
): readonly EventBackupStrategy[] {
  if (first === undefined) return strategies;
  return [first, ...strategies.filter((strategy) => strategy !== first)];
}

function toBackupEvent({ event, topic, record, failure }: FailedEvent, nowMs: number): BackupEvent {
  const { eventId, eventType } = event;
  const { key, headers, value } = record;
  const { form } = event.value;
  const document = form.toJson && { document: form.toJson(value) };
  const reason = failure.cause;
  return { eventId, eventType, topic, key, headers, value, ...document, reason, backedUpAt: nowMs };
}

/** A strategy that throws must not prevent the close of the others. */
async function closed(strategy: EventBackupStrategy, deadlineMs: number): Promise<void> {
  try {
    await strategy.close?.(deadlineMs);
  } catch {
    // Its events already have their answers.
  }
}

/** Only svc's own errors are known to hold no payload. */
function reasonOf(error: unknown): string {
  if (error instanceof SvcError) return error.message;
  const { code } = (error ?? {}) as { code?: unknown };
  if (typeof code === 'string' && /^[A-Z_]+$/.test(code)) return code;
  return nameOf(error);
}

function tooSlow(bytes: number): SvcError {
  return new SvcError('SVC_PUBLISH_BACKUP_FAILED', `it is too slow: ${bytes} bytes wait for its answer`);
}

function notSync(left: Promise<unknown>): SvcError {
  left.catch(() => {});
  return new SvcError(
    'SVC_PUBLISH_BACKUP_FAILED',
    'its storeSync returns a promise, but the ending process cannot wait for it',
  );
}

function noAnswer(): never {
  throw new SvcError('SVC_PUBLISH_BACKUP_FAILED', `no answer within ${answerMs / 1000} s`);
}
