import { backoffMs, type Clock, isAnswered } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { loadOnce } from '../../ground/lifecycle.ts';
import { type Logger, throttledLog } from '../../observe/logger.ts';
import { clusterPollMs } from '../broker.ts';
import type { BackupOrder, Pass } from '../order/backup-order.ts';
import type { RecoverySource } from '../recovery-source.ts';
import type { UncertainBatches } from '../sender/sender.ts';
import { type RecoverOptions, type RecoverReport, recover } from './recover.ts';

/** Empties the local backup of a running process into the original topics when the cluster is back. */
export interface Drain {
  /** Something was put into the backup. */
  stored(): void;
  /** Somebody may have left something there: it is looked for at once. */
  look(): void;
  /** Events that were sent from the backup. */
  count(): number;
  /** Ends after the batch under way. */
  close(): Promise<void>;
}

/**
 * First what an earlier process has left, with all that is new behind it, then what this one has stored itself, in passes, until
 * new events can go to their topics directly again. Without a journal all of it is sent beside what is new. Its timers do not
 * keep the process alive: what is not sent stays in the backup.
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
  /** Keeps what this process has stored in order with new events. `undefined`: nothing does, and all of it is in `left`. */
  readonly journal?: Journal | undefined;
  /** What processes have left that are gone. One process at a time opens it. */
  readonly left: RecoverySource;
  /** Whether there may have been any at the start: with a journal all events wait until they are known. */
  readonly mayHaveBacklog: boolean;
  /** Whether the folder holds anything at all. */
  readonly hasLeft: () => Promise<boolean>;
  /** What this process still writes becomes readable in `left`. */
  readonly prepare?: (() => Promise<void>) | undefined;
  /** For what nobody waits behind. */
  readonly ratePerSecond: number;
  /** Asks the cluster whether it is there. */
  readonly ask: () => Promise<unknown>;
  /** The cluster has taken events. */
  readonly onAnswered: () => void;
  /** After a look that took events out, or set some aside. */
  readonly onDrained: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What this process has stored itself. */
interface Journal {
  readonly order: BackupOrder;
  readonly source: RecoverySource;
  /** Whether there is any of it; what `source` reads next is what there is now. It may leave out what has a lower id than `from`. */
  readonly hasEvents: (from: bigint) => Promise<boolean>;
}

/** What the drains of the journal and of what is left have in common. */
interface Draining {
  isReachable(): Promise<boolean>;
  send(
    source: RecoverySource,
    some: Pick<RecoverOptions, 'accept' | 'onHeldUp' | 'isOver' | 'ratePerSecond'>,
  ): Promise<RecoverReport>;
  /** Says what became of a run. */
  tell(report: RecoverReport): Promise<void>;
  /** A line about one trouble, once in a while. */
  say(about: string, message: string): void;
  count(): number;
  /** The run under way ends after its batch. */
  stop(): void;
}

/** Waits after a refusal, doubling, where new events go behind what is refused. */
const firstPauseMs = 500;
const longestPauseMs = 10_000;
/** In a row, of the folder or a file in it, until new events wait no longer for what is there. */
const mostFailures = 5;
/** How often what others leave is looked for. */
const lookMs = 60_000;

/** How long the cluster may take to say that it is there. */
const answerMs = 1_000;
/** How often what is in the folder is counted while it is sent. */
const countMs = 5_000;
/** A line about one trouble, and about what was sent. */
const sayMs = 60_000;
const saySentMs = 10_000;

