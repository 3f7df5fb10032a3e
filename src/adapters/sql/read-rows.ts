import {
  type Aggregate,
  type ExceptRows,
  type OutboxStatistics,
  type RowFilter,
  type RowStatus,
  rowStatuses,
  type StoredRow,
} from '../../outbox/outbox-store.ts';

import { type Dialect, highestId, integers, type Tables } from './dialect.ts';
import { rowFault } from './row-fault.ts';
import { type Condition, query, queryInOrder, type SqlRow, type Work } from './statement.ts';

export function* pending(
  dialect: Dialect,
  { rows, statusIndex }: Tables,
  shards: readonly number[],
  { upToId, ids }: ExceptRows,
  limit: number,
): Work<readonly StoredRow[]> {
  const [after = 0, most = 0] = integers([upToId, limit]);
  const held = integers(shards).join(', ');
  if (held === '') return [];
  const left = integers(ids).join(', ');
  const known = left === '' ? '' : `AND id NOT IN (${left}) `;
  // The shard is told in the order as well: only the index of PENDING rows has it.
  const sql =
    `SELECT ${storedColumns(dialect)} FROM ${rows}${dialect.useIndex(statusIndex)} ` +
    `WHERE status = 'PENDING' AND id > ${after} AND id <= ${highestId} AND shard IN (${held}) ${known}ORDER BY id, shard LIMIT ${most}`;
  return (yield* queryInOrder(sql)).map(toStoredRow);
}

export function* failedAggregates({ rows }: Tables, shards: readonly number[]): Work<readonly Aggregate[]> {
  const held = integers(shards).join(', ');
  if (held === '') return [];
  // Not DISTINCT: MySQL takes texts for equal that end in blanks.
  const sql = `SELECT aggregate_type, aggregate_id FROM ${rows} WHERE status = 'FAILED' AND shard IN (${held})`;
  return (yield* query(sql)).map((row) => ({
    aggregateType: String(row.aggregate_type),
    aggregateId: String(row.aggregate_id),
  }));
}

type Page = readonly [tables: Tables, filter: RowFilter, afterId: number, limit: number];

function pageOf(columns: string, dialect: Dialect, [{ rows }, filter, afterId, limit]: Page) {
  const chosen = conditionOf(dialect, filter);
  const sql = `SELECT ${columns} FROM ${rows} WHERE id > ? AND id <= ${highestId} AND ${chosen.sql} ORDER BY id LIMIT ?`;
  return query(sql, afterId, ...chosen.values, limit);
}

export function* readRows(dialect: Dialect, ...page: Page): Work<readonly StoredRow[]> {
  return (yield* pageOf(storedColumns(dialect), dialect, page)).map(toStoredRow);
}

export function* readIds(dialect: Dialect, ...page: Page): Work<readonly number[]> {
  return (yield* pageOf('id', dialect, page)).map(({ id }) => Number(id));
}

export function* lastId({ rows }: Tables): Work<number> {
  const [found] = yield* query(
    `SELECT COALESCE(MAX(id), 0) AS last_id FROM ${rows} WHERE id <= ${highestId}`,
  );
  return Number(found?.last_id);
}

export function* holds(dialect: Dialect, { rows }: Tables, eventId: string, afterId: number): Work<boolean> {
  const [after = 0] = integers([afterId]);
  const sql = `SELECT 1 AS found FROM ${rows} WHERE id > ${after} AND ${dialect.equals('event_id')} LIMIT 1`;
  return (yield* query(sql, eventId)).length > 0;
}

export function* readTime({ msOf, now }: Dialect): Work<number> {
  const [found] = yield* query(`SELECT ${msOf(now)} AS now_ms`);
  return Math.round(Number(found?.now_ms));
}

export function* countPending({ rows }: Pick<Tables, 'rows'>): Work<number> {
  const [found] = yield* query(`SELECT COUNT(*) AS row_count FROM ${rows} WHERE status = 'PENDING'`);
  return Number(found?.row_count);
}

/**
 * Each status by its own index, none of which is read with its rows: a table keeps what is PUBLISHED for days. The oldest PENDING row
 * is the one with the lowest id.
 */
export function* statistics(dialect: Dialect, { rows }: Tables): Work<OutboxStatistics> {
  const { msOf, now } = dialect;
  const pendingCount = yield* countPending({ rows });
  const [oldest] = yield* query(
    `SELECT ${msOf(now)} - ${msOf('created_at')} AS age_ms FROM ${rows} WHERE status = 'PENDING' ORDER BY id LIMIT 1`,
  );
  const [failed] = yield* query(`SELECT COUNT(*) AS row_count FROM ${rows} WHERE status = 'FAILED'`);
  const [published] = yield* query(
    `SELECT COUNT(*) AS row_count, AVG(${msOf('published_at')} - ${msOf('created_at')}) AS mean_ms FROM ${rows} WHERE status = 'PUBLISHED'`,
  );
  const counts = {
    pending: pendingCount,
    published: Number(published?.row_count),
    failed: Number(failed?.row_count),
  };
  return {
    total: counts.pending + counts.published + counts.failed,
    ...counts,
    oldestPendingMs: duration(oldest?.age_ms),
    avgProcessingTimeMs: duration(published?.mean_ms),
  };
}

/** One less than the column holds, so that one more can be written. */
const mostRetries = 2_147_483_646;
/** What a `Date` can be. */
const longestTimeMs = 8_640_000_000_000_000;

const everyRow: Condition = { sql: '1 = 1', values: [] };

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
  if (parts.length === 0) return everyRow;
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
    'id, event_id, aggregate_type, aggregate_id, event_type, topic, record_key, headers, payload, status, shard, retry_count, last_error';
  return `${plain}, ${msOf('occurred_at')} AS occurred_ms, ${waits}`;
}

function toStoredRow(row: SqlRow): StoredRow {
  const { topic, record_key: key } = row;
  const headers = parsed(row.headers);
  const payload = bytesOf(row.payload);
  const fault = rowFault({ topic, key, headers, payload });
  return {
    id: Number(row.id),
    eventId: String(row.event_id),
    aggregateType: String(row.aggregate_type),
    aggregateId: String(row.aggregate_id),
    eventType: String(row.event_type),
    topic: String(topic),
    key: String(key),
    headers: typeof headers === 'object' && headers !== null ? (headers as StoredRow['headers']) : {},
    payload: payload ?? Buffer.alloc(0),
    occurredAt: timeOf(row.occurred_ms),
    status: row.status as RowStatus,
    retryCount: Math.max(0, Math.min(Number(row.retry_count) || 0, mostRetries)),
    lastError: row.last_error === null ? null : String(row.last_error),
    waitMs: Math.max(0, Math.ceil(Number(row.wait_ms))),
    shard: Number(row.shard),
    fault,
  };
}

function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}

/** A text that somebody else has put into SQLite is its bytes, as in the other databases. */
function bytesOf(value: unknown): Buffer | undefined {
  if (Buffer.isBuffer(value)) return value;
  if (typeof value === 'string') return Buffer.from(value);
  if (!(value instanceof Uint8Array)) return undefined;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

/** Of what no clock says, such as PostgreSQL's 'infinity', the beginning of all times. */
function timeOf(value: unknown): number {
  const ms = Math.round(Number(value));
  return Math.abs(ms) <= longestTimeMs ? ms : 0;
}

/** A clock that was set back shows in the rows. */
function duration(value: unknown): number | null {
  return value === null || value === undefined ? null : Math.max(0, Number(value));
}
