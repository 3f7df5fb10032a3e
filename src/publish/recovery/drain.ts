import { backoffMs, type Clock, isAnswered } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import { type Logger, throttledLog } from '../../observe/logger.ts';
import { clusterPollMs } from '../broker.ts';
import type { BackupOrder, Pass } from '../order/backup-order.ts';
import type { RecoverySource } from '../recovery-source.ts';
import type { UncertainBatches } from '../sender/sender.ts';
import { type RecoverOptions, type RecoverReport, recover } from './recover.ts';

/** Sends the local backup of a running process to the original topics when the cluster is back. */
export interface Drain {
  /** An event was stored in the backup. */
  stored(): void;
  /** Checks at once for events left by others. */
  look(): void;
  /** Events that were sent from the backup. */
  count(): number;
  /** Ends after the batch in flight. */
  close(): Promise<void>;
}

/**
 * First drains the backlog of earlier processes, with all new events behind it. Then drains this process's own events in passes,
 * until new events can go to their topics directly. Without a journal, backup and new events are sent side by side. Its timers are
 * unref'd; unsent events stay in the backup.
 */
export function createDrain(options: DrainOptions): Drain {
  const { journal, clock } = options;
  const draining = createDraining(options);
  const own = journal && createJournalDrain(journal, clock, draining, () => left.isFirst());
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

export interface DrainOptions
  extends Pick<RecoverOptions, 'send' | 'partitionsFor' | 'partitionOf' | 'sleep'> {
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
  /** Rejects if the cluster is away. */
  readonly ask: () => Promise<unknown>;
  /** The cluster has taken events. */
  readonly onAnswered: () => void;
  /** Called when a run has sent events or set some aside. */
  readonly onDrained: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The events that this process has stored. */
interface Journal {
  readonly order: BackupOrder;
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

/** Time limit for the cluster's answer. */
const answerMs = 1_000;
/** How often the folder is counted while it is sent. */
const countMs = 5_000;
/** Minimum interval of log lines about one problem, and about sent events. */
const sayMs = 60_000;
const saySentMs = 10_000;

/** Shared by the drains of the journal and of `left`. */
function createDraining(options: DrainOptions) {
  const { journal, clock, logger } = options;
  const say = throttledLog(logger, clock, { level: 'warn', intervalMs: sayMs, saysLeftOut: false });
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
    options.onAnswered();
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

  const isReachable = (): Promise<boolean> => isAnswered(options.ask(), answerMs);

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
  clock: Clock,
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
    try {
      const isTried = !begun.isOver() && (await hasEvents(begun.from));
      const report = isTried ? await send(begun) : undefined;
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

  async function send({ accepts: accept, failed: onHeldUp, isOver }: Pass): Promise<RecoverReport> {
    await source.open(true);
    try {
      return await draining.send(source, { accept, onHeldUp, isOver, ratePerSecond: 0 });
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
  const { left, clock } = options;
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
