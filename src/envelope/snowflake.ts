import { type Clock, systemClock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import { snowflakeEpochMs } from '../ground/event-id.ts';
import { createWordSource, type DrawWord } from './random-words.ts';

/** The default for `maxBackwardMs`: NTP steps stay below it, a wrongly set clock does not. */
export const defaultMaxBackwardMs = 10_000;
export const maxWorkerId = 1023;

const idsPerMs = 4096;
/** Beyond any sequence: no further id may carry the worker id of the last one. */
const worksElsewhere = 2 * idsPerMs;
const maxTimestampMs = 2 ** 41 - 1;
const msSize = (maxWorkerId + 1) * idsPerMs;
/** An id is three numbers of six digits, each exact in a number, so that no BigInt is needed. Only `low` changes per id. */
const partSize = 1_000_000;

export interface SnowflakeOptions {
  /** 0 to 1023, used by nobody else at the same time. */
  readonly workerId: number;
  /** Default: the system clock. */
  readonly clock?: Clock | undefined;
  /** A clock that steps back further than this throws; up to it, ids count on from the last one. Default: 10,000. */
  readonly maxBackwardMs?: number | undefined;
  /** 0 to 4,095: where the sequence of a millisecond begins. Default: at random. */
  readonly firstSequence?: (() => number) | undefined;
}

export interface Snowflake {
  /**
   * The next id. Throws `SVC_ENVELOPE_CLOCK_MOVED_BACKWARDS` (`ClockMovedBackwardsException`) as long as the clock is more
   * than `maxBackwardMs` behind the latest time it has shown, and `SVC_ENVELOPE_CLOCK_OUT_OF_RANGE` outside 2024 to 2093.
   */
  next(): string;
  /** That of the next id. */
  readonly workerId: number;
  /**
   * From the next id on, which lies in a later millisecond than the last one with another worker id. Throws
   * `SVC_ENVELOPE_WORKER_ID` for one out of range, and goes on with the present one.
   */
  useWorkerId(workerId: number): void;
}

/**
 * Makes ids: 41 bits of milliseconds since 2024, 10 of worker, 12 of sequence, in decimal. Each is greater than the one
 * before. Never waits: what a millisecond has no room for, or a clock that stepped back a little, goes on in the
 * milliseconds after the last id.
 *
 * The sequence of a millisecond begins at a random place, so that two processes that have one worker id by mistake seldom
 * make one id. A millisecond ahead of the clock begins at 0: thus 4,096 a millisecond last, for as long as they come.
 * Creating it throws `SVC_ENVELOPE_WORKER_ID` for a worker id out of range.
 */
export function createSnowflake(options: SnowflakeOptions): Snowflake {
  const { clock = systemClock, maxBackwardMs = defaultMaxBackwardMs } = options;
  const firstSequence = options.firstSequence ?? randomSequence(createWordSource());
  let workerId = checkWorkerId(options.workerId);
  /** The latest time the clock has shown. Ids may be ahead of it, so it is kept apart from theirs. */
  let latestMs = Number.NEGATIVE_INFINITY;
  let timestampMs = Number.NEGATIVE_INFINITY;
  let sequence = 0;
  let high = 0;
  let middle = 0;
  let low = 0;
  /** The digits of `high` and `middle`, without leading zeros; empty when there are none. */
  let prefix = '';

  return {
    next,
    get workerId() {
      return workerId;
    },
    useWorkerId(wanted) {
      if (checkWorkerId(wanted) === workerId) return;
      workerId = wanted;
      sequence = worksElsewhere;
    },
  };

  function next(): string {
    const nowMs = clock.now();
    if (nowMs > latestMs) latestMs = nowMs;
    else if (latestMs - nowMs > maxBackwardMs) throw clockMovedBackwards(latestMs - nowMs, maxBackwardMs);
    const elapsedMs = Math.floor(nowMs) - snowflakeEpochMs;
    // Written so that a clock that says NaN is refused too.
    if (!(elapsedMs <= timestampMs)) start(elapsedMs, firstSequence());
    else if (++sequence < idsPerMs) low++;
    else start(timestampMs + 1, sequence === idsPerMs ? 0 : firstSequence());
    if (low >= partSize) {
      low -= partSize;
      middle++;
      setPrefix();
    }
    return prefix === '' ? String(low) : prefix + sixDigits(low);
  }

  /** `atMs * 2^22 + workerId * 2^12 + from` in three parts: every product stays below 2^53. */
  function start(atMs: number, from: number): void {
    if (!(atMs >= 0 && atMs <= maxTimestampMs)) throw clockOutOfRange();
    const millions = Math.floor(atMs / partSize);
    const rest = (atMs - millions * partSize) * msSize + workerId * idsPerMs + from;
    const carry = Math.floor(rest / partSize);
    const upper = millions * msSize + carry;
    timestampMs = atMs;
    sequence = from;
    low = rest - carry * partSize;
    high = Math.floor(upper / partSize);
    middle = upper - high * partSize;
    setPrefix();
  }

  function setPrefix(): void {
    if (middle === partSize) {
      middle = 0;
      high++;
    }
    if (high > 0) prefix = String(high) + sixDigits(middle);
    else prefix = middle > 0 ? String(middle) : '';
  }
}

function randomSequence(draw: DrawWord): () => number {
  return () => draw() & (idsPerMs - 1);
}

/** `000` to `999`: looking digits up costs less than writing a number. */
const threeDigits: readonly string[] = Array.from({ length: 1000 }, (_, value) =>
  String(value).padStart(3, '0'),
);

function sixDigits(value: number): string {
  const thousands = Math.floor(value / 1000);
  return (threeDigits[thousands] as string) + (threeDigits[value - thousands * 1000] as string);
}

/** Returns the id, or throws `SVC_ENVELOPE_WORKER_ID`. */
export function checkWorkerId(workerId: number): number {
  if (Number.isInteger(workerId) && workerId >= 0 && workerId <= maxWorkerId) return workerId;
  throw new SvcError('SVC_ENVELOPE_WORKER_ID', `workerId must be between 0 and ${maxWorkerId}`);
}

function clockMovedBackwards(backwardMs: number, maxBackwardMs: number): SvcError {
  return new SvcError(
    'SVC_ENVELOPE_CLOCK_MOVED_BACKWARDS',
    `the clock moved backwards by ${backwardMs} ms, more than the ${maxBackwardMs} ms that event ids can ride out`,
    { name: 'ClockMovedBackwardsException' },
  );
}

function clockOutOfRange(): SvcError {
  return new SvcError(
    'SVC_ENVELOPE_CLOCK_OUT_OF_RANGE',
    'event ids need a clock between 2024-01-01 and 2093-09-06',
  );
}
