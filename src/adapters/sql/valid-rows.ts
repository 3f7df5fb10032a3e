import { besideTable, type DialectName, partsOfTable, quoteName } from '../../outbox/insert-row.ts';
import { shardCount } from '../../outbox/outbox-row.ts';
import { rowStatuses } from '../../outbox/outbox-store.ts';
import { highestId, tablesOf } from './dialect.ts';
import { query, type Work } from './statement.ts';

// Rows are refused that no relay would ever find: those of somebody else, with a shard, an id or a status that svc never gives.

/** A copy of the table, which MySQL and MariaDB make for a constraint, keeps writers waiting: of no more rows than this. */
const mostCopied = 100_000;
/** What is held up waits so long at most. */
const lockLimitSeconds = 2;

const nameOf = (table: string): string => partsOfTable(table)?.name ?? table;
const guardOf = (table: string, suffix = ''): string => besideTable(nameOf(table), `_valid${suffix}`);

const statuses = rowStatuses.map((status) => `'${status}'`).join(', ');
const known = (row = ''): string =>
  `${row}shard BETWEEN 0 AND ${shardCount - 1} AND ${row}status IN (${statuses})`;
const whole = (row = ''): string => `${row}id BETWEEN 1 AND ${highestId} AND ${known(row)}`;
/** MySQL and MariaDB take no constraint over a number that they give by themselves. */
const enforced = (dialect: 'postgres' | 'mysql'): string => (dialect === 'mysql' ? known() : whole());

/** For a table that is being made. SQLite has triggers, which older tables can be given as well. */
export function validConstraint(dialect: 'postgres' | 'mysql', table: string): string {
  return `CONSTRAINT ${quoteName(dialect, guardOf(table))} CHECK (${enforced(dialect)})`;
}

/** The statement that makes a table of an older svc refuse such rows, whatever it holds already; in SQLite one of two. */
export function guardStatement(dialect: DialectName, table: string): string {
  if (dialect === 'sqlite') return trigger(table, 'INSERT');
  const add = `ALTER TABLE ${tablesOf(dialect, table).rows} ADD ${validConstraint(dialect, table)}`;
  return dialect === 'postgres' ? `${add} NOT VALID` : add;
}

/** As a `Step` of the schema, which stands on this. */
interface GuardStep {
  readonly sql: string;
  readonly isDone?: string;
  readonly isForOlder?: boolean;
}

/** They fail on no table: not for rows that it holds, and not for those of an application that wait. */
export function guardSteps(dialect: DialectName, table: string): readonly GuardStep[] {
  const sql = guardStatement(dialect, table);
  const { rows } = tablesOf(dialect, table);
  const found = foundGuard(dialect, table);
  if (dialect === 'sqlite') return [{ sql }, { sql: trigger(table, 'UPDATE OF id, shard, status') }];
  if (dialect === 'postgres')
    return [
      {
        sql: `DO $$ BEGIN IF NOT EXISTS (${found}) THEN SET LOCAL lock_timeout = '${lockLimitSeconds}s'; ${sql}; END IF; END $$`,
      },
    ];
  const large = `SELECT 1 FROM information_schema.TABLES WHERE ${inMysql(table)} AND TABLE_ROWS > ${mostCopied}`;
  const other = `SELECT 1 FROM ${rows} WHERE NOT (${known()})`;
  const isDone = `SELECT 1 AS done FROM DUAL WHERE EXISTS (${found}) OR EXISTS (${large}) OR EXISTS (${other})`;
  // The application's statements wait behind an ALTER that waits for one of its transactions.
  const bound = `SET SESSION lock_wait_timeout = ${lockLimitSeconds}`;
  return [bound, sql].map((step) => ({ sql: step, isDone, isForOlder: true }));
}

function inMysql(table: string): string {
  const { schema, name } = partsOfTable(table) ?? { schema: undefined, name: table };
  return `TABLE_SCHEMA = ${schema === undefined ? 'DATABASE()' : `'${schema}'`} AND TABLE_NAME = '${name}'`;
}

/** After it: before, SQLite has not given the id yet. */
function trigger(table: string, event: string): string {
  const { schema, name } = partsOfTable(table) ?? { schema: undefined, name: table };
  const named = quoteName('sqlite', guardOf(table, `_${event.slice(0, 6).toLowerCase()}`));
  const at = schema === undefined ? named : `${quoteName('sqlite', schema)}.${named}`;
  return `CREATE TRIGGER IF NOT EXISTS ${at} AFTER ${event} ON ${quoteName('sqlite', name)} WHEN NOT (${whole('NEW.')}) BEGIN SELECT RAISE(ABORT, 'no relay of svc finds such a row: see id, shard and status'); END`;
}

function foundGuard(dialect: DialectName, table: string): string {
  const { schema } = partsOfTable(table) ?? {};
  const guard = guardOf(table, dialect === 'sqlite' ? '_insert' : '');
  return {
    postgres: `SELECT 1 AS found FROM pg_constraint WHERE conrelid = to_regclass('${tablesOf(dialect, table).rows}') AND conname = '${guard}'`,
    mysql: `SELECT 1 AS found FROM information_schema.TABLE_CONSTRAINTS WHERE ${inMysql(table)} AND CONSTRAINT_NAME = '${guard}'`,
    sqlite: `SELECT 1 AS found FROM ${schema === undefined ? '' : `${quoteName('sqlite', schema)}.`}sqlite_master WHERE type = 'trigger' AND name = '${guard}'`,
  }[dialect];
}

/** Rows that no relay finds, counted. */
export function* countStrays(dialect: DialectName, table: string): Work<number> {
  const sql = `SELECT COUNT(*) AS row_count FROM ${tablesOf(dialect, table).rows} WHERE NOT (${whole()})`;
  return Number((yield* query(sql))[0]?.row_count);
}

/** What makes the table refuse them, where it does not. */
export function* missingGuard(dialect: DialectName, table: string): Work<string | undefined> {
  const found = yield* query(foundGuard(dialect, table));
  return found.length > 0 ? undefined : guardStatement(dialect, table);
}
