// debezium/: configuration and table columns with which Debezium sends the rows of an outbox as the relay would.

import { crc32 } from 'node:zlib';
import {
  besideTable,
  eraseSuffix,
  partsOfTable,
  quoteName,
  quoteTable,
  routeColumn,
} from '../../outbox/insert-row.ts';
import { badTable } from '../../outbox/store-error.ts';

/** What prepares a connector: its configuration, and statements for its table. */
export const debezium = { connector: connectorConfig, sql: connectorSql };

type ConnectorKind = 'postgres' | 'mysql' | 'mariadb';

interface ConnectorOptions {
  readonly kind: ConnectorKind;
  readonly database: {
    readonly host: string;
    readonly port: string;
    readonly name: string;
    readonly user: string;
    /** A reference that Kafka Connect resolves; never the password. */
    readonly password: string;
  };
  readonly table: string;
  /** The application's own headers. */
  readonly headers: readonly string[];
  /** Name of the connector in Kafka Connect. */
  readonly name: string;
  readonly topicPrefix: string;
  /** In PostgreSQL. */
  readonly slot: string;
  readonly publication: string;
  /** Where the connectors of MySQL and MariaDB store the schema history. */
  readonly bootstrapServers: readonly string[];
}

/** The body of `POST /connectors` of Kafka Connect. */
function connectorConfig(options: ConnectorOptions) {
  const { name, kind, database, topicPrefix } = options;
  return {
    name,
    config: {
      'tasks.max': '1',
      'topic.prefix': topicPrefix,
      'database.hostname': database.host,
      'database.port': database.port,
      'database.user': database.user,
      'database.password': database.password,
      ...(kind === 'postgres' ? postgresConfig(options) : binlogConfig(options, kind)),
      // Existing rows were sent, or are sent by a relay.
      'snapshot.mode': 'no_data',
      'skipped.operations': 'u,d,t',
      'tombstones.on.delete': 'false',
      // Headers of Debezium itself, since 3.3.
      'extended.headers.enabled': 'false',
      // Otherwise, after a long pause of the outbox, the connector would start at a position that MySQL has purged.
      'heartbeat.interval.ms': '10000',
      // The bytes of rows unchanged, and heartbeats, which are not bytes, in JSON.
      'binary.handling.mode': 'bytes',
      'key.converter': 'org.apache.kafka.connect.storage.StringConverter',
      'value.converter': 'io.debezium.converters.BinaryDataConverter',
      'value.converter.delegate.converter.type': 'org.apache.kafka.connect.json.JsonConverter',
      'value.converter.delegate.converter.type.schemas.enable': 'false',
      'header.converter': 'org.apache.kafka.connect.storage.StringConverter',
      ...transforms(options.headers),
    },
  };
}

function postgresConfig({ database, table, slot, publication }: ConnectorOptions): Record<string, string> {
  const { schema = 'public', name } = nameOf(table);
  return {
    'connector.class': 'io.debezium.connector.postgresql.PostgresConnector',
    'database.dbname': database.name,
    'plugin.name': 'pgoutput',
    'slot.name': slot,
    'publication.name': publication,
    'publication.autocreate.mode': 'disabled',
    // Otherwise a database that is busy elsewhere keeps its log for an idle outbox.
    'lsn.flush.mode': 'connector_and_driver',
    'table.include.list': `${literal(schema)}\\.${literal(name)}`,
  };
}

function binlogConfig(options: ConnectorOptions, kind: 'mysql' | 'mariadb'): Record<string, string> {
  const { database, table, topicPrefix } = options;
  const { schema = database.name, name } = nameOf(table);
  return {
    'connector.class':
      kind === 'mysql'
        ? 'io.debezium.connector.mysql.MySqlConnector'
        : 'io.debezium.connector.mariadb.MariaDbConnector',
    'database.server.id': serverId(options.name),
    'database.include.list': literal(schema),
    'table.include.list': `${literal(schema)}\\.${literal(name)}`,
    'include.schema.changes': 'false',
    'snapshot.locking.mode': 'none',
    'schema.history.internal.kafka.bootstrap.servers': options.bootstrapServers.join(','),
    'schema.history.internal.kafka.topic': `${topicPrefix}.schema-history`,
    'schema.history.internal.store.only.captured.tables.ddl': 'true',
  };
}

/**
 * The outbox event router, and steps that make its record equal to the relay's. The router adds a header `id`, and a header
 * without a value for each NULL column. The steps remove these, by the marks after the topic's name at that moment.
 */
