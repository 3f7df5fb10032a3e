export interface TopicRecord {
  readonly key: string | null;
  readonly value: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  readonly timestamp: number;
  readonly partition: number;
  readonly offset: number;
}

/**
 * PORT: reads a topic once, up to its end at the start, and stores in the broker which records are done. Only commands use it.
 *
 * - `read` skips records that are done, keeps the order of each partition, and gives batches of at most `size`.
 * - `done` marks records durably, in any order. Earlier records that are not done are read again the next time.
 * - Without `forRecovery`, `open` does not disturb a running recovery.
 * - All methods reject with a one-line error.
 */
export interface TopicReader {
  open(forRecovery: boolean): Promise<void>;
  /** Records that are not done. */
  count(): Promise<number>;
  read(size: number): AsyncIterable<readonly TopicRecord[]>;
  done(records: readonly TopicRecord[]): Promise<void>;
  close(): Promise<void>;
}

/** Which records of a topic. Times are milliseconds since the epoch, as stored by the broker. */
export interface TailRange {
  readonly topic: string;
  /** Default: only records after `open`. */
  readonly fromMs: number | undefined;
  /** Default: never ends. */
  readonly untilMs: number | undefined;
}

/**
 * PORT: follows a topic without a consumer group. It stores nothing and does not affect other readers.
 *
 * - `read` keeps the order of each partition. It ends with the signal, or when `untilMs` is reached.
 * - `older` reads backward from the end at `open`; it needs `fromMs`. Each call gives at least the next `count` newest records of
 *   each partition. Use a tail for either `read` or `older`.
 * - `partitionsLeft` are the partitions that `older` has not finished.
 * - It waits out temporary errors, such as a change of leader. Otherwise it rejects with a one-line error.
 */
export interface TopicTail {
  open(): Promise<void>;
  read(signal: AbortSignal): AsyncIterable<readonly TopicRecord[]>;
  older(count: number, signal: AbortSignal): AsyncIterable<readonly TopicRecord[]>;
  partitionsLeft(): readonly number[];
  close(): Promise<void>;
}
