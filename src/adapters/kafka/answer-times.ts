import type { Clock } from '../../ground/clock.ts';

/** As Kafka's own clients do it: the mean is over this time and what has passed of the next. */
const windowMs = 30_000;

export interface Answer {
  /** When it came, on the monotonic clock. */
  readonly atMs: number;
  readonly tookMs: number;
}

/** How long the broker takes to answer. */
export interface AnswerTimes {
  record(ms: number): void;
  last(): Answer | undefined;
  /** Milliseconds, over the last 30 to 60 seconds; `null`: nothing was answered. */
  mean(): number | null;
}

interface Window {
  count: number;
  sumMs: number;
}

export function createAnswerTimes(clock: Clock): AnswerTimes {
  const empty = (): Window => ({ count: 0, sumMs: 0 });
  let startMs = clock.monotonic();
  let before = empty();
  let now = empty();
  let last: Answer | undefined;

  function turn(): void {
    const turns = Math.floor((clock.monotonic() - startMs) / windowMs);
    if (turns === 0) return;
    startMs += turns * windowMs;
    before = turns === 1 ? now : empty();
    now = empty();
  }

  return {
    record(ms) {
      turn();
      last = { atMs: clock.monotonic(), tookMs: ms };
      now.count++;
      now.sumMs += ms;
    },
    last: () => last,
    mean() {
      turn();
      const count = before.count + now.count;
      return count === 0 ? null : (before.sumMs + now.sumMs) / count;
    },
  };
}