function createDraining(options: DrainOptions): Draining {
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

  const draining: Draining = {
    isReachable: () => isAnswered(options.ask(), answerMs),
    send(source, some) {
      let known = 0;
      const ofSource: UncertainBatches = uncertain.get(source) ?? new Map();
      uncertain.set(source, ofSource);
      return recover({
        ...options,
        ...some,
        isReachable: draining.isReachable,
        source,
        keepsOrder: true,
        uncertain: ofSource,
        // The next look is the next try.
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
    async tell(report) {
      for (const [reason, events] of report.problems)
        say(reason, `events stay in the backup: ${reason}`, { events });
      for (const { place, reason, isInUse } of report.unreadable)
        if (isInUse !== true) say(place, `backup: ${place}: ${reason}`);
      if (report.sent + report.setAside > 0) await options.onDrained();
      saySent();
    },
    say,
    count: () => drained,
    stop() {
      isClosed = true;
    },
  };
  return draining;
}

function reasonOf(error: unknown): string {
  if (error instanceof SvcError) return error.message;
  return (error as NodeJS.ErrnoException)?.code ?? (error instanceof Error ? error.name : 'unknown error');
}

/** While events that belong before are in the queue still. */
const notReadyMs = 100;

interface JournalDrain extends WorkLoop {
  stored(): void;
}

/** Sends what this process has stored, in passes. @param isBehindLeft whether what others have left comes first */
function createJournalDrain(
  { order, source, hasEvents }: Journal,
  clock: Clock,
  draining: Draining,
  isBehindLeft: () => boolean,
): JournalDrain {
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
      const isWaited = isUnread && unread < mostFailures;
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

  return { ...loop, stored: () => loop.within(firstPauseMs) };
}

/** Of a run that nothing but a request makes sense of, none. */
function finite(delayMs: number): number | undefined {
  return Number.isFinite(delayMs) ? delayMs : undefined;
}

/** How soon what was stored in no order is. */
const soonMs = 2_000;
/** What is refused may be much, and is read each time: a twentieth of the time at most. */
const maxReadShare = 20;
/** While it is not known whether another process lives. */
const doubtMs = 2_000;

interface LeftDrain {
  /** Something was put there that is in no order. */
  stored(): void;
  look(): void;
  /** Whether all that is new goes behind what is left, or that is not known yet. */
  isFirst(): boolean;
  close(): Promise<void>;
}

/** Sends what processes have left that are gone. @param onKnown which topics new ones must still wait for is known */
function createLeftDrain(options: DrainOptions, draining: Draining, onKnown: () => void): LeftDrain {
  const { left, clock } = options;
  const order = options.journal?.order;
  const loop = createWorkLoop(clock.monotonic, look);
  /** Of which topics new events go behind what is left. */
  let waiting: 'unknown' | 'all' | ReadonlySet<string> = order === undefined ? new Set() : 'unknown';
  let isOpen = false;
  /** Something was left just now: whoever is at the folder may not have seen it. */
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
        // Where nobody waits for it, others may be at it meanwhile.
        if (!isFirst() && !(await draining.isReachable())) return away();
        await options.prepare?.();
        await left.open(true);
        isOpen = true;
      }
      isNew = false;
      if (!isOpen) return nothingLeft();
    } catch (error) {
      // Another process is at it, or the folder cannot be used, which those who write to it have said already.
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
      // What cannot be read must not hold up what comes for ever.
      return ++failures >= mostFailures ? nothingLeft() : pause();
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
    // A journal of another container, which may be that of the process before this one, comes first if it is.
    if (waiting === 'all' && report.unreadable.some(({ isDoubtful }) => isDoubtful)) return doubtMs;
    if (waiting === 'all' && isUnread && failures < mostFailures) return doubtMs;
    // Where nobody waits for it, it need not begin to.
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
    stored: () => loop.within(Math.max(soonMs, pausedUntilMs - clock.monotonic())),
    look() {
      isNew = true;
      loop.within(0);
    },
    isFirst,
    async close() {
      await loop.close();
      await close();
    },
  };
}

/** A source that is loaded when the first look finds something to look at. */
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

/** Work that is done again and again, one run at a time. Its timer does not keep the process alive. */
interface WorkLoop {
  /** The next run begins in `delayMs` at the latest. */
  within(delayMs: number): void;
  /** Resolves when the run under way has ended; no other one begins. */
  close(): Promise<void>;
}

/** @param work one run, which never rejects; gives the milliseconds until the next one, or `undefined`: when it is asked for */
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
