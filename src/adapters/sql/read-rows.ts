import {
  type OutboxStatistics,
  type RowFilter,
  type RowStatus,
  rowStatuses,
  type StoredRow,
} from '../../outbox/outbox-store.ts';
import type { Dialect, Tables } from './dialect.ts';
import { type Condition, query, type SqlRow, type Work } from './statement.ts';

export function* pending(
  dialect: Dialect,
  { rows }: Tables,
  shards: readonly number[],
  afterId: number,
  limit: number,
): Work<readonly StoredRow[]> {
  const held = dialect.isOneOf('shard', shards);
  const sql = `SELECT ${storedColumns(dialect)} FROM ${rows} WHERE status = 'PENDING' AND id > ? AND ${held.sql} ORDER BY id LIMIT ?`;
  return (yield* query(sql, afterId, ...held.values, limit)).map(toStoredRow);
}

export function* readRows(
  dialect: Dialect,
  { rows }: Tables,
  filter: RowFilter,
  afterId: number,
  limit: number,
): Work<readonly StoredRow[]> {
  const chosen = conditionOf(dialect, filter);
  const sql = `SELECT ${storedColumns(dialect)} FROM ${rows} WHERE id > ? AND ${chosen.sql} ORDER BY id LIMIT ?`;
  return (yield* query(sql, afterId, ...chosen.values, limit)).map(toStoredRow);
}

export function* readIds(
  dialect: Dialect,
  { rows }: Tables,
  filter: RowFilter,
  afterId: number,
  limit: number,
): Work<readonly number[]> {
  const chosen = conditionOf(dialect, filter);
  const sql = `SELECT id FROM ${rows} WHERE id > ? AND ${chosen.sql} ORDER BY id LIMIT ?`;
  return (yield* query(sql, afterId, ...chosen.values, limit)).map(({ id }) => Number(id));
}

export function* countPending({ rows }: Tables): Work<number> {
  const [found] = yield* query(`SELECT COUNT(*) AS row_count FROM ${rows} WHERE status = 'PENDING'`);
  return Number(found?.row_count);
}

export function* statistics(dialect: Dialect, { rows }: Tables): Work<OutboxStatistics> {
  const { msOf, now } = dialect;
  const found = yield* query(
    `SELECT status, COUNT(*) AS row_count, MAX(${msOf(now)} - ${msOf('created_at')}) AS oldest_ms, ` +
      `AVG(${msOf('published_at')} - ${msOf('created_at')}) AS mean_ms FROM ${rows} GROUP BY status`,
  );
  const of = (status: RowStatus) => found.find((row) => row.status === status);
  const count = (status: RowStatus): number => Number(of(status)?.row_count ?? 0);
  return {
    total: found.reduce((sum, row) => sum + Number(row.row_count), 0),
    pending: count('PENDING'),
    published: count('PUBLISHED'),
    failed: count('FAILED'),
    oldestPendingMs: duration(of('PENDING')?.oldest_ms),
    avgProcessingTimeMs: duration(of('PUBLISHED')?.mean_ms),
  };
}

/** An empty filter is every row; an empty list in it is none. */
export function conditionOf(dialect: Dialect, filter: RowFilter): Condition {
  const parts: Condition[] = [];
  if (filter.ids !== undefined) parts.push(dialect.isOneOf('id', filter.ids));
  if (filter.statuses !== undefined) parts.push(hasStatus(filter.statuses));
  const texts = [
    ['event_type', filter.eventType],
    ['topic', filter.topic],
    ['aggregate_type', filter.aggregateType],
    ['aggregate_id', filter.aggregateId],
  ] as const;
  for (const [column, text] of texts)
    if (text !== undefined) parts.push({ sql: dialect.equals(column), values: [text] });
  const { since, before } = filter;
  if (since !== undefined) parts.push({ sql: `created_at >= ${dialect.timeOfMs}`, values: [since] });
  if (before !== undefined) parts.push({ sql: `created_at < ${dialect.timeOfMs}`, values: [before] });
  if (parts.length === 0) return { sql: '1 = 1', values: [] };
  return {
    sql: parts.map(({ sql }) => sql).join(' AND '),
    values: parts.flatMap(({ values }) => values),
  };
}

/** Written out: with a parameter no partial index would be found. */
function hasStatus(statuses: readonly RowStatus[]): Condition {
  const known = rowStatuses.filter((status) => statuses.includes(status));
  const sql = known.map((status) => `status = '${status}'`).join(' OR ');
  return { sql: known.length === 0 ? '1 = 0' : `(${sql})`, values: [] };
}

function storedColumns({ msOf, now }: Dialect): string {
  const waits = `CASE WHEN next_retry_at IS NULL THEN 0 ELSE ${msOf('next_retry_at')} - ${msOf(now)} END AS wait_ms`;
  const plain =
    'id, event_id, aggregate_type, aggregate_id, event_type, topic, record_key, headers, payload, status, retry_count, last_error';
  return `${plain}, ${msOf('occurred_at')} AS occurred_ms, ${waits}`;
}

function toStoredRow(row: SqlRow): StoredRow {
  return {
    id: Number(row.id),
    eventId: String(row.event_id),
    aggregateType: String(row.aggregate_type),
    aggregateId: String(row.aggregate_id),
    eventType: String(row.event_type),
    topic: String(row.topic),
    key: String(row.record_key),
    headers: JSON.parse(String(row.headers)) as Record<string, string>,
    payload: bytesOf(row.payload),
    occurredAt: Math.round(Number(row.occurred_ms)),
    status: row.status as RowStatus,
    retryCount: Number(row.retry_count),
    lastError: row.last_error === null ? null : String(row.last_error),
    waitMs: Math.max(0, Math.ceil(Number(row.wait_ms))),
  };
}

function bytesOf(value: unknown): Buffer {
  if (Buffer.isBuffer(value)) return value;
  const { buffer, byteOffset, byteLength } = value as Uint8Array;
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** A clock that was set back shows in the rows. */
function duration(value: unknown): number | null {
  return value === null || value === undefined ? null : Math.max(0, Number(value));
}
