import type { OutboxStore, RowFilter, StoredRow } from './outbox-store.ts';

/** How many rows are read at once. */
export interface BatchSize {
  readonly rows: number;
  /** The most that it becomes. */
  readonly mostRows: number;
  /** What came of the last reading. */
  read(rows: number, bytes: number): void;
  /** The last reading has failed, as it does where rows are so large that they do not come in time. */
  failed(): void;
}

/** Batches grow up to so many times `batchSize`, and to so many rows; `batchSize` itself may be larger. */
const mostTimes = 10;
const mostRows = 1_000;
/** A batch with more bytes than this grows no further. */
const enoughBytes = 4 * 1024 * 1024;
/** A batch with more bytes than this makes the next one smaller: what is read is in memory, and has to come in time. */
const mostBytes = 16 * 1024 * 1024;

/**
 * While few rows wait, `batchSize`. Each full batch doubles the next one, since more rows wait than were read: 100, 200, 400,
 * 800, 1,000. One that is not full halves it. Smaller than `batchSize` only
 * where rows are large, until they are small again.
 */
export function createBatchSize({
  batchSize,
  dynamicBatching,
}: {
  readonly batchSize: number;
  readonly dynamicBatching: boolean;
}): BatchSize {
  const most = dynamicBatching ? Math.max(batchSize, Math.min(batchSize * mostTimes, mostRows)) : batchSize;
  let rows = batchSize;
  return {
    get rows() {
      return rows;
    },
    mostRows: most,
    read(count, bytes) {
      if (bytes > mostBytes) rows = Math.max(1, Math.floor((count * mostBytes) / bytes));
      else if (count < rows) rows = Math.max(Math.min(rows, batchSize), Math.floor(rows / 2));
      else if (bytes < enoughBytes) rows = Math.min(rows * 2, most);
    },
    failed() {
      rows = Math.max(1, Math.floor(rows / 2));
    },
  };
}

/** Of those that an operator asks for, at the beginning; up to ten times as many where they are small. */
const firstRows = 50;

/** Rows by ascending id, those behind `afterId`. Rejects as the store does. */
export async function* pagesOf(
  store: Pick<OutboxStore, 'read'>,
  filter: RowFilter,
  limit: number,
  afterId = 0,
): AsyncGenerator<readonly StoredRow[], undefined> {
  const size = createBatchSize({ batchSize: firstRows, dynamicBatching: true });
  let lastId = afterId;
  for (let left = limit; left > 0; ) {
    const most = Math.min(left, size.rows);
    let page: readonly StoredRow[];
    try {
      page = await store.read(filter, lastId, most);
    } catch (error) {
      // Rows that are larger than those before them may not come in time.
      if (lastId === afterId || most === 1) throw error;
      size.failed();
      continue;
    }
    if (page.length > 0) yield page;
    if (page.length < most) return;
    size.read(page.length, bytesOf(page));
    left -= page.length;
    lastId = page.at(-1)?.id ?? lastId;
  }
}

export function bytesOf(rows: readonly StoredRow[]): number {
  return rows.reduce((sum, { payload }) => sum + payload.length, 0);
}
