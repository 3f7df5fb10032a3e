// recovery/: sends dead letters and backups to their topics.

import { sleep } from '../../ground/builtins.ts';
import { backoffMs, clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import { logger, throttledLog } from '../../observe/logger.ts';
import { isolate } from '../../observe/otel-api.ts';
import {
  type Broker,
  type BrokerRecord,
  clusterPollMs,
  faultOf,
  partitionOf,
  passingOf,
  type SendFailure,
  type SendResult,
} from '../broker.ts';
import type { ClusterState } from '../main/cluster-state.ts';
import type { createBackupOrder } from '../order/backup-order.ts';
import type { RecoverySource, StoredEvent, Unreadable } from '../recovery-source.ts';
import {
  type Batch,
  brokenPromise,
  createSender,
  type TopicPartition,
  type UncertainBatches,
} from '../sender/sender.ts';

interface RecoverOptions {
  readonly source: RecoverySource;
  readonly send: (
    topic: string,
    partition: number | undefined,
    records: readonly BrokerRecord[],
  ) => Promise<SendResult>;
  readonly partitionsFor: (topic: string) => Promise<number | undefined>;
  readonly partitionOf: (key: string | null, partitionCount: number) => number;
  /** Filter; other events stay where they are. */
  readonly accept: (event: StoredEvent) => boolean;
  /** For events whose topic is unknown. Default: they stay. */
  readonly fallbackTopic?: string | undefined;
  /** Why nothing may be sent to a topic, in one line. Its events stay. */
  readonly refusalOf?: ((topic: string) => string | undefined) | undefined;
  /**
   * An unsent event holds up later events of its partition, and no others. Partitions are sent in parallel; a failed one does not
   * end the run while others succeed. An event that its topic never takes holds up nothing.
   */
  readonly keepsOrder?: boolean;
  /** With `keepsOrder`: an event holds up later ones. `isRefused`: its topic refused it, or does not exist. */
  readonly onHeldUp?: (event: StoredEvent, isRefused: boolean) => void;
  /** True: no further event would be accepted. */
  readonly isOver?: () => boolean;
  /** Events per second; 0: unlimited. */
  readonly ratePerSecond: number;
  /**
   * Batches of earlier runs with an unknown outcome. They are sent again unchanged, so that a broker recognizes them. Default:
   * none.
   */
  readonly uncertain?: UncertainBatches;
  /** Waits before retries of a failed send. Default: 1 s, 2 s, 4 s. */
  readonly retryWaitsMs?: readonly number[];
  /** Reads and filters only. */
  readonly dryRun: boolean;
  /** The source sets aside events that are too large for their topic, so that later runs skip them. */
  readonly setsAside?: boolean;
  /** Whether the cluster answers. If it does, a large event that fails does not hold up others. */
  readonly isReachable?: () => Promise<boolean>;
  readonly sleep: (ms: number) => Promise<void>;
  /** True: stop after the current batch. */
  readonly isStopped: () => boolean;
  readonly onProgress?: (report: RecoverReport) => void;
  /** Each accepted event, for a list. */
  readonly onEvent?: (event: StoredEvent) => void;
}

export interface RecoverReport {
  /** Accepted by the filters. */
  matched: number;
  /** Rejected by the filters. */
  skipped: number;
  /** Acknowledged, and marked as done. */
  sent: number;
  /** Accepted, but not sent: they stay. */
  failed: number;
  readonly unreadable: Unreadable[];
  /** Too large for their topic, and moved to where later runs skip them. */
  setAside: number;
  /** Why events were not sent, with their number. */
  readonly problems: Map<string, number>;
  /** The cluster is away: the run has ended early. */
  stoppedBy: SendFailure | undefined;
  /** `isStopped` ended the run: events may be left unread. */
  isInterrupted: boolean;
}

const maxBatchCount = 500;
/** Read size with parallel partitions. */
const maxReadCount = 2_000;
const maxSendBytes = 512 * 1024;
const usualWaitsMs = [1_000, 2_000, 4_000];

/**
 * Sends stored events to their topics with the same bytes, key and headers, events of one key in order. Each batch is marked as
 * done after its acknowledgment, so a crash repeats at most one batch. The record's timestamp is the time of sending, because
 * Kafka's retention could delete an old one at once.
 */
export async function recover(options: RecoverOptions): Promise<RecoverReport> {
  const { source, ratePerSecond } = options;
  const report: RecoverReport = {
    matched: 0,
    skipped: 0,
    sent: 0,
    failed: 0,
    setAside: 0,
    unreadable: [],
    problems: new Map(),
    stoppedBy: undefined,
    isInterrupted: false,
  };
  const counts = new Map<string, number>();
  /** Topics that take nothing in this run, and why: a wrong password is not tried again with each event. */
  const refusals = new Map<string, string>();
  /** With `keepsOrder`: partitions that get nothing more in this run, or topics whose partitions are unknown, and why. */
  const heldUp = new Map<string, string>();
  /** Of the current batch. */
  let sent: StoredEvent[] = [];
  /** With `keepsOrder`: a failure of the cluster in the current batch. */
  let away: SendFailure | undefined;
  /** An error thrown by the client, the source or the cluster check. */
  let broken: { readonly error: unknown } | undefined;
  const waitsMs = options.retryWaitsMs ?? usualWaitsMs;
  const sender = createSender<StoredEvent>({
    ...{ bytesOf, mayGo },
    maxInFlight: options.keepsOrder === true ? Number.POSITIVE_INFINITY : 1,
    limits: { maxEvents: maxBatchCount, maxBytes: maxSendBytes },
    uncertain: { batches: options.uncertain ?? new Map(), idOf: ({ eventId }) => eventId },
    toRecord: ({ key, value, headers }, timestamp) => ({ key, value, headers, timestamp }),
    send: ({ topic, partition }, records) =>
      options.send(topic, partition, records).catch((error: unknown) => {
        broken ??= { error };
        return brokenPromise(error);
      }),
    onStored: (_, events) => void sent.push(...events),
    onFailed(to, batch, failure, { isSplit }) {
      if (isSplit || broken !== undefined) return 'ended';
      return failed(to, batch, failure).catch((error: unknown) => {
        broken ??= { error };
        return 'ended' as const;
      });
    },
  });
  const max = options.keepsOrder === true ? maxReadCount : maxBatchCount;
  const size = ratePerSecond > 0 ? Math.min(max, Math.ceil(ratePerSecond)) : max;

  for await (const { events, unreadable } of source.read(size)) {
    report.unreadable.push(...unreadable);
    const accepted = events.filter(options.accept);
    report.matched += accepted.length;
    report.skipped += events.length - accepted.length;
    for (const event of accepted) options.onEvent?.(event);
    if (options.dryRun) for (const event of accepted) count([event], refusalOf(event));
    else if (accepted.length > 0) await sendBatch(accepted);
    options.onProgress?.(report);
    report.isInterrupted = options.isStopped();
    if (report.stoppedBy !== undefined || report.isInterrupted || options.isOver?.() === true) break;
  }
  return report;

  async function sendBatch(events: readonly StoredEvent[]): Promise<void> {
    const startedMs = clock.monotonic();
    sent = [];
    away = undefined;
    try {
      await place(events);
      await sender.idle();
      if (broken !== undefined) throw broken.error;
      if (sent.length === 0) report.stoppedBy ??= away;
    } finally {
      if (sent.length > 0) await source.done(sent);
      report.sent += sent.length;
    }
    if (ratePerSecond <= 0) return;
    const dueMs = (events.length / ratePerSecond) * 1000;
    const restMs = startedMs + dueMs - clock.monotonic();
    if (restMs > 0) await options.sleep(restMs);
  }

  async function place(events: readonly StoredEvent[]): Promise<void> {
    await askForCounts(events.filter((event) => refusalOf(event) === undefined));
    for (const event of events) {
      const refusal = refusalOf(event);
      const topic = event.topic ?? options.fallbackTopic;
      if (topic === undefined || refusal !== undefined) {
        fail([event], refusal ?? 'their topic is unknown: recover them with --to <topic>');
        continue;
      }
      const count = counts.get(topic);
      sender.put(event, topic, count === undefined ? undefined : options.partitionOf(event.key, count));
    }
  }

  function refusalOf({ topic = options.fallbackTopic }: StoredEvent): string | undefined {
    return topic === undefined ? undefined : options.refusalOf?.(topic);
  }

  /** Unknown counts are requested again with each batch, because the first send may have created the topic. */
  async function askForCounts(events: readonly StoredEvent[]): Promise<void> {
    for (const topic of new Set(events.map((event) => event.topic ?? options.fallbackTopic))) {
      if (topic === undefined || counts.has(topic) || refusals.has(topic)) continue;
      const count = await options.partitionsFor(topic);
      if (count !== undefined) counts.set(topic, count);
    }
  }

  function mayGo(event: StoredEvent, to: TopicPartition): 'send' | 'ended' {
    const { key, topic } = to;
    const before = heldUp.get(key) ?? heldUp.get(topic);
    if (before !== undefined) holdUp(to, [event], before, false);
    const reason = report.stoppedBy?.message ?? refusals.get(topic);
    if (before === undefined && reason !== undefined) fail([event], reason);
    return before === undefined && reason === undefined && broken === undefined ? 'send' : 'ended';
  }

  /** Handles a batch that is not split. */
  async function failed(
    to: TopicPartition,
    { events, sends }: Batch<StoredEvent>,
    failure: SendFailure,
  ): Promise<'resend' | 'ended'> {
    const { topic, partition } = to;
    const isOfOne = faultOf(failure) === 'record';
    const isMoved = faultOf(failure) === 'partition';
    const waitMs = waitsMs[sends - 1];
    const isFinal = failure.kind === 'fatal' || failure.kind === 'too_large' || isMoved;
    if (!isFinal && waitMs !== undefined && !options.isStopped()) {
      await options.sleep(waitMs);
      return 'resend';
    }
    if (isMoved && (await isPlacedAgain(topic, partition, events))) return 'ended';
    if (failure.kind === 'too_large' && (await isSetAside(events, failure))) return 'ended';
    const isOutOfOrder = isOfOne || (await isOnlyTooLarge(events, failure));
    if (options.keepsOrder === true && !isOutOfOrder) {
      const isRefused = failure.kind === 'fatal' || passingOf(failure.cause) === 'unknown';
      if (!isRefused) away ??= failure;
      holdUp(to, events, failure.message, isRefused);
      return 'ended';
    }
    fail(events, failure.message);
    if (options.keepsOrder === true || isOutOfOrder) return 'ended';
    // A missing topic keeps only its own events. Later ones must not overtake them.
    if (passingOf(failure.cause) === 'unknown' || (failure.kind === 'fatal' && partition === undefined))
      refusals.set(topic, failure.message);
    else if (failure.kind === 'retriable' || failure.kind === 'unknown_outcome') report.stoppedBy = failure;
    return 'ended';
  }

  /**
   * The topic's number of partitions has changed. Without `keepsOrder` all waiting events are placed again at once, otherwise by
   * the next run.
   */
  async function isPlacedAgain(
    topic: string,
    partition: number | undefined,
    events: readonly StoredEvent[],
  ): Promise<boolean> {
    const before = counts.get(topic);
    counts.delete(topic);
    if (options.keepsOrder === true || partition === undefined) return false;
    await askForCounts(events);
    if (!counts.has(topic) || counts.get(topic) === before) return false;
    await place([...events, ...sender.takeAll(topic)]);
    return true;
  }

  function holdUp(
    { key, topic, partition }: TopicPartition,
    events: readonly StoredEvent[],
    reason: string,
    isRefused: boolean,
  ): void {
    heldUp.set(partition === undefined ? topic : key, reason);
    fail(events, reason);
    for (const event of events) options.onHeldUp?.(event, isRefused);
  }

  async function isSetAside(events: readonly StoredEvent[], { message }: SendFailure): Promise<boolean> {
    if (options.setsAside !== true) return false;
    const place = await source.setAside?.(events);
    if (place === undefined) return false;
    report.setAside += events.length;
    count(events, `set aside in ${place}: ${message}`);
    return true;
  }

  /** A broker drops the connection above its maximum request size, which looks like an outage. */
  async function isOnlyTooLarge(events: readonly StoredEvent[], { kind }: SendFailure): Promise<boolean> {
    const [event] = events;
    if (kind !== 'retriable' && kind !== 'unknown_outcome') return false;
    if (events.length > 1 || event === undefined || event.value.length <= maxSendBytes) return false;
    return (await options.isReachable?.()) === true;
  }

  function fail(events: readonly StoredEvent[], reason: string): void {
    report.failed += events.length;
    count(events, reason);
  }

  function count(events: readonly StoredEvent[], reason: string | undefined): void {
    if (reason !== undefined) report.problems.set(reason, (report.problems.get(reason) ?? 0) + events.length);
  }
}

const bytesOf = ({ value }: StoredEvent): number => value.length;

/** Sends the local backup of a running process to the original topics when the cluster is back. */
interface Drain {
  /** An event was stored in the backup. */
  stored(): void;
  /** Checks at once for events left by others. */
  look(): void;
  /** Events that were sent from the backup. */
  count(): number;
  /** Ends after the batch in flight. */
  close(): Promise<void>;
}

/** The events of a journal that exist now: its segments, and the lowest id to read. */
type OwnSegments = () => Promise<{ readonly names: readonly string[]; readonly from: bigint }>;

interface DrainParts extends Pick<DrainOptions, 'mayHaveBacklog' | 'ratePerSecond' | 'cluster'> {
  readonly broker: Pick<Broker, 'send' | 'partitionsFor'>;
  /** `undefined`: events from the backup have no order with new events. */
  readonly order: ReturnType<typeof createBackupOrder> | undefined;
  readonly files: {
    journal(): Promise<readonly string[]>;
    finishSegments(): Promise<void>;
    /** Other processes fill and empty the folder, too. */
    recount(): Promise<void>;
  };
  /** Reads the segments of this process, or what ended processes left. */
  readonly openSource: (own?: OwnSegments) => Promise<RecoverySource>;
}

/** Drains the local backup into the topics. */
export function startDrain({ files, openSource, broker, order, ...rest }: DrainParts): Drain {
  const open = (own?: OwnSegments) => lazySource('local files', () => openSource(own));
  const left = open();
  let segments: Awaited<ReturnType<OwnSegments>> = { names: [], from: 0n };
  return createDrain({
    ...{ ...rest, left, partitionOf },
    journal: order && {
      order,
      source: open(async () => segments),
      async hasEvents(from) {
        segments = { names: await files.journal(), from };
        return segments.names.length > 0;
      },
    },
    async hasLeft() {
      await files.recount();
      return left.hasEvents();
    },
    prepare: order === undefined ? files.finishSegments : undefined,
    send: (...sent) => isolate(() => broker.send(...sent)),
    partitionsFor: (topic) => isolate(() => broker.partitionsFor(topic)).catch(() => undefined),
    sleep: (ms) => sleep(ms, undefined, { ref: false }),
    onDrained: files.recount,
  });
}

/**
 * First drains the backlog of earlier processes, with all new events behind it. Then drains this process's own events in passes,
 * until new events can go to their topics directly. Without a journal, backup and new events are sent side by side. Its timers are
 * unref'd; unsent events stay in the backup.
 */
export function createDrain(options: DrainOptions): Drain {
  const { journal } = options;
  const draining = createDraining(options);
  const own = journal && createJournalDrain(journal, draining, () => left.isFirst());
  const left = createLeftDrain(options, draining, () => own?.within(0));
  return {
    stored: () => (own ?? left).stored(),
    look: left.look,
    count: draining.count,
    async close() {
      draining.stop();
      await Promise.all([own?.close(), left.close()]);
    },
  };
}

interface DrainOptions extends Pick<RecoverOptions, 'send' | 'partitionsFor' | 'partitionOf' | 'sleep'> {
  /** Keeps this process's stored events in order with new ones. `undefined`: no order, and all events are in `left`. */
  readonly journal?: Journal | undefined;
  /** Events of processes that have ended. One process at a time opens it. */
  readonly left: RecoverySource;
  /** Whether there may be a backlog at start. With a journal, all events wait until this is known. */
  readonly mayHaveBacklog: boolean;
  /** Whether the folder holds any events. */
  readonly hasLeft: () => Promise<boolean>;
  /** Makes events that this process is still writing readable in `left`. */
  readonly prepare?: (() => Promise<void>) | undefined;
  /** For events that no new event waits behind. */
  readonly ratePerSecond: number;
  /** Is asked, as its state does not tell: without new events it stays OPEN. */
  readonly cluster: Pick<ClusterState, 'isThere' | 'answered'>;
  /** Called when a run has sent events or set some aside. */
  readonly onDrained: () => Promise<void>;
}

/** The events that this process has stored. */
interface Journal {
  readonly order: ReturnType<typeof createBackupOrder>;
  readonly source: RecoverySource;
  /** Whether it has events. `source` then reads those that exist now; it may skip ids below `from`. */
  readonly hasEvents: (from: bigint) => Promise<boolean>;
}

type Draining = ReturnType<typeof createDraining>;

/** Backoff after a refusal while new events wait behind it. Doubles. */
const firstPauseMs = 500;
const longestPauseMs = 10_000;
/** Failures in a row to read the folder or a file, before new events stop waiting for it. */
const maxFailures = 5;
/** How often the backlog of others is polled. */
const lookMs = 60_000;

/** How often the folder is counted while it is sent. */
const countMs = 5_000;
/** Minimum interval of log lines about one problem, and about sent events. */
const sayMs = 60_000;
const saySentMs = 10_000;

/** Shared by the drains of the journal and of `left`. */
function createDraining(options: DrainOptions) {
  const { journal } = options;
  const say = throttledLog({ level: 'warn', intervalMs: sayMs, saysLeftOut: false });
  const uncertain = new Map<RecoverySource, UncertainBatches>();
  let isClosed = false;
  let drained = 0;
  let unsaid = 0;
  let saidAtMs = clock.monotonic();
  let countedAtMs = clock.monotonic();

  function sent(events: number): void {
    if (events === 0) return;
    drained += events;
    unsaid += events;
    options.cluster.answered();
    if (clock.monotonic() - countedAtMs < countMs) return;
    countedAtMs = clock.monotonic();
    void options.onDrained();
  }

  function saySent(): void {
    const nowMs = clock.monotonic();
    if (unsaid === 0 || (journal?.order.isBehind() === true && nowMs - saidAtMs < saySentMs)) return;
    logger.info('events of the backup were sent to their topics', { events: unsaid });
    unsaid = 0;
    saidAtMs = nowMs;
  }

  const isReachable = options.cluster.isThere;

  return {
    isReachable,
    send(
      source: RecoverySource,
      some: Pick<RecoverOptions, 'accept' | 'onHeldUp' | 'isOver' | 'ratePerSecond'>,
    ): Promise<RecoverReport> {
      let known = 0;
      const ofSource: UncertainBatches = uncertain.get(source) ?? new Map();
      uncertain.set(source, ofSource);
      return recover({
        ...options,
        ...some,
        isReachable,
        source,
        keepsOrder: true,
        uncertain: ofSource,
        // The next run retries.
        retryWaitsMs: [],
        dryRun: false,
        setsAside: true,
        isStopped: () => isClosed,
        onProgress(so) {
          sent(so.sent - known);
          known = so.sent;
        },
      });
    },
    /** Logs the result of a run. */
    async tell(report: RecoverReport): Promise<void> {
      for (const [reason, events] of report.problems)
        say(reason, `events stay in the backup: ${reason}`, { events });
      for (const { place, reason, isInUse } of report.unreadable)
        if (isInUse !== true) say(place, `backup: ${place}: ${reason}`);
      if (report.sent + report.setAside > 0) await options.onDrained();
      saySent();
    },
    /** Throttled by its first argument. */
    say,
    count: (): number => drained,
    /** Ends the run after the batch in flight. */
    stop(): void {
      isClosed = true;
    },
  };
}

function reasonOf(error: unknown): string {
  if (error instanceof SvcError) return error.message;
  return (error as NodeJS.ErrnoException)?.code ?? (error instanceof Error ? error.name : 'unknown error');
}

/** While earlier events are still in the queue. */
const notReadyMs = 100;

/**
 * Drains this process's stored events in passes.
 * @param isBehindLeft whether the backlog of others comes first
 */
function createJournalDrain(
  { order, source, hasEvents }: Journal,
  draining: Draining,
  isBehindLeft: () => boolean,
) {
  let failures = 0;
  let unread = 0;
  const loop = createWorkLoop(clock.monotonic, pass);

  async function pass(): Promise<number | undefined> {
    if (isBehindLeft()) return notReadyMs;
    const dueMs = order.nextPassMs();
    if (dueMs > 0) return finite(dueMs);
    if (!(await draining.isReachable())) return clusterPollMs;
    const beganMs = clock.monotonic();
    const begun = await order.beginPass();
    const { accepts: accept, failed: onHeldUp, isOver } = begun;
    try {
      const isTried = !isOver() && (await hasEvents(begun.from));
      const report = isTried ? await send({ accept, onHeldUp, isOver }) : undefined;
      const isAway = report?.stoppedBy !== undefined;
      const hasSent = report !== undefined && report.sent > 0;
      const isUnread = report?.unreadable.some(({ mayPass }) => mayPass) === true;
      unread = isUnread ? unread + 1 : 0;
      const isWaited = isUnread && unread < maxFailures;
      const isComplete = !isAway && !isWaited && report?.isInterrupted !== true;
      begun.end(isComplete, hasSent ? 0 : clock.monotonic() - beganMs);
      if (report !== undefined) await draining.tell(report);
      if (isWaited) return pause();
      failures = 0;
      if (!order.isBehind()) return isUnread ? lookMs : undefined;
      if (isAway) return clusterPollMs;
      return finite(Math.max(hasSent ? 0 : notReadyMs, order.nextPassMs()));
    } catch (error) {
      begun.end(false, 0);
      draining.say('own', `the backup could not be drained: ${reasonOf(error)}`);
      return pause();
    }
  }

  async function send(pass: Pick<RecoverOptions, 'accept' | 'onHeldUp' | 'isOver'>): Promise<RecoverReport> {
    await source.open(true);
    try {
      return await draining.send(source, { ...pass, ratePerSecond: 0 });
    } finally {
      await source.close();
    }
  }

  function pause(): number {
    return backoffMs(++failures, firstPauseMs, longestPauseMs);
  }

  return { ...loop, stored: (): void => loop.within(firstPauseMs) };
}

/** `undefined` for an infinite delay: the run waits for a request. */
function finite(delayMs: number): number | undefined {
  return Number.isFinite(delayMs) ? delayMs : undefined;
}

/** Delay for events that were stored without order. */
const soonMs = 2_000;
/** Refused events may be many, and are read each time: reading takes a twentieth of the time at most. */
const maxReadShare = 20;
/** While it is unknown whether another process still runs. */
const doubtMs = 2_000;

/**
 * Drains the events of processes that have ended.
 * @param onKnown called when it is known which topics new events must wait for
 */
function createLeftDrain(options: DrainOptions, draining: Draining, onKnown: () => void) {
  const { left } = options;
  const order = options.journal?.order;
  const loop = createWorkLoop(clock.monotonic, look);
  /** The topics whose new events wait behind it. */
  let waiting: 'unknown' | 'all' | ReadonlySet<string> = order === undefined ? new Set() : 'unknown';
  let isOpen = false;
  /** `look` was called: the process that has the folder open may have missed the new events. */
  let isNew = false;
  let isAway = false;
  let refusals = 0;
  let failures = 0;
  let pausedUntilMs = 0;

  const isFirst = (): boolean => waiting === 'unknown' || waiting === 'all';
  const isAwaited = (): boolean => isFirst() || (waiting as ReadonlySet<string>).size > 0;

  async function look(): Promise<number> {
    if (isAway && !(await draining.isReachable())) return clusterPollMs;
    isAway = false;
    try {
      if (!isOpen && (await options.hasLeft())) {
        // If no event waits for it, other processes may drain it meanwhile.
        if (!isFirst() && !(await draining.isReachable())) return away();
        await options.prepare?.();
        await left.open(true);
        isOpen = true;
      }
      isNew = false;
      if (!isOpen) return nothingLeft();
    } catch (error) {
      // Another process has it open, or the folder is unusable, which its writers have already logged.
      if (!(error instanceof SvcError)) draining.say('left', `the backup is not drained: ${reasonOf(error)}`);
      const nextMs = nothingLeft();
      return isNew ? doubtMs : nextMs;
    }
    if (waiting === 'unknown') {
      waiting = 'all';
      order?.earlierRun('first');
    }
    try {
      return (await draining.isReachable()) ? await send() : away();
    } catch (error) {
      draining.say('left', `the backup could not be drained: ${reasonOf(error)}`);
      // An unreadable folder must not block new events forever.
      return ++failures >= maxFailures ? nothingLeft() : pause();
    } finally {
      if (!isFirst()) await close();
    }
  }

  async function send(): Promise<number> {
    const topics = new Set<string>();
    const beganMs = clock.monotonic();
    const wasAwaited = isAwaited();
    const report = await draining.send(left, {
      accept: () => true,
      onHeldUp: ({ topic }) => void (topic !== undefined && topics.add(topic)),
      ratePerSecond: wasAwaited ? 0 : options.ratePerSecond,
    });
    const isUnread = report.unreadable.some(({ mayPass }) => mayPass);
    failures = isUnread ? failures + 1 : 0;
    await draining.tell(report);
    if (report.stoppedBy !== undefined || report.isInterrupted) return wasAwaited ? away() : refused();
    // The journal may be that of this container's previous process, which comes first.
    if (waiting === 'all' && report.unreadable.some(({ isDoubtful }) => isDoubtful)) return doubtMs;
    if (waiting === 'all' && isUnread && failures < maxFailures) return doubtMs;
    // If no event waits for it, none needs to start.
    if (wasAwaited) known(topics);
    if (topics.size === 0) refusals = 0;
    else return refused(wasAwaited && report.sent === 0 ? maxReadShare * (clock.monotonic() - beganMs) : 0);
    return lookMs;
  }

  function away(): number {
    isAway = true;
    return clusterPollMs;
  }

  function refused(atLeastMs = 0): number {
    refusals++;
    return Math.max(pause(), atLeastMs);
  }

  function pause(): number {
    const [first, longest] = isAwaited() ? [firstPauseMs, longestPauseMs] : [clusterPollMs, lookMs];
    const pauseMs = backoffMs(refusals + 1, first, longest);
    pausedUntilMs = clock.monotonic() + pauseMs;
    return pauseMs;
  }

  function known(topics: ReadonlySet<string>): void {
    waiting = topics;
    order?.earlierRun({ topics });
    onKnown();
  }

  function nothingLeft(): number {
    if (isAwaited()) known(new Set());
    return lookMs;
  }

  async function close(): Promise<void> {
    if (!isOpen) return;
    isOpen = false;
    await left.close();
  }

  loop.within(options.mayHaveBacklog ? 0 : nothingLeft());
  return {
    /** An event was stored there without order. */
    stored: (): void => loop.within(Math.max(soonMs, pausedUntilMs - clock.monotonic())),
    look(): void {
      isNew = true;
      loop.within(0);
    },
    /** Whether all new events must wait behind it, or this is not known yet. */
    isFirst,
    async close(): Promise<void> {
      await loop.close();
      await close();
    },
  };
}

/** A source that is loaded when the first run finds events. */
export function lazySource(
  name: string,
  open: () => Promise<RecoverySource>,
): RecoverySource & { hasEvents(): Promise<boolean> } {
  const load = loadOnce(open);
  return {
    name,
    open: async (forRecovery) => (await load()).open(forRecovery),
    count: async () => (await load()).count(),
    async *read(size) {
      yield* (await load()).read(size);
    },
    done: async (events) => (await load()).done(events),
    setAside: async (events) => (await load()).setAside?.(events),
    close: async () => (await load()).close(),
    hasEvents: async () => (await (await load()).hasEvents?.()) ?? false,
  };
}

/** Repeats work, one run at a time. Its timer is unref'd. */
interface WorkLoop {
  /** The next run begins within `delayMs`. */
  within(delayMs: number): void;
  /** Resolves when the current run has ended. No further run begins. */
  close(): Promise<void>;
}

/** @param work one run, which never rejects; returns the milliseconds until the next one; `undefined`: on request */
function createWorkLoop(monotonic: () => number, work: () => Promise<number | undefined>): WorkLoop {
  let timer: NodeJS.Timeout | undefined;
  let dueMs = Number.POSITIVE_INFINITY;
  let running: Promise<void> | undefined;
  let isClosed = false;

  function within(delayMs: number): void {
    const atMs = monotonic() + delayMs;
    if (isClosed || dueMs <= atMs) return;
    dueMs = atMs;
    if (running === undefined) arm();
  }

  function arm(): void {
    clearTimeout(timer);
    if (isClosed || dueMs === Number.POSITIVE_INFINITY) return;
    timer = setTimeout(run, Math.max(0, dueMs - monotonic())).unref();
  }

  function run(): void {
    dueMs = Number.POSITIVE_INFINITY;
    running = work().then((nextMs) => {
      running = undefined;
      if (nextMs !== undefined) within(nextMs);
      arm();
    });
  }

  return {
    within,
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await running;
    },
  };
}
