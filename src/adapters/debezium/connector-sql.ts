// debezium/: what Debezium needs to send the rows of an outbox as the relay would: its configuration, and columns of the table.

import { besideTable, partsOfTable, quoteName, quoteTable } from '../../outbox/insert-row.ts';
import { badTable } from '../../outbox/store-error.ts';
import { type HeaderColumn, headerColumns, routeColumn, routeMark } from './row-columns.ts';

export interface ConnectorSqlOptions {
  readonly dialect: 'postgres' | 'mysql';
  readonly table: string;
  /** Of the application's own headers. */
  readonly headers: readonly string[];
  /** In PostgreSQL. */
  readonly publication: string;
}

/** Statements for whoever owns the table: a column for each header that has none yet. What svc itself writes stays as it is. */
export function connectorSql(options: ConnectorSqlOptions): string {
  if (partsOfTable(options.table) === undefined) throw badTable();
  const columns = headerColumns(options.headers);
  const statements = options.dialect === 'mysql' ? inMysql(options, columns) : inPostgres(options, columns);
  return `${statements.join(';\n\n')};\n`;
}

/** A trigger: of generated columns PostgreSQL tells no connector before its version 18. */
function inPostgres(
  { table, publication }: ConnectorSqlOptions,
  columns: readonly HeaderColumn[],
): readonly string[] {
  const rows = quoteTable('postgres', table);
  const run = quoteTable('postgres', table, '_debezium');
  const trigger = quoteName('postgres', besideTable(partsOfTable(table)?.name ?? table, '_debezium'));
  const named = (column: string): string => quoteName('postgres', column);
  const added = [...columns.map(({ column }) => column), routeColumn];
  const without = columns
    .filter(({ isOptional }) => isOptional)
    .map(
      ({ header, column }) =>
        ` ||\n    CASE WHEN NEW.${named(column)} IS NULL THEN '${routeMark}${header}' ELSE '' END`,
    );
  return [
    `ALTER TABLE ${rows}\n${added.map((column) => `  ADD COLUMN IF NOT EXISTS ${named(column)} text`).join(',\n')}`,
    `CREATE OR REPLACE FUNCTION ${run}() RETURNS trigger LANGUAGE plpgsql AS $svc$
BEGIN
${columns.map(({ header, column }) => `  NEW.${named(column)} := NEW.headers::json ->> '${header}';`).join('\n')}
  NEW.${named(routeColumn)} := NEW.topic${without.join('')};
  RETURN NEW;
END
$svc$`,
    `DROP TRIGGER IF EXISTS ${trigger} ON ${rows}`,
    `CREATE TRIGGER ${trigger} BEFORE INSERT ON ${rows} FOR EACH ROW EXECUTE FUNCTION ${run}()`,
    `DO $svc$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = '${publication}') THEN
    CREATE PUBLICATION ${named(publication)} FOR TABLE ${rows} WITH (publish = 'insert');
  END IF;
END
$svc$`,
  ];
}

function inMysql({ table }: ConnectorSqlOptions, columns: readonly HeaderColumn[]): readonly string[] {
  const added = columns.map(({ header, column }) => [
    column,
    `JSON_UNQUOTE(JSON_EXTRACT(headers, '$."${header}"'))`,
  ]);
  const without = columns
    .filter(({ isOptional }) => isOptional)
    .map(({ header, column }) => `IF(${quoteName('mysql', column)} IS NULL, '${routeMark}${header}', '')`);
  added.push([routeColumn, `CONCAT(${['topic', ...without].join(', ')})`]);
  const lines = added.map(
    ([column = '', value]) =>
      `  ADD COLUMN ${quoteName('mysql', column)} text GENERATED ALWAYS AS (${value}) STORED`,
  );
  return [`ALTER TABLE ${quoteTable('mysql', table)}\n${lines.join(',\n')}`];
}
