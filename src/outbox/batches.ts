import type { OutboxStore, RowFilter, StoredRow } from './outbox-store.ts';

/** Batches grow to this multiple of `batchSize`, and to at most this many rows. `batchSize` itself may be larger. */
const maxTimes = 10;
const maxRows = 1_000;
/** A batch with more bytes than this does not grow. */
const enoughBytes = 4 * 1024 * 1024;
/** After a batch with more bytes than this, the next one is smaller: batches are held in memory, and must arrive in time. */
const maxBytes = 16 * 1024 * 1024;

/**
 * Starts with `batchSize`. A full batch doubles the next one, because more rows wait: 100, 200, 400, 800, 1,000. Other batches
 * halve it. It falls below `batchSize` only while rows are large.
 */
export function createBatchSize({
  batchSize,
  dynamicBatching,
}: {
  readonly batchSize: number;
  readonly dynamicBatching: boolean;
}) {
  const max = dynamicBatching ? Math.max(batchSize, Math.min(batchSize * maxTimes, maxRows)) : batchSize;
  let rows = batchSize;
  return {
    get rows() {
      return rows;
    },
    /** Upper limit. */
    maxRows: max,
    /** Reports a read. */
    read(page: readonly { readonly payload: { readonly length: number } }[]): void {
      const count = page.length;
      const bytes = page.reduce((sum, { payload }) => sum + payload.length, 0);
      if (bytes > maxBytes) rows = Math.max(1, Math.floor((count * maxBytes) / bytes));
      else if (count < rows) rows = Math.max(Math.min(rows, batchSize), Math.floor(rows / 2));
      else if (bytes < enoughBytes) rows = Math.min(rows * 2, max);
    },
    /** The last read failed: large rows may not arrive in time. */
    failed(): void {
      rows = Math.max(1, Math.floor(rows / 2));
    },
  };
}

/** First page of a request by an operator. Pages grow to ten times that while rows are small. */
const firstRows = 50;

/** Rows after `afterId`, by ascending id. Rejects as the store does. */
export async function* pagesOf(
  store: Pick<OutboxStore, 'read'>,
  filter: RowFilter,
  limit: number,
  afterId = 0,
): AsyncGenerator<readonly StoredRow[], undefined> {
  const size = createBatchSize({ batchSize: firstRows, dynamicBatching: true });
  let lastId = afterId;
  for (let left = limit; left > 0; ) {
    const max = Math.min(left, size.rows);
    let page: readonly StoredRow[];
    try {
      page = await store.read(filter, lastId, max);
    } catch (error) {
      // Larger rows than before may not arrive in time: try fewer.
      if (lastId === afterId || max === 1) throw error;
      size.failed();
      continue;
    }
    if (page.length > 0) yield page;
    if (page.length < max) return;
    size.read(page);
    left -= page.length;
    lastId = page.at(-1)?.id ?? lastId;
  }
}
