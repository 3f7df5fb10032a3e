import { partitionOfKey } from '../partition-of-key.ts';

/** Chooses partitions of one topic. */
export interface Partitioner {
  partitionOf(key: string | null, partitionCount: number): number;
  /** A batch was taken from this partition: events without a key go to another one from now on. */
  batchTaken(partition: number | undefined): void;
}

/** Without a key, events stay on one partition until a batch of it is sent: one full batch instead of many small ones. */
export function createPartitioner(random: () => number = Math.random): Partitioner {
  let sticky: number | undefined;
  return {
    partitionOf(key, partitionCount) {
      if (key !== null) return partitionOfKey(key, partitionCount);
      sticky = (sticky ?? Math.floor(random() * partitionCount)) % partitionCount;
      return sticky;
    },
    batchTaken(partition) {
      if (partition !== undefined && partition === sticky) sticky++;
    },
  };
}
