// sql/: the tables of an outbox and what is done with them, which the adapters of SQLite, PostgreSQL and MySQL share.

import { type DialectName, partsOfTable } from '../../outbox/insert-row.ts';
import { badTable } from '../../outbox/store-error.ts';
import { dialects, tablesOf } from './dialect.ts';
import { type Grantees, grantStatements } from './grants.ts';
import { firstVersion, innodb } from './tables.ts';
import { guardSteps } from './valid-rows.ts';

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
