import { crc32 } from 'node:zlib';
import { routeColumn } from '../../outbox/erase-row.ts';
import { partsOfTable } from '../../outbox/insert-row.ts';
import { badTable } from '../../outbox/store-error.ts';
import { headerColumns, routeMark } from './row-columns.ts';

export type ConnectorKind = 'postgres' | 'mysql' | 'mariadb';

export interface ConnectorOptions {
  readonly kind: ConnectorKind;
  readonly database: {
    readonly host: string;
    readonly port: string;
    readonly name: string;
    readonly user: string;
    /** A reference that Kafka Connect looks up; never the password. */
    readonly password: string;
  };
  readonly table: string;
  /** Of the application's own headers. */
  readonly headers: readonly string[];
  /** The connector's, in Kafka Connect. */
  readonly name: string;
  readonly topicPrefix: string;
  /** In PostgreSQL. */
  readonly slot: string;
  readonly publication: string;
  /** Where the connectors of MySQL and MariaDB keep what they know of the table. */
  readonly bootstrapServers: readonly string[];
}

export interface Connector {
  readonly name: string;
  readonly config: Readonly<Record<string, string>>;
}

/** What `POST /connectors` of Kafka Connect takes. */
export function connectorConfig(options: ConnectorOptions): Connector {
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
      // What is in the table already was sent, or is sent by a relay.
      'snapshot.mode': 'no_data',
      'skipped.operations': 'u,d,t',
      'tombstones.on.delete': 'false',
      // Headers of its own, since 3.3.
      'extended.headers.enabled': 'false',
      // Else a connector of an outbox that is quiet for long begins where MySQL has no log any more.
      'heartbeat.interval.ms': '10000',
      // The bytes of rows as they are, and heartbeats, which are no bytes, in JSON.
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
    // Else a database that is busy elsewhere keeps its log for an outbox that is not.
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
 * The outbox event router, and what makes its record that of the relay. It writes a header of its own, `id`, and a header without
 * a value where a column is NULL: these are taken off again, by what the topic says behind its name at that moment.
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

/** Unlike those of other replicas of the server, as far as can be. */
function serverId(name: string): string {
  return String(100_000 + (crc32(name) % 900_000));
}

/** In a regular expression of Java. */
function literal(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9_]/g, '\\$&');
}

function nameOf(table: string): { readonly schema: string | undefined; readonly name: string } {
  const parts = partsOfTable(table);
  if (parts === undefined) throw badTable();
  return parts;
}
