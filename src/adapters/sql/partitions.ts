import { besideTable, partsOfTable, quoteTable } from '../../outbox/insert-row.ts';
import { dialects, type Tables, tablesOf, tryLockInPostgres } from './dialect.ts';
import { command, query, type Work } from './statement.ts';

// A table of PostgreSQL in partitions, one for each day (UTC) in which rows are stored, and one for what has no other.

/** Rows are short-lived: the general settings would let the table grow to a multiple of what is in it. */
export const rowSettings =
  ' WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_cost_delay = 0)';

const dayMs = 86_400_000;
/** Today, and so many days ahead: a database that cannot be changed for some days costs nothing. */
export const daysAhead = 3;
/** The application's INSERTs wait behind whoever waits for a table: so nobody waits for long. */
const lockLimitMs = 200;
/** What is done while they may wait. */
const workLimitMs = 2_000;

/** As `20261122`. */
function dayOf(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 10).replaceAll('-', '');
}

function nextDays(nowMs: number): readonly number[] {
  const today = Math.floor(nowMs / dayMs) * dayMs;
  return Array.from({ length: daysAhead + 1 }, (_, ahead) => today + ahead * dayMs);
}

function bounds(dayStartMs: number): readonly [from: string, to: string] {
  const text = (timeMs: number): string => `'${new Date(timeMs).toISOString().slice(0, 10)} 00:00:00+00'`;
  return [text(dayStartMs), text(dayStartMs + dayMs)];
}

const suffixOf = (dayStartMs: number): string => `_p${dayOf(dayStartMs)}`;
const defaultSuffix = '_default';

/** With the table, before it holds a row. */
export function firstPartitions(table: string, nowMs: number): readonly string[] {
  const { rows } = tablesOf('postgres', table);
  const partition = (suffix: string, of: string): string =>
    `CREATE TABLE IF NOT EXISTS ${quoteTable('postgres', table, suffix)} PARTITION OF ${rows} ${of}${rowSettings}`;
  const days = nextDays(nowMs).map((day) => {
    const [from, to] = bounds(day);
    return partition(suffixOf(day), `FOR VALUES FROM (${from}) TO (${to})`);
  });
  return [partition(defaultSuffix, 'DEFAULT'), ...days];
}

export interface PartitionWork {
  readonly isPartitioned: boolean;
  /** Days that have none yet. */
  readonly missing: readonly number[];
  /** Days that are over for longer than `ageMs`, the oldest first. */
  readonly old: readonly number[];
}

/** What there is to do. Partitions that svc has not made are nobody's business here. */
export function* lookAtPartitions(table: string, ageMs: number): Work<PartitionWork> {
  const { rows } = tablesOf('postgres', table);
  const { msOf, now } = dialects.postgres;
  const [found] = yield* query(
    `SELECT relkind AS kind, ${msOf(now)} AS now_ms FROM pg_class WHERE oid = to_regclass(?)`,
    rows,
  );
  if (found?.kind !== 'p') return { isPartitioned: false, missing: [], old: [] };
  const nowMs = Number(found.now_ms);
  const names = yield* query(
    `SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass(?)`,
    rows,
  );
  const days = names
    .map(({ name }) => dayOfPartition(table, String(name)))
    .filter((day) => day !== undefined)
    .sort((one, other) => one - other);
  return {
    isPartitioned: true,
    missing: nextDays(nowMs).filter((day) => !days.includes(day)),
    old: days.filter((day) => day + dayMs < nowMs - ageMs),
  };
}

function dayOfPartition(table: string, name: string): number | undefined {
  const [, year, month, day] = /_p(\d{4})(\d\d)(\d\d)$/.exec(name) ?? [];
  const start = Date.parse(`${year}-${month}-${day}T00:00:00Z`);
  if (Number.isNaN(start)) return undefined;
  return besideTable(partsOfTable(table)?.name ?? table, suffixOf(start)) === name ? start : undefined;
}

/**
 * Made beside the table and then attached, which no INSERT of the application waits for. `false`: another instance is at it, or rows of
 * that day lie in the default partition already, where they stay.
 */
export function* addPartition(table: string, dayStartMs: number): Work<boolean> {
  const { rows } = tablesOf('postgres', table);
  if (!(yield* takeTurn(rows))) return false;
  const partition = quoteTable('postgres', table, suffixOf(dayStartMs));
  const [there] = yield* query(
    'SELECT 1 AS found FROM pg_inherits WHERE inhparent = to_regclass(?) AND inhrelid = to_regclass(?)',
    rows,
    partition,
  );
  // By another instance, since this one has looked.
  if (there !== undefined) return false;
  const [from, to] = bounds(dayStartMs);
  const [other] = yield* query(
    `SELECT 1 AS found FROM ${quoteTable('postgres', table, defaultSuffix)} WHERE created_at >= ${from} AND created_at < ${to} LIMIT 1`,
  );
  if (other !== undefined) return false;
  yield* command(
    `CREATE TABLE IF NOT EXISTS ${partition} (LIKE ${rows} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)${rowSettings}`,
  );
  yield* command(`ALTER TABLE ${rows} ATTACH PARTITION ${partition} FOR VALUES FROM (${from}) TO (${to})`);
  return true;
}

/**
 * Drops a day whose rows are all PUBLISHED for longer than `ageMs`. A transaction may have stored a row on that day and commit
 * only now: so it is looked at when nobody else has the table any more. `false`: there are others, or another instance is at it.
 */
export function* dropPartition(table: string, dayStartMs: number, ageMs: number): Work<boolean> {
  const { rows } = tablesOf('postgres', table);
  if (!(yield* takeTurn(rows))) return false;
  const partition = quoteTable('postgres', table, suffixOf(dayStartMs));
  if (yield* isNeeded(partition, ageMs)) return false;
  // In the order in which others take them.
  yield* command(`LOCK TABLE ONLY ${rows} IN ACCESS EXCLUSIVE MODE`);
  yield* command(`LOCK TABLE ${partition} IN ACCESS EXCLUSIVE MODE`);
  if (yield* isNeeded(partition, ageMs)) return false;
  yield* command(`DROP TABLE ${partition}`);
  return true;
}

/** Each through an index of its own. */
function* isNeeded(partition: string, ageMs: number): Work<boolean> {
  const some = (where: string): string => `EXISTS (SELECT 1 FROM ${partition} WHERE ${where})`;
  const kept = [
    some(`status = 'PENDING'`),
    some(`status = 'FAILED'`),
    some(`status = 'PUBLISHED' AND published_at >= ${dialects.postgres.nowMinusMs}`),
  ];
  const [found] = yield* query(`SELECT CASE WHEN ${kept.join(' OR ')} THEN 1 ELSE 0 END AS needed`, ageMs);
  return Number(found?.needed) !== 0;
}

function* takeTurn(rows: Tables['rows']): Work<boolean> {
  yield* command(`SET LOCAL lock_timeout = ${lockLimitMs}`);
  yield* command(`SET LOCAL statement_timeout = ${workLimitMs}`);
  return yield* tryLockInPostgres(`cleanup ${rows}`);
}
