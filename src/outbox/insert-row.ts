import { crc32 } from 'node:zlib';
import { SvcError } from '../ground/errors.ts';
import { columns, type OutboxRow } from './outbox-row.ts';

export type DialectName = 'postgres' | 'mysql' | 'sqlite';

/** What a parameter of a statement can be, with any driver. */
export type SqlValue = string | number | Buffer | null;

/** The longest name that all databases take: PostgreSQL cuts what is longer, without a word. */
const longestName = 63;
const namePattern = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;

/** The parts of `[schema.]table`, or `undefined` if it is no such name. */
export function partsOfTable(table: string): { schema: string | undefined; name: string } | undefined {
  const parts = table.split('.');
  const [first, second] = parts;
  if (first === undefined || parts.length > 2 || !parts.every((part) => namePattern.test(part))) return;
  return second === undefined ? { schema: undefined, name: first } : { schema: first, name: second };
}

/** A name of its own beside that of the table; a long one is cut, and told apart from others by a checksum. */
export function besideTable(name: string, suffix: string): string {
  if (name.length + suffix.length <= longestName) return name + suffix;
  const sum = crc32(name).toString(16).padStart(8, '0');
  return `${name.slice(0, longestName - suffix.length - sum.length - 1)}_${sum}${suffix}`;
}

export function quoteName(dialect: DialectName, name: string): string {
  return dialect === 'mysql' ? `\`${name}\`` : `"${name}"`;
}

/** The table, or with a suffix one beside it, as it stands in a statement. */
export function quoteTable(dialect: DialectName, table: string, suffix = ''): string {
  const parts = partsOfTable(table);
  if (parts === undefined) throw new TypeError('not a table name');
  const name = quoteName(dialect, besideTable(parts.name, suffix));
  return parts.schema === undefined ? name : `${quoteName(dialect, parts.schema)}.${name}`;
}

const given = Object.values(columns);

/** What an application's INSERT gives. */
export const insertColumns = given.map(({ name }) => name);

/** A time of the tables made of milliseconds since the epoch; in SQLite it is just them. */
export const timeOfMs: Readonly<Record<DialectName, string>> = {
  postgres: `(timestamptz 'epoch' + ?::bigint * interval '1 millisecond')`,
  mysql: `(TIMESTAMP('1970-01-01 00:00:00') + INTERVAL (? * 1000) MICROSECOND)`,
  sqlite: '?',
};

/**
 * The one INSERT of a row: the same text for each, so that it can be prepared, and with the table's schema, so that it means
 * the same table whatever `search_path` or current database the application's connection has. Parameters: `insertValues`.
 */
export function insertStatement(table: string, dialect: DialectName, textPlace = '?'): string {
  const placeOf = { text: textPlace, bytes: '?', number: '?', time: timeOfMs[dialect] };
  const places = given.map((column) => placeOf[column.is]);
  return placed(
    dialect,
    `INSERT INTO ${quoteTable(dialect, table)} (${insertColumns.join(', ')}) VALUES (${places.join(', ')})`,
  );
}

interface Insertion {
  readonly text: string;
  readonly values: readonly SqlValue[];
}

/**
 * For connections of the application. One of MySQL may have a character set of its own, such as latin1 or the utf8 without emoji,
 * in which a text would arrive as another: what is not ASCII goes in hex.
 */
export function insertionFor(table: string, dialect: DialectName): (row: OutboxRow) => Insertion {
  const text = insertStatement(table, dialect);
  if (dialect !== 'mysql') return (row) => ({ text, values: insertValues(row) });
  const textOfHex = insertStatement(table, dialect, 'CONVERT(UNHEX(?) USING utf8mb4)');
  return (row) => {
    const values = insertValues(row);
    if (!values.some((value) => typeof value === 'string' && notAscii.test(value))) return { text, values };
    return { text: textOfHex, values: values.map(inHex) };
  };
}

const notAscii = /[^\x20-\x7e]/;
const inHex = (value: SqlValue): SqlValue =>
  typeof value === 'string' ? Buffer.from(value).toString('hex') : value;

/** In the order of `insertColumns`. */
export function insertValues(row: OutboxRow): readonly SqlValue[] {
  return given.map(({ of }) => of(row));
}

/** The packet of a prepared statement of MySQL with these values, as `mysql2` makes it, in bytes. */
export function packetBytes(values: readonly SqlValue[]): number {
  // Command, statement, flags, iterations, and the count of parameters; for each its type, the length of its name, and a bit.
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

/** Throws where a server of MySQL would close the connection for the size of the statement. `maxBytes`: its `max_allowed_packet`. */
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

/** Parameters are written as `?` everywhere; PostgreSQL numbers them. No text of svc has a `?` that is none. */
export function placed(dialect: DialectName, sql: string): string {
  if (dialect !== 'postgres') return sql;
  let count = 0;
  return sql.replaceAll('?', () => `$${++count}`);
}
