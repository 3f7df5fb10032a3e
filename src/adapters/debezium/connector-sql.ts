// debezium/: what Debezium needs to send the rows of an outbox as the relay would: its configuration, and columns of the table.

import { eraseSuffix, routeColumn } from '../../outbox/erase-row.ts';
import { besideTable, partsOfTable, quoteName, quoteTable } from '../../outbox/insert-row.ts';
import { badTable } from '../../outbox/store-error.ts';
import { type HeaderColumn, headerColumns, routeMark } from './row-columns.ts';

export interface ConnectorSqlOptions {
  readonly dialect: 'postgres' | 'mysql';
  readonly table: string;
  /** Of the application's own headers. */
  readonly headers: readonly string[];
  /** In PostgreSQL. */
  readonly publication: string;
  /** Whether PostgreSQL deletes each row in the transaction that wrote it; MySQL is told to by svc. */
  readonly erases: boolean;
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
  { table, publication, erases }: ConnectorSqlOptions,
  columns: readonly HeaderColumn[],
): readonly string[] {
  const rows = quoteTable('postgres', table);
  const run = quoteTable('postgres', table, '_debezium');
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
    ...triggerOf(table, '_debezium', 'BEFORE INSERT'),
    ...erasure(table, erases),
    `DO $svc$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = '${publication}') THEN
    CREATE PUBLICATION ${named(publication)} FOR TABLE ${rows} WITH (publish = 'insert', publish_via_partition_root = true);
  END IF;
END
$svc$`,
  ];
}

/** A function and its trigger have one name. */
function triggerOf(table: string, suffix: string, when: string): readonly string[] {
  const rows = quoteTable('postgres', table);
  const trigger = quoteName('postgres', besideTable(partsOfTable(table)?.name ?? table, suffix));
  const run = quoteTable('postgres', table, suffix);
  return [
    `DROP TRIGGER IF EXISTS ${trigger} ON ${rows}`,
    `CREATE TRIGGER ${trigger} ${when} ON ${rows} FOR EACH ROW EXECUTE FUNCTION ${run}()`,
  ];
}

/** With the rights of its owner: the application may insert, and nothing else. */
function erasure(table: string, erases: boolean): readonly string[] {
  const [drop = '', create = ''] = triggerOf(table, eraseSuffix, 'AFTER INSERT');
  if (!erases) return [drop];
  const run = quoteTable('postgres', table, eraseSuffix);
  return [
    `CREATE OR REPLACE FUNCTION ${run}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $svc$
BEGIN
  DELETE FROM ${quoteTable('postgres', table)} WHERE id = NEW.id;
  RETURN NULL;
END
$svc$`,
    drop,
    create,
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
