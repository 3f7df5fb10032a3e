import type { ConsumedRecord } from './consumed-event.ts';

export interface Partition {
  readonly topic: string;
  readonly partition: number;
}

export const keyOf = ({ topic, partition }: Partition): string => `${topic}:${partition}`;

export interface Commit extends Partition {
  /** Of the next record. */
  readonly offset: bigint;
  readonly leaderEpoch: number | undefined;
}

/** Receives the records of a source. */
export interface RecordSink {
  /** Whether a record of this partition fits. `waits`: it does not, and that may take long. */
  stateOf(partition: Partition): 'room' | 'full' | 'waits';
  /** Resolves when the state is no longer `full`. */
  whenNotFull(partition: Partition): Promise<void>;
  push(record: ConsumedRecord): void;
  /** The complete new assignment of this consumer. */
  assigned(partitions: readonly Partition[]): void;
}

/** A Kafka client that the application has created, and whose consumer group it names. */
export interface RecordSource {
  /** Resolves when the client has joined its group, or retries in the background. */
  start(sink: RecordSink): Promise<void>;
  /** Pauses this partition; others continue. */
  hold(partition: Partition): void;
  /** Resumes it. */
  release(partition: Partition): void;
  commit(commits: readonly Commit[]): Promise<void>;
  /** Leaves the group; later records are discarded. */
  close(): Promise<void>;
}

export interface SourceOptions {
  readonly topics: readonly string[];
  /** Where a group without committed offsets starts. */
  readonly fromBeginning: boolean;
  /** Logs an error that the client retries by itself. */
  readonly onTrouble: (error: unknown) => void;
}
