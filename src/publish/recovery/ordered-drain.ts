import { backoffMs } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';
import { askAgainMs } from '../broker.ts';
import type { BackupOrder } from '../order/backup-order.ts';
import type { RecoverySource } from '../recovery-source.ts';
import { type Drain, type DrainOptions, isReachable, reasonOf } from './drain.ts';
import { type RecoverReport, recover } from './recover.ts';
import { createWorkLoop } from './work-loop.ts';

export interface OrderedDrainOptions
  extends Omit<DrainOptions, 'prepare' | 'source' | 'hasEvents' | 'ratePerSecond'> {
  readonly order: BackupOrder;
  /** What this process has put into the backup. */
  readonly own: RecoverySource;
  /** Whether there is any of it; what `own` reads next is what there is now. It may leave out what has a lower id than `from`. */
  readonly hasOwn: (from: bigint) => Promise<boolean>;
  /** What processes have left that are gone. One process at a time opens it. */
  readonly left: RecoverySource;
  /** Whether there may have been any at the start: until they are known, all events wait. */
  readonly mayHaveLeft: boolean;
  /** Whether the folder holds anything at all. */
  readonly hasLeft: () => Promise<boolean>;
  /** For what is old and has nobody waiting behind it. */
  readonly ratePerSecond: number;
  /** The cluster has taken events. */
  readonly onAnswered: () => void;
}

/** How often what other processes left behind is looked for. */
const lookMs = 60_000;
/** After a refusal, doubling. */
const firstPauseMs = 500;
const longestPauseMs = 10_000;
/** What is refused may be much, and is read each time: a twentieth of the time at most. */
const mostReading = 20;
/** How often what is in the folder is counted while it is sent. */
const countMs = 5_000;
/** While it is not known whether another process lives. */
const doubtMs = 2_000;
/** In a row, of the folder or a file in it, until new events wait no longer for what is there. */
const mostFailures = 5;
/** While events that belong before are in the queue still. */
const notReadyMs = 100;
/** A line about one trouble, and about what was sent. */
const sayMs = 60_000;
const saySentMs = 10_000;

/**
 * Empties the local backup in the order of its events: first what an earlier process has left, with all that is new behind
 * it, then what this one has stored itself, in passes, until new events can go to their topics directly again.
 */
