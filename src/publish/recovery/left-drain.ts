import { backoffMs } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { askAgainMs } from '../broker.ts';
import {
  type Draining,
  type DrainOptions,
  firstPauseMs,
  longestPauseMs,
  lookMs,
  mostFailures,
  reasonOf,
} from './draining.ts';
import { createWorkLoop } from './work-loop.ts';

/** How soon what was stored in no order is. */
const soonMs = 2_000;
/** What is refused may be much, and is read each time: a twentieth of the time at most. */
const mostReading = 20;
/** While it is not known whether another process lives. */
const doubtMs = 2_000;

export interface LeftDrain {
  /** Something was put there that is in no order. */
  stored(): void;
  look(): void;
  /** Whether all that is new goes behind what is left, or that is not known yet. */
  isFirst(): boolean;
  close(): Promise<void>;
}

/** Sends what processes have left that are gone. @param onKnown which topics new ones must still wait for is known */
export function createLeftDrain(options: DrainOptions, draining: Draining, onKnown: () => void): LeftDrain {
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
    if (isAway && !(await draining.isReachable())) return askAgainMs;
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
    else return refused(wasAwaited && report.sent === 0 ? mostReading * (clock.monotonic() - beganMs) : 0);
    return lookMs;
  }

  function away(): number {
    isAway = true;
    return askAgainMs;
  }

  function refused(atLeastMs = 0): number {
    refusals++;
    return Math.max(pause(), atLeastMs);
  }

  function pause(): number {
    const [first, longest] = isAwaited() ? [firstPauseMs, longestPauseMs] : [askAgainMs, lookMs];
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
