// sql/: the tables of an outbox and what is done with them, which the adapters of SQLite, PostgreSQL and MySQL share.

import { type DialectName, insertColumns, partsOfTable, quoteName } from '../../outbox/insert-row.ts';
import { badTable } from '../../outbox/store-error.ts';
import {
  command,
  type Dialect,
  dialects,
  firstVersion,
  guardSteps,
  innodb,
  query,
  type Tables,
  tablesOf,
  type Work,
} from './statement.ts';

/** How tables are made where there are none. */
export interface Layout {
  /** PostgreSQL: the rows in a partition for each day, the first that of this time. Milliseconds since the epoch. */
  readonly partitionedFrom?: number | undefined;
}

export interface Step {
  readonly sql: string;
  /** A query that gives a row where it is done already. MySQL commits each step, and what was cut off there is begun anew. */
  readonly isDone?: string | undefined;
  /** Tables that are made by this svc have it from the beginning. */
  readonly isForOlder?: boolean | undefined;
}

/** What brings the tables from the version before to this one. */
export interface Migration {
  readonly version: number;
  /** Each can be run twice: by itself, or as its `isDone` says. */
  steps(dialect: DialectName, table: string, layout: Layout): readonly Step[];
}

/**
 * Processes of several versions run side by side while an application is updated, old ones on new tables. So a version only adds
 * what the statements of older ones can live with: a column with a default, an index, a table. What they cannot live with has to make
 * them fail: a column that has another name from then on, which `tryStatements` notices.
 */
export const migrations: readonly Migration[] = [
  {
    version: 1,
    steps: (dialect, table, layout) => firstVersion(dialect, table, layout).map((sql) => ({ sql })),
  },
  {
    // Rows are refused that no relay would find.
    version: 2,
    steps: guardSteps,
  },
];

export const versionOf = (known: readonly Migration[]): number => known.at(-1)?.version ?? 0;

export const schemaVersion: number = versionOf(migrations);

/** The table that knows the version, made before all others. */
export function schemaTable(dialect: DialectName, table: string): string {
  const { schema } = tablesOf(dialect, table);
  const [time, ending] = {
    postgres: ['timestamptz NOT NULL DEFAULT statement_timestamp()', ''],
    mysql: ['datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))', innodb],
    sqlite: [`INTEGER NOT NULL DEFAULT (${dialects.sqlite.now})`, ''],
  }[dialect];
  return `CREATE TABLE IF NOT EXISTS ${schema} (version integer NOT NULL PRIMARY KEY, applied_at ${time})${ending}`;
}

export function noteVersion(dialect: DialectName, table: string, version: number): string {
  return dialects[dialect].insertMissing(tablesOf(dialect, table).schema, 'version', `(${version})`);
}

export interface DdlOptions extends Layout {
  readonly grants?: Grantees | undefined;
  /** The version that is there: only what comes after it. Default: none. */
  readonly from?: number | undefined;
  readonly migrations?: readonly Migration[];
}

/** The tables as text: for whoever makes them by hand, or in migrations of the application. */
export function ddl(dialect: DialectName, table: string, options: DdlOptions = {}): string {
  if (partsOfTable(table) === undefined) throw badTable();
  const { grants = {}, from = 0, migrations: known = migrations, partitionedFrom } = options;
  const statements = [
    ...(from === 0 ? [schemaTable(dialect, table)] : []),
    ...known
      .filter(({ version }) => version > from)
      .flatMap(({ version, steps }) => [
        ...steps(dialect, table, { partitionedFrom })
          .filter(({ isForOlder }) => from > 0 || !isForOlder)
          .map(({ sql }) => sql),
        noteVersion(dialect, table, version),
      ]),
    ...grantStatements(dialect, table, grants),
  ];
  return statements.length === 0 ? '' : `${statements.join(';\n\n')};\n`;
}

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

export interface Grantees {
  /** The user of `svc.outbox.datasource.url`. */
  readonly relay?: string | undefined;
  /** The user of the application's own connections, which insert. */
  readonly application?: string | undefined;
}

export function grantStatements(dialect: DialectName, table: string, grantees: Grantees): readonly string[] {
  if (dialect === 'sqlite') return [];
  const { rows, shards, relays, schema } = tablesOf(dialect, table);
  const { schema: place } = partsOfTable(table) ?? {};
  const grant = (rights: string, on: string, who: string): string =>
    `GRANT ${rights} ON ${on} TO ${grantee(dialect, who)}`;
  const usage = (who: string): readonly string[] =>
    dialect === 'postgres' && place !== undefined
      ? [grant('USAGE', `SCHEMA ${quoteName(dialect, place)}`, who)]
      : [];
  const { relay, application } = grantees;
  const all = 'SELECT, INSERT, UPDATE, DELETE';
  return [
    ...(relay === undefined
      ? []
      : [
          ...usage(relay),
          ...[rows, shards, relays].map((on) => grant(all, on, relay)),
          grant('SELECT', schema, relay),
        ]),
    ...(application === undefined ? [] : [...usage(application), grant('INSERT', rows, application)]),
  ];
}

/** A user of MySQL may be given with the host that it comes from: `name@host`. */
function grantee(dialect: DialectName, who: string): string {
  if (dialect !== 'mysql') return `"${who.replaceAll('"', '""')}"`;
  const at = who.lastIndexOf('@');
  const [name, host] = at < 0 ? [who, '%'] : [who.slice(0, at), who.slice(at + 1)];
  const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
  return `${quoted(name)}@${quoted(host)}`;
}
