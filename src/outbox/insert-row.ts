import { crc32 } from 'node:zlib';
import { SvcError } from '../ground/errors.ts';
import { columns, type OutboxRow } from './outbox-row.ts';

export type DialectName = 'postgres' | 'mysql' | 'sqlite';

/** A parameter of a statement, for any driver. */
export type SqlValue = string | number | Buffer | null;

/** The longest name that all databases accept. PostgreSQL silently cuts longer ones. */
const longestName = 63;
const namePattern = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;

/** The parts of `[schema.]table`; `undefined`: not a table name. */
export function partsOfTable(table: string): { schema: string | undefined; name: string } | undefined {
  const parts = table.split('.');
  const [first, second] = parts;
  if (first === undefined || parts.length > 2 || !parts.every((part) => namePattern.test(part))) return;
  return second === undefined ? { schema: undefined, name: first } : { schema: first, name: second };
}

/** A name derived from the table's. A long one is cut, and a checksum keeps it unique. */
export function besideTable(name: string, suffix: string): string {
  if (name.length + suffix.length <= longestName) return name + suffix;
  const sum = crc32(name).toString(16).padStart(8, '0');
  return `${name.slice(0, longestName - suffix.length - sum.length - 1)}_${sum}${suffix}`;
}

export function quoteName(dialect: DialectName, name: string): string {
  return dialect === 'mysql' ? `\`${name}\`` : `"${name}"`;
}

/** The quoted table, or with a suffix the table derived from it. */
export function quoteTable(dialect: DialectName, table: string, suffix = ''): string {
  const parts = partsOfTable(table);
  if (parts === undefined) throw new TypeError('not a table name');
  const name = quoteName(dialect, besideTable(parts.name, suffix));
  return parts.schema === undefined ? name : `${quoteName(dialect, parts.schema)}.${name}`;
}

const given = Object.values(columns);

/** The columns of an application's INSERT. */
export const insertColumns = given.map(({ name }) => name);

/** SQL for a timestamp from milliseconds since the epoch. SQLite stores the milliseconds. */
export const timeOfMs: Readonly<Record<DialectName, string>> = {
  postgres: `(timestamptz 'epoch' + ?::bigint * interval '1 millisecond')`,
  mysql: `(TIMESTAMP('1970-01-01 00:00:00') + INTERVAL (? * 1000) MICROSECOND)`,
  sqlite: '?',
};

interface RowStatement {
  readonly text: string;
  readonly values: readonly SqlValue[];
}

/**
 * The statements that write a row. The texts are constant, so they can be prepared. They name the table's schema, so the
 * connection's `search_path` or current database does not matter.
 *
 * @param isOwn for connections of svc. In MySQL those of the application may use a character set such as latin1 or utf8 without
 * emoji, which would change a text. So text beyond ASCII is sent there as hex.
 */
export function rowStatements(table: string, dialect: DialectName, isOwn = false) {
  const name = quoteTable(dialect, table);
  const insertion = (textPlace: string): string => {
    const placeOf = { text: textPlace, bytes: '?', number: '?', time: timeOfMs[dialect] };
    const places = given.map((column) => placeOf[column.is]).join(', ');
    return placed(dialect, `INSERT INTO ${name} (${insertColumns.join(', ')}) VALUES (${places})`);
  };
  const isPlain = isOwn || dialect !== 'mysql';
  const text = insertion('?');
  const textOfHex = isPlain ? text : insertion('CONVERT(UNHEX(?) USING utf8mb4)');
  // `event_id` has no index. In prepared statements MySQL keeps the first value of LAST_INSERT_ID().
  const deletion = `DELETE FROM ${name} WHERE id = @@last_insert_id AND event_id = ? AND ${routeColumn} IS NOT NULL`;
  return {
    insert(row: OutboxRow): RowStatement {
      const values = given.map(({ of }) => of(row));
      if (isPlain || !values.some((value) => typeof value === 'string' && notAscii.test(value)))
        return { text, values };
      return { text: textOfHex, values: values.map(inHex) };
    },
    /**
     * Deletes the row just written, directly after its INSERT. `undefined` for PostgreSQL, where a trigger does it, and for SQLite,
     * which no connector reads. Without the connector's column it fails, so rows for a relay are refused, not lost.
     */
    erase:
      dialect === 'mysql'
        ? ({ eventId }: OutboxRow): RowStatement => ({ text: deletion, values: [eventId] })
        : undefined,
  };
}

const notAscii = /[^\x20-\x7e]/;
const inHex = (value: SqlValue): SqlValue =>
  typeof value === 'string' ? Buffer.from(value).toString('hex') : value;

/** Size in bytes of MySQL's packet for a prepared statement with these values, as sent by `mysql2`. */
export function packetBytes(values: readonly SqlValue[]): number {
  // Command, statement, flags, iterations and number of parameters. For each parameter: type, length of its name, null bit.
  let bytes = 12 + ((values.length + 7) >> 3) + values.length * 3;
  for (const value of values) {
    if (typeof value === 'number') bytes += 8;
    else if (value !== null) {
      const length = typeof value === 'string' ? Buffer.byteLength(value) : value.length;
      bytes += length + (length < 251 ? 1 : length < 65_536 ? 3 : length < 16_777_216 ? 4 : 9);
    }
  }
  return bytes;
}

/** Throws if a MySQL server would close the connection because of the statement's size. `maxBytes`: its `max_allowed_packet`. */
export function assertPacketFits(values: readonly SqlValue[], maxBytes: number | undefined): void {
  if (maxBytes === undefined) return;
  const bytes = packetBytes(values);
  if (bytes >= maxBytes) throw packetTooLarge(bytes, maxBytes);
}

function packetTooLarge(bytes: number, maxBytes: number): SvcError {
  return new SvcError(
    'SVC_OUTBOX_TOO_LONG',
    `the event is not stored: its row takes a packet of ${bytes} bytes, and max_allowed_packet of the database is ${maxBytes}. A packet must be smaller: raise that setting of the server, or make the payload smaller`,
  );
}

/** Numbers the parameters for PostgreSQL; elsewhere they are `?`. svc's statements contain no other `?`. */
export function placed(dialect: DialectName, sql: string): string {
  if (dialect !== 'postgres') return sql;
  let count = 0;
  return sql.replaceAll('?', () => `$${++count}`);
}

/** The column that the SQL of `svc outbox debezium` adds: the topic for the connector. */
export const routeColumn = 'debezium_topic';

/** For the name of the PostgreSQL trigger that deletes each row. */
export const eraseSuffix = '_erase';

/** Whether each row is deleted in the transaction that wrote it. A connector reads it from the database's log. */
export function erasesRows({
  publisherEnabled,
  retentionDays,
}: {
  readonly publisherEnabled: boolean;
  readonly retentionDays: number;
}): boolean {
  return !publisherEnabled && retentionDays === 0;
}
