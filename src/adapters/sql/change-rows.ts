import type { RowFailure } from '../../outbox/outbox-store.ts';
import { type Dialect, integers, type Tables } from './dialect.ts';
import { type Condition, command, query, queryInOrder, type Work } from './statement.ts';

/** A cause for an operator, not a log of one. */
const longestError = 1_000;

export function* ack(
  dialect: Dialect,
  { rows, shards }: Tables,
  owner: string,
  given: readonly number[],
  keep: boolean,
): Work<readonly number[]> {
  const ids = integers(given);
  const where = both(dialect.isOneOf('id', ids), stillHeld(dialect, shards, owner));
  const verb = keep
    ? `UPDATE ${rows} SET status = 'PUBLISHED', published_at = ${dialect.now}, next_retry_at = NULL`
    : `DELETE FROM ${rows}`;
  const count = yield* command(`${verb} WHERE ${where.sql}`, ...where.values);
  if (count === ids.length) return ids;
  // Of another's shard; or done already, by a try whose answer did not come.
  const chosen = dialect.isOneOf('id', ids);
  const left = yield* query(
    `SELECT id FROM ${rows} WHERE ${chosen.sql} AND status = 'PENDING'`,
    ...chosen.values,
  );
  const waiting = new Set(left.map(({ id }) => Number(id)));
  return ids.filter((id) => !waiting.has(id));
}

export function* fail(
  dialect: Dialect,
  { rows, shards }: Tables,
  owner: string,
  failures: readonly RowFailure[],
): Work<void> {
  // What failed together did so for one reason: it is written down together.
  const alike = Map.groupBy(failures, ({ retryCount, lastError, retryInMs }) =>
    JSON.stringify([retryCount, lastError, retryInMs]),
  );
  for (const group of alike.values()) {
    const [{ retryCount, lastError, retryInMs }] = group as [RowFailure];
    const where = both(
      dialect.isOneOf(
        'id',
        group.map(({ id }) => id),
      ),
      stillHeld(dialect, shards, owner),
    );
    const becomes: Condition =
      retryInMs === null
        ? { sql: `status = 'FAILED', failed_at = ${dialect.now}, next_retry_at = NULL`, values: [] }
        : { sql: `next_retry_at = ${dialect.nowPlusMs}`, values: [retryInMs] };
    yield* command(
      `UPDATE ${rows} SET retry_count = ?, last_error = ?, ${becomes.sql} WHERE ${where.sql}`,
      retryCount,
      oneLine(lastError),
      ...becomes.values,
      ...where.values,
    );
  }
}

/** What was chosen a moment ago may be of another kind by now: `where` is looked at again. */
export function* makePending(
  dialect: Dialect,
  { rows }: Tables,
  ids: readonly number[],
  where: Condition,
): Work<number> {
  const all = both(both(dialect.isOneOf('id', ids), where), { sql: `status = 'FAILED'`, values: [] });
  return yield* command(
    `UPDATE ${rows} SET status = 'PENDING', retry_count = 0, last_error = NULL, next_retry_at = ${dialect.now}, failed_at = NULL WHERE ${all.sql}`,
    ...all.values,
  );
}

export function* deleteRows(
  dialect: Dialect,
  { rows }: Tables,
  ids: readonly number[],
  where: Condition,
): Work<number> {
  const all = both(dialect.isOneOf('id', ids), where);
  return yield* command(`DELETE FROM ${rows} WHERE ${all.sql}`, ...all.values);
}

const since = { PUBLISHED: 'published_at', FAILED: 'failed_at' } as const;

/** Chosen by time and deleted by primary key, so that MySQL locks no more than these rows. */
export function* cleanup(
  dialect: Dialect,
  tables: Tables,
  { status, ageMs, limit }: { status: keyof typeof since; ageMs: number; limit: number },
): Work<number> {
  const lock = `cleanup ${tables.rows}`;
  if (dialect.locks !== undefined && !(yield* dialect.locks.tryLock(lock))) return 0;
  try {
    const time = since[status];
    const old: Condition = {
      sql: `status = '${status}' AND ${time} < ${dialect.nowMinusMs}`,
      values: [ageMs],
    };
    const [age = 0, most = 0] = integers([Math.round(ageMs), limit]);
    const sql = `SELECT id FROM ${tables.rows} WHERE ${old.sql.replace('?', String(age))} ORDER BY ${time} LIMIT ${most}`;
    const ids = (yield* queryInOrder(sql)).map(({ id }) => Number(id));
    return ids.length === 0 ? 0 : yield* deleteRows(dialect, tables, ids, old);
  } finally {
    if (dialect.locks?.unlock !== undefined) yield* dialect.locks.unlock(lock);
  }
}

/** A row that is waiting, in a shard of the owner's. */
function stillHeld(dialect: Dialect, shards: string, owner: string): Condition {
  const held = `SELECT shard FROM ${shards} WHERE owner = ? AND lease_until > ${dialect.now}`;
  return { sql: `status = 'PENDING' AND ${dialect.isIn('shard', held)}`, values: [owner] };
}

function both(one: Condition, other: Condition): Condition {
  return { sql: `${one.sql} AND ${other.sql}`, values: [...one.values, ...other.values] };
}

function oneLine(text: string): string {
  // PostgreSQL stores no NUL.
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').slice(0, longestError);
}
