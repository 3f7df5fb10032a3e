import { backoffMs, type Clock } from '../../ground/clock.ts';
import { askAgainMs } from '../broker.ts';
import type { Pass } from '../order/pass.ts';
import {
  type Draining,
  firstPauseMs,
  type Journal,
  longestPauseMs,
  lookMs,
  mostFailures,
  reasonOf,
} from './draining.ts';
import type { RecoverReport } from './recover.ts';
import { createWorkLoop, type WorkLoop } from './work-loop.ts';

/** While events that belong before are in the queue still. */
const notReadyMs = 100;

export interface JournalDrain extends WorkLoop {
  stored(): void;
}

/** Sends what this process has stored, in passes. @param isBehindLeft whether what others have left comes first */
export function createJournalDrain(
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
    if (!(await draining.isReachable())) return askAgainMs;
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
      if (isAway) return askAgainMs;
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