export function createOrderedDrain(options: OrderedDrainOptions): Drain {
  const { order, own, left, clock, logger } = options;
  const say = createQuietLog(logger, clock, { level: 'warn', intervalMs: sayMs, saysLeftOut: false });
  const loops = {
    own: createWorkLoop(clock.monotonic, ownPass),
    left: createWorkLoop(clock.monotonic, look),
  };
  let isClosed = false;
  let drained = 0;
  let unsaid = 0;
  let saidAtMs = clock.monotonic();
  let ownFailures = 0;
  let leftHeldUp = 0;
  /** New events go behind what is left; the topics that wait for it, when all others are through. */
  let waitsForLeft: 'all' | ReadonlySet<string> | 'unknown' = 'unknown';
  let isLeftOpen = false;
  /** Something was left just now: whoever is at the folder may not have seen it. */
  let isLeftNew = false;
  let countedAtMs = clock.monotonic();
  let leftFailures = 0;
  let ownUnread = 0;

  /** What all runs have in common. */
  function sendAll(
    source: RecoverySource,
    some: Pick<Parameters<typeof recover>[0], 'accept' | 'onHeldUp' | 'isOver' | 'ratePerSecond'>,
  ): Promise<RecoverReport> {
    return recover({
      ...options,
      ...some,
      isReachable: () => isReachable(options),
      source,
      keepsOrder: true,
      // The next pass is the next try.
      retryWaitsMs: [],
      dryRun: false,
      setsAside: true,
      isStopped: () => isClosed,
      onProgress: progress,
    });
  }

  const underWay = new Map<RecoverReport, number>();

  function progress(report: RecoverReport): void {
    if (report.sent === (underWay.get(report) ?? 0)) return;
    drained += report.sent - (underWay.get(report) ?? 0);
    underWay.set(report, report.sent);
    options.onAnswered();
    if (clock.monotonic() - countedAtMs < countMs) return;
    countedAtMs = clock.monotonic();
    void options.onDrained();
  }

  async function sum(report: RecoverReport): Promise<void> {
    progress(report);
    underWay.delete(report);
    unsaid += report.sent;
    for (const [reason, events] of report.problems)
      say(reason, `events stay in the backup: ${reason}`, { events });
    for (const { place, reason, isInUse } of report.unreadable)
      if (isInUse !== true) say(place, `backup: ${place}: ${reason}`);
    if (report.sent + report.setAside > 0) await options.onDrained();
    sayKept();
  }

  function sayKept(): void {
    const nowMs = clock.monotonic();
    if (unsaid === 0 || (order.isBehind() && nowMs - saidAtMs < saySentMs)) return;
    logger.info('events of the backup were sent to their topics', { events: unsaid });
    unsaid = 0;
    saidAtMs = nowMs;
  }

  /** What this process has stored itself. */
  async function ownPass(): Promise<number | undefined> {
    if (waitsForLeft === 'unknown' || waitsForLeft === 'all') return notReadyMs;
    const dueMs = order.nextPassMs();
    if (dueMs > 0) return finite(dueMs);
    if (!(await isReachable(options))) return askAgainMs;
    const beganMs = clock.monotonic();
    const pass = await order.beginPass();
    try {
      const isTried = !pass.isOver() && (await options.hasOwn(pass.from));
      const report = isTried ? await sendOwn(pass) : undefined;
      const isAway = report?.stoppedBy !== undefined;
      const hasSent = report !== undefined && report.sent > 0;
      const isUnread = report?.unreadable.some(({ mayPass }) => mayPass) === true;
      ownUnread = isUnread ? ownUnread + 1 : 0;
      const isWaited = isUnread && ownUnread < mostFailures;
      const isComplete = !isAway && !isWaited && report?.isInterrupted !== true;
      pass.end(isComplete, hasSent ? 0 : clock.monotonic() - beganMs);
      if (report !== undefined) await sum(report);
      if (isWaited) return pause();
      ownFailures = 0;
      if (!order.isBehind()) return isUnread ? lookMs : undefined;
      if (isAway) return askAgainMs;
      return finite(Math.max(hasSent ? 0 : notReadyMs, order.nextPassMs()));
    } catch (error) {
      pass.end(false, 0);
      say('own', `the backup could not be drained: ${reasonOf(error)}`);
      return pause();
    }
  }

  async function sendOwn(pass: Awaited<ReturnType<BackupOrder['beginPass']>>): Promise<RecoverReport> {
    await own.open(true);
    try {
      const { accepts: accept, failed: onHeldUp, isOver } = pass;
      return await sendAll(own, { accept, onHeldUp, isOver, ratePerSecond: 0 });
    } finally {
      await own.close();
    }
  }

  function pause(): number {
    return backoffMs(++ownFailures, firstPauseMs, longestPauseMs);
  }

  function leftPauseMs(): number {
    return backoffMs(leftHeldUp + 1, firstPauseMs, longestPauseMs);
  }

  /** What others have left. */
  async function look(): Promise<number> {
    try {
      if (!isLeftOpen) {
        if (await options.hasLeft()) {
          await left.open(true);
          isLeftOpen = true;
        }
        isLeftNew = false;
        if (!isLeftOpen) return nothingLeft();
      }
    } catch (error) {
      // Another process is at it, or the folder cannot be used, which those who write to it have said already.
      if (!(error instanceof SvcError)) say('left', `the backup is not drained: ${reasonOf(error)}`);
      const nextMs = nothingLeft();
      return isLeftNew ? doubtMs : nextMs;
    }
    if (waitsForLeft === 'unknown') {
      waitsForLeft = 'all';
      order.earlierRun('first');
    }
    try {
      return (await isReachable(options)) ? await sendLeft() : askAgainMs;
    } catch (error) {
      say('left', `the backup could not be drained: ${reasonOf(error)}`);
      // What cannot be read must not hold up what comes for ever.
      if (++leftFailures >= mostFailures) return nothingLeft();
      return leftPauseMs();
    } finally {
      if (waitsForLeft !== 'all') await closeLeft();
    }
  }

  async function sendLeft(): Promise<number> {
    const topics = new Set<string>();
    const beganMs = clock.monotonic();
    const isAwaited = waitsForLeft === 'all' || (waitsForLeft as ReadonlySet<string>).size > 0;
    const report = await sendAll(left, {
      accept: () => true,
      onHeldUp: ({ topic }) => void (topic !== undefined && topics.add(topic)),
      ratePerSecond: isAwaited ? 0 : options.ratePerSecond,
    });
    const isUnread = report.unreadable.some(({ mayPass }) => mayPass);
    leftFailures = isUnread ? leftFailures + 1 : 0;
    await sum(report);
    if (report.stoppedBy !== undefined || report.isInterrupted) return askAgainMs;
    // A journal of another container, which may be that of the process before this one, comes first if it is.
    if (waitsForLeft === 'all' && report.unreadable.some(({ isDoubtful }) => isDoubtful)) return doubtMs;
    if (waitsForLeft === 'all' && isUnread && leftFailures < mostFailures) return doubtMs;
    // Where nobody waits for it, it need not begin to.
    if (isAwaited) known(topics);
    leftHeldUp = topics.size === 0 ? 0 : leftHeldUp + 1;
    if (!isAwaited || leftHeldUp === 0) return lookMs;
    return Math.max(leftPauseMs(), report.sent > 0 ? 0 : mostReading * (clock.monotonic() - beganMs));
  }

  function known(topics: ReadonlySet<string>): void {
    waitsForLeft = topics;
    order.earlierRun({ topics });
    loops.own.within(0);
  }

  function nothingLeft(): number {
    if (waitsForLeft === 'unknown' || waitsForLeft === 'all' || waitsForLeft.size > 0) known(new Set());
    return lookMs;
  }

  async function closeLeft(): Promise<void> {
    if (!isLeftOpen) return;
    isLeftOpen = false;
    await left.close();
  }

  if (options.mayHaveLeft) loops.left.within(0);
  else loops.left.within(nothingLeft());
  return {
    stored: () => loops.own.within(firstPauseMs),
    left() {
      isLeftNew = true;
      loops.left.within(0);
    },
    count: () => drained,
    async close() {
      isClosed = true;
      await Promise.all([loops.own.close(), loops.left.close()]);
      await closeLeft();
    },
  };
}

/** Of a run that nothing but a request makes sense of, none. */
function finite(delayMs: number): number | undefined {
  return Number.isFinite(delayMs) ? delayMs : undefined;
}
