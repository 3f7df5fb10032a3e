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

/** What a source gives its records to. */
export interface RecordSink {
  /** Whether there is room for a record of this partition; `waits`: there is none, and it may take long. */
  stateOf(partition: Partition): 'room' | 'full' | 'waits';
  /** Resolves when the state is another than `full`. */
  whenNotFull(partition: Partition): Promise<void>;
  push(record: ConsumedRecord): void;
  /** These are ours from now on, and no others. */
  assigned(partitions: readonly Partition[]): void;
}

/** A client of Kafka that the application has made, and whose consumer group it names. */
export interface RecordSource {
  /** Resolves when the client has joined its group, or goes on trying to. */
  start(sink: RecordSink): Promise<void>;
  /** No records of this partition for the time being; those of the others come. */
  hold(partition: Partition): void;
  /** There is room again. */
  release(partition: Partition): void;
  commit(commits: readonly Commit[]): Promise<void>;
  /** Leaves the group; what comes afterwards nobody takes. */
  close(): Promise<void>;
}

export interface SourceOptions {
  readonly topics: readonly string[];
  /** Where a group begins that has read nothing of a partition. */
  readonly fromBeginning: boolean;
  /** A line about something that the client tries again by itself. */
  readonly onTrouble: (error: unknown) => void;
}
