import type { RelaySettings } from './relay-settings.ts';

/** How many rows are read at once. */
export interface BatchSize {
  readonly rows: number;
  /** The most that it becomes. */
  readonly mostRows: number;
  /** What came of the last reading. */
  read(rows: number, bytes: number): void;
}

/** Batches grow up to so many times `batchSize`, and to so many rows; `batchSize` itself may be larger. */
const mostTimes = 10;
const mostRows = 1_000;
/** A batch with more bytes than this grows no further. */
const enoughBytes = 4 * 1024 * 1024;

/**
 * While few rows wait, `batchSize`. Each full batch doubles the next one, since more rows wait than were read: 100, 200, 400,
 * 800, 1,000. One that is not full halves it. Never smaller than `batchSize`.
 */
export function createBatchSize({
  batchSize,
  dynamicBatching,
}: Pick<RelaySettings, 'batchSize' | 'dynamicBatching'>): BatchSize {
  const most = dynamicBatching ? Math.max(batchSize, Math.min(batchSize * mostTimes, mostRows)) : batchSize;
  let rows = batchSize;
  return {
    get rows() {
      return rows;
    },
    mostRows: most,
    read(count, bytes) {
      if (count < rows) rows = Math.max(batchSize, Math.floor(rows / 2));
      else if (bytes < enoughBytes) rows = Math.min(rows * 2, most);
    },
  };
}
