import type { DlqRecord } from './tiers/dlq-message.ts';

/** A record as it stands in a topic. */
export interface TopicRecord extends DlqRecord {
  readonly partition: number;
  readonly offset: number;
}

/**
 * PORT: reads a topic once, up to what it holds when the reading begins, and remembers in the broker which records are
 * done. Used by the command line alone.
 *
 * - `read` leaves out what is done, keeps the order of each partition, and gives batches of at most `size`.
 * - `done` marks records durably, in any order: those before them that are not done are read again the next time.
 * - Without `forRecovery`, `open` takes nothing away from a recovery that runs.
 * - All of them reject with a one-line error.
 */
export interface TopicReader {
  open(forRecovery: boolean): Promise<void>;
  /** Records that are not done. */
  count(): Promise<number>;
  read(size: number): AsyncIterable<readonly TopicRecord[]>;
  done(records: readonly TopicRecord[]): Promise<void>;
  close(): Promise<void>;
}

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
