import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import { createQuietLog } from '../../observe/quiet-log.ts';

/** The machine's clock, and the database's in its place where the two differ: Kafka refuses records of another time. */
export interface DatabaseTime extends Clock {
  /** The database has said what time it is; `askedAtMs`, on the monotonic clock, is when that was asked. */
  observe(nowMs: number, askedAtMs: number): void;
}

/** More than an answer takes, and less than anybody would set a limit to. */
const toleranceMs = 10_000;
const sayMs = 60_000;

export function createDatabaseTime(clock: Clock, logger: Logger): DatabaseTime {
  const say = createQuietLog(logger, clock, { intervalMs: sayMs, saysLeftOut: false });
  /** What the monotonic clock lacks to the database's time. */
  let offsetMs: number | undefined;

  /** Of the machine's clock, as it is now: it may be set at any time. */
  const aheadMs = (): number =>
    offsetMs === undefined ? 0 : clock.now() - Math.round(clock.monotonic() + offsetMs);

  return {
    monotonic: clock.monotonic,
    now() {
      const offMs = aheadMs();
      return clock.now() - (Math.abs(offMs) > toleranceMs ? offMs : 0);
    },
    observe(nowMs, askedAtMs) {
      const heardAtMs = clock.monotonic();
      // It may have been said at any moment in between.
      if (heardAtMs - askedAtMs > toleranceMs) return;
      offsetMs = nowMs - (askedAtMs + heardAtMs) / 2;
      const offMs = aheadMs();
      if (!(Math.abs(offMs) > toleranceMs)) return;
      const seconds = Math.round(Math.abs(offMs) / 1_000);
      const where = offMs > 0 ? 'ahead of' : 'behind';
      say(
        'clock',
        `outbox: the clock of this machine is ${seconds} s ${where} that of the database, whose time the events get instead: set the one that is wrong`,
      );
    },
  };
}
