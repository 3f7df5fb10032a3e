import { insertColumns } from '../../outbox/insert-row.ts';
import type { Dialect, Tables } from './dialect.ts';
import { type Layout, type Migration, migrations, noteVersion, schemaTable } from './schema.ts';
import { command, query, type Work } from './statement.ts';

const otherColumns = [
  'id',
  'status',
  'retry_count',
  'last_error',
  'next_retry_at',
  'created_at',
  'published_at',
  'failed_at',
] as const;

/** The version of the tables; 0: of none that svc has made. */
export function* readVersion({ schema }: Tables): Work<number> {
  const [found] = yield* query(`SELECT MAX(version) AS version FROM ${schema}`);
  return Number(found?.version ?? 0);
}

/**
 * Everything that will be done, done to no row: a database looks at rights and columns all the same. So it is noticed at the
 * start, not at the first event.
 */
export function* tryStatements({ rows, shards, relays }: Tables): Work<void> {
  const given = insertColumns.join(', ');
  yield* query(`SELECT ${given}, ${otherColumns.join(', ')} FROM ${rows} WHERE 1 = 0`);
  yield* command(`INSERT INTO ${rows} (${given}) SELECT ${given} FROM ${rows} WHERE 1 = 0`);
  yield* command(`UPDATE ${rows} SET status = status WHERE 1 = 0`);
  yield* command(`DELETE FROM ${rows} WHERE 1 = 0`);
  yield* command(`UPDATE ${shards} SET owner = owner, lease_until = lease_until WHERE 1 = 0`);
  yield* command(
    `INSERT INTO ${relays} (owner, alive_until) SELECT owner, alive_until FROM ${relays} WHERE 1 = 0`,
  );
  yield* command(`UPDATE ${relays} SET alive_until = alive_until WHERE 1 = 0`);
  yield* command(`DELETE FROM ${relays} WHERE 1 = 0`);
}

export interface MigrateOptions extends Layout {
  /** The longest wait for another process that is at it. */
  readonly limitMs: number;
  readonly migrations?: readonly Migration[] | undefined;
}

export interface Migrated {
  readonly before: number;
  readonly after: number;
}

/**
 * Brings the tables to the next version, where there is one: each version is a transaction of its own, as far as the database can
 * roll back a CREATE TABLE. One process at a time: the others wait, and find it done. `undefined`: another has had the lock for
 * all of the time.
 */
export function* migrate(
  dialect: Dialect,
  table: string,
  tables: Tables,
  { limitMs, migrations: known = migrations, ...layout }: MigrateOptions,
): Work<Migrated | undefined> {
  const lock = `migrate ${tables.rows}`;
  if (dialect.locks !== undefined && !(yield* dialect.locks.lock(lock, limitMs))) return undefined;
  try {
    yield* command(schemaTable(dialect.name, table));
    const before = yield* readVersion(tables);
    const next = known.find(({ version }) => version > before);
    if (next === undefined) return { before, after: before };
    for (const { sql, isDone } of next.steps(dialect.name, table, layout))
      if (isDone === undefined || (yield* query(isDone)).length === 0) yield* command(sql);
    yield* command(noteVersion(dialect.name, table, next.version));
    return { before, after: next.version };
  } finally {
    if (dialect.locks?.unlock !== undefined) yield* dialect.locks.unlock(lock);
  }
}
