import { backoffMs, type Clock } from '../ground/clock.ts';
import type { Notices } from './notices.ts';

/** From one notice of a process to its next: PostgreSQL commits them one after the other, for all of its databases. */
export const noticeIntervalMs = 100;
const firstPauseMs = 500;
const longestPauseMs = 30_000;

/** Gathers what was committed into few notices. */
export interface Notifier {
  /** A row of this shard was committed. */
  add(shard: number): void;
  stop(): void;
}

export interface NotifierOptions {
  readonly notices: Pick<Notices, 'send'>;
  readonly clock: Clock;
  /** Runs svc's own work. */
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
}

/** The first one goes at once. Its timers hold no process. What cannot be told is found without it. */
export function createNotifier({ notices, clock, isolate }: NotifierOptions): Notifier {
  const shards = new Set<number>();
  let nextAtMs = Number.NEGATIVE_INFINITY;
  let failures = 0;
  let timer: NodeJS.Timeout | undefined;
  let isSending = false;
  let isStopped = false;

  function plan(): void {
    if (isSending || isStopped || timer !== undefined || shards.size === 0) return;
    const waitMs = nextAtMs - clock.monotonic();
    if (waitMs <= 0) void send();
    else
      timer = setTimeout(() => {
        timer = undefined;
        void send();
      }, waitMs).unref();
  }

  async function send(): Promise<void> {
    const told = [...shards];
    shards.clear();
    isSending = true;
    try {
      await isolate(() => notices.send(told));
      failures = 0;
      nextAtMs = clock.monotonic() + noticeIntervalMs;
    } catch {
      failures++;
      nextAtMs = clock.monotonic() + backoffMs(failures, firstPauseMs, longestPauseMs);
    }
    isSending = false;
    plan();
  }

  return {
    add(shard) {
      shards.add(shard);
      plan();
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}
