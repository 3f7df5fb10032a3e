import type { TopicRecord } from './topic-reader.ts';

/** Which records of a topic. Times are milliseconds since the epoch, by which the broker has stored them. */
export interface TailRange {
  readonly topic: string;
  /** Default: what comes after the opening. */
  readonly fromMs: number | undefined;
  /** Default: it never ends. */
  readonly untilMs: number | undefined;
}

/**
 * PORT: follows a topic, as a reader that nobody hears of: no group, nothing remembered, nothing taken from others.
 *
 * - `read` keeps the order of each partition, and ends with the signal, or where `untilMs` is reached.
 * - `older` goes back from the opening, of a tail with `fromMs`: each call gives the `count` newest records of each partition that
 *   were not given yet, or more. A tail is used for one of the two.
 * - `partitionsLeft` are those of which `older` has more.
 * - It waits out what passes, such as a leader that changes, and rejects with a one-line error where it does not pass.
 */
export interface TopicTail {
  open(): Promise<void>;
  read(signal: AbortSignal): AsyncIterable<readonly TopicRecord[]>;
  older(count: number, signal: AbortSignal): AsyncIterable<readonly TopicRecord[]>;
  partitionsLeft(): readonly number[];
  close(): Promise<void>;
}
