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