function transforms(names: readonly string[]): Record<string, string> {
  const columns = headerColumns(names);
  const optional = columns.filter(({ isOptional }) => isOptional);
  const placed = columns.map(({ header, column }) => `${column}:header:${header}`);
  const config: Record<string, string> = {};
  const steps: string[] = [];
  const step = (name: string, type: string, settings: Record<string, string>): void => {
    steps.push(name);
    config[`transforms.${name}.type`] = type;
    for (const [key, value] of Object.entries(settings)) config[`transforms.${name}.${key}`] = value;
  };
  const dropHeaders = 'org.apache.kafka.connect.transforms.DropHeaders';

  step('outbox', 'io.debezium.transforms.outbox.EventRouter', {
    'route.by.field': routeColumn,
    'route.topic.replacement': `\${routedByValue}`,
    'table.field.event.id': 'event_id',
    'table.field.event.key': 'record_key',
    'table.field.event.payload': 'payload',
    'table.fields.additional.placement': [
      'event_id:header:eventId',
      'event_type:header:eventType',
      ...placed,
    ].join(),
  });
  step('id', dropHeaders, { headers: 'id' });
  for (const [index, { header }] of optional.entries()) {
    const without = `without${index + 1}`;
    step(without, dropHeaders, { headers: header, predicate: without });
    config[`predicates.${without}.type`] = 'org.apache.kafka.connect.transforms.predicates.TopicNameMatches';
    config[`predicates.${without}.pattern`] = `.*${routeMark}${literal(header)}(${routeMark}.*)?`;
  }
  step('topic', 'org.apache.kafka.connect.transforms.RegexRouter', {
    regex: `([^${routeMark}]+)${routeMark}.*`,
    replacement: '$1',
  });
  return {
    transforms: steps.join(),
    predicates: optional.map((_, index) => `without${index + 1}`).join(),
    ...config,
  };
}

/** Unlikely to equal the id of another replica of the server. */
function serverId(name: string): string {
  return String(100_000 + (crc32(name) % 900_000));
}

/** Escapes a regular expression of Java. */
function literal(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9_]/g, '\\$&');
}

function nameOf(table: string): { readonly schema: string | undefined; readonly name: string } {
  const parts = partsOfTable(table);
  if (parts === undefined) throw badTable();
  return parts;
}

interface ConnectorSqlOptions {
  readonly dialect: 'postgres' | 'mysql';
  readonly table: string;
  /** The application's own headers. */
  readonly headers: readonly string[];
  /** In PostgreSQL. */
  readonly publication: string;
  /** Whether PostgreSQL deletes each row in the transaction that wrote it. In MySQL, svc does it. */
  readonly erases: boolean;
}

/** Statements for the owner of the table. They add a column for each header that has no column yet. */
function connectorSql(options: ConnectorSqlOptions): string {
  if (partsOfTable(options.table) === undefined) throw badTable();
  const columns = headerColumns(options.headers);
  const statements = options.dialect === 'mysql' ? inMysql(options, columns) : inPostgres(options, columns);
  return `${statements.join(';\n\n')};\n`;
}

/** A trigger, because PostgreSQL before version 18 does not publish generated columns. */
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

function triggerOf(table: string, suffix: string, when: string): readonly string[] {
  const rows = quoteTable('postgres', table);
  const trigger = quoteName('postgres', besideTable(partsOfTable(table)?.name ?? table, suffix));
  const run = quoteTable('postgres', table, suffix);
  return [
    `DROP TRIGGER IF EXISTS ${trigger} ON ${rows}`,
    `CREATE TRIGGER ${trigger} ${when} ON ${rows} FOR EACH ROW EXECUTE FUNCTION ${run}()`,
  ];
}

/** With the rights of its owner, because the application may only insert. */
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

interface HeaderColumn {
  readonly header: string;
  readonly column: string;
  /** Whether a record may lack it. */
  readonly isOptional: boolean;
}

/** Separates the topic from the headers that a record lacks, in the route: `orders.v1#tracestate`. No topic contains one. */
const routeMark = '#';

/** In the order in which svc writes them. `names`: the application's headers. */
function headerColumns(names: readonly string[]): readonly HeaderColumn[] {
  const taken = new Set<string>();
  const columnOf = (header: string): string => {
    const plain = besideTable(header.toLowerCase().replaceAll(/[^a-z0-9]/g, '_'), '_header');
    let column = plain;
    for (let count = 2; taken.has(column); count++) column = besideTable(plain, `_${count}`);
    taken.add(column);
    return column;
  };
  const required = ['content-type', 'traceparent'];
  const optional = ['tracestate', ...names];
  return [...required, ...optional].map((header) => ({
    header,
    column: columnOf(header),
    isOptional: optional.includes(header),
  }));
}
