// sql/: the tables of an outbox and the statements on them, for the adapters of SQLite, PostgreSQL and MySQL.

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

/** Options for new tables. */
interface Layout {
  /** PostgreSQL: rows in a partition for each day, from this time on. Milliseconds since the epoch. */
  readonly partitionedFrom?: number | undefined;
}

export interface Step {
  readonly sql: string;
  /** A query that returns a row if the step is done. MySQL commits each step, so an interrupted migration starts over. */
  readonly isDone?: string | undefined;
  /** New tables have it from the first version on. */
  readonly isForOlder?: boolean | undefined;
}

/** The steps from the version before to this one. */
export interface Migration {
  readonly version: number;
  /** Each can run twice: by itself, or by its `isDone`. */
  steps(dialect: DialectName, table: string, layout: Layout): readonly Step[];
}

/**
 * During a deployment, processes of an older version run on newer tables. So a version only adds what older statements
 * tolerate: a column with a default, an index, a table. Any other change must make them fail, such as a renamed column, which
 * `tryStatements` notices.
 */
export const migrations: readonly Migration[] = [
  {
    version: 1,
    steps: (dialect, table, layout) => firstVersion(dialect, table, layout).map((sql) => ({ sql })),
  },
  {
    // Refuses rows that no relay would find.
    version: 2,
    steps: guardSteps,
  },
];

export const versionOf = (known: readonly Migration[]): number => known.at(-1)?.version ?? 0;

export const schemaVersion: number = versionOf(migrations);

/** The table of the version, created before all others. */
function schemaTable(dialect: DialectName, table: string): string {
  const { schema } = tablesOf(dialect, table);
  const [time, ending] = {
    postgres: ['timestamptz NOT NULL DEFAULT statement_timestamp()', ''],
    mysql: ['datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))', innodb],
    sqlite: [`INTEGER NOT NULL DEFAULT (${dialects.sqlite.now})`, ''],
  }[dialect];
  return `CREATE TABLE IF NOT EXISTS ${schema} (version integer NOT NULL PRIMARY KEY, applied_at ${time})${ending}`;
}

function noteVersion(dialect: DialectName, table: string, version: number): string {
  return dialects[dialect].insertMissing(tablesOf(dialect, table).schema, 'version', `(${version})`);
}

export interface DdlOptions extends Layout {
  readonly grants?: Grantees | undefined;
  /** The existing version. Returns later steps only. Default: none. */
  readonly from?: number | undefined;
  readonly migrations?: readonly Migration[];
}

/** The tables as SQL text, to create them by hand or in migrations of the application. */
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

/** The version of the tables; 0: not made by svc. */
export function* readVersion({ schema }: Tables): Work<number> {
  const [found] = yield* query(`SELECT MAX(version) AS version FROM ${schema}`);
  return Number(found?.version ?? 0);
}

/**
 * Runs each kind of statement on no row, because a database checks rights and columns anyway. Faults show at start, not at the
 * first event.
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

interface MigrateOptions extends Layout {
  /** The longest wait for another process that migrates. */
  readonly limitMs: number;
  readonly migrations?: readonly Migration[] | undefined;
}

interface Migrated {
  readonly before: number;
  readonly after: number;
}

/**
 * Migrates the tables to the next version, if there is one. Each version is one transaction, as far as the database can roll
 * back a CREATE TABLE. One process at a time: the others wait, and find it done. `undefined`: another process held the lock for
 * the whole time.
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

interface Grantees {
  /** The user of `svc.outbox.datasource.url`. */
  readonly relay?: string | undefined;
  /** The user of the application's own connections, which insert. */
  readonly application?: string | undefined;
}

function grantStatements(dialect: DialectName, table: string, grantees: Grantees): readonly string[] {
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

/** A user of MySQL may include the host that it comes from: `name@host`. */
function grantee(dialect: DialectName, who: string): string {
  if (dialect !== 'mysql') return `"${who.replaceAll('"', '""')}"`;
  const at = who.lastIndexOf('@');
  const [name, host] = at < 0 ? [who, '%'] : [who.slice(0, at), who.slice(at + 1)];
  const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
  return `${quoted(name)}@${quoted(host)}`;
}
