// mysql/: MySQL and MariaDB: a patch of the application's driver, and the outbox over svc's own connection.

import { SvcError } from '../../ground/errors.ts';
import { assertPacketFits, type SqlValue } from '../../outbox/insert-row.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import { type StoreFault, type StoreFaultDetails, storeError } from '../../outbox/store-error.ts';
import { withoutWrappers } from '../../transaction/patch-method.ts';
import {
  blockerText,
  type ConnectedSocket,
  createServerDatabase,
  idleInTransactionMs,
  inClearTo,
  loadDriver,
  partsOfUrl,
  type ServerConnection,
} from '../sql/server-database.ts';
import { createSqlStore, defaultTimeoutMs, type SqlStoreOptions } from '../sql/sql-store.ts';
import type { SqlRow, StatementResult } from '../sql/statement.ts';

/**
 * Uses the package `mysql2`, which the application installs, loaded at the first call. MySQL 8.0.13 and later, MariaDB 10.6 and
 * later. READ COMMITTED locks changed rows only.
 */
export function createMysqlStore(options: SqlStoreOptions): OutboxStore {
  const { url, table, timeoutMs = defaultTimeoutMs } = options;
  const details: StoreFaultDetails = { dialect: 'mysql', table, database: placeOf(url) };
  return createSqlStore(
    'mysql',
    options,
    details,
    createServerDatabase({
      load: loadMysql,
      connect: () =>
        connectMysql(url, timeoutMs).catch((error: unknown) => {
          throw toMysqlError(error, details, true);
        }),
      timeoutMs,
      toError: (error) => toMysqlError(error, details),
      isPassing: isPassingInMysql,
      isReadOnly: isReadOnlyInMysql,
      details,
    }),
  );
}

function placeOf(url: string): string {
  const { protocol, host } = partsOfUrl(url, ['mysql:', 'mariadb:'], 'mysql:// or mariadb://');
  return `${protocol === 'mysql:' ? 'MySQL' : 'MariaDB'} at ${host}`;
}

interface MysqlConnection {
  query(
    sql: string,
    values: readonly SqlValue[],
    callback: (error: Error | null, result: unknown) => void,
  ): void;
  execute: MysqlConnection['query'];
  connect(callback: (error: Error | null) => void): void;
  on(event: 'error' | 'end', listener: () => void): void;
  end(callback: (error?: unknown) => void): void;
  destroy(): void;
  readonly threadId?: number;
  readonly stream: ConnectedSocket & { unref(): void; on(event: 'close', listener: () => void): void };
  /** While it connects. */
  readonly connectTimeout?: { unref?(): void } | null;
}

interface MysqlModule {
  createConnection(options: object): MysqlConnection;
}

const loadMysql = (): MysqlModule => loadDriver('mysql2');
/** MySQL ends idle connections after this, in a transaction or not. svc itself leaves earlier. */
const serverIdleSeconds = 15;

/** The driver escapes texts by this mode: no NO_BACKSLASH_ESCAPES. STRICT truncates nothing. */
const session = [
  `SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1, wait_timeout = ${serverIdleSeconds}`,
  'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
];

const processColumns = `p.ID AS pid, p.USER AS name, p.HOST AS address, p.COMMAND AS state, p.TIME AS seconds`;
const mysqlBlocker = `SELECT ${processColumns} FROM performance_schema.data_lock_waits w JOIN performance_schema.threads r ON r.THREAD_ID = w.REQUESTING_THREAD_ID JOIN performance_schema.threads b ON b.THREAD_ID = w.BLOCKING_THREAD_ID JOIN information_schema.PROCESSLIST p ON p.ID = b.PROCESSLIST_ID WHERE r.PROCESSLIST_ID = ? LIMIT 1`;
/** A transaction that uses a table to be altered. MariaDB does not expose it. */
const mysqlTableBlocker = `SELECT ${processColumns} FROM performance_schema.metadata_locks w JOIN performance_schema.threads r ON r.THREAD_ID = w.OWNER_THREAD_ID JOIN performance_schema.metadata_locks h ON h.OBJECT_TYPE = w.OBJECT_TYPE AND h.OBJECT_SCHEMA = w.OBJECT_SCHEMA AND h.OBJECT_NAME = w.OBJECT_NAME AND h.LOCK_STATUS = 'GRANTED' AND h.OWNER_THREAD_ID <> w.OWNER_THREAD_ID JOIN performance_schema.threads b ON b.THREAD_ID = h.OWNER_THREAD_ID JOIN information_schema.PROCESSLIST p ON p.ID = b.PROCESSLIST_ID WHERE r.PROCESSLIST_ID = ? AND w.OBJECT_TYPE = 'TABLE' AND w.LOCK_STATUS = 'PENDING' LIMIT 1`;
const mariadbBlocker = `SELECT ${processColumns} FROM information_schema.INNODB_LOCK_WAITS w JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id JOIN information_schema.PROCESSLIST p ON p.ID = b.trx_mysql_thread_id WHERE r.trx_mysql_thread_id = ? LIMIT 1`;

async function connectMysql(url: string, timeoutMs: number): Promise<ServerConnection> {
  const { createConnection } = loadMysql();
  const connection = createConnection({
    uri: url.replace(/^mariadb:/, 'mysql:'),
    charset: 'utf8mb4',
    connectTimeout: timeoutMs,
    connectAttributes: { program_name: 'svc-outbox' },
    dateStrings: true,
    multipleStatements: false,
    namedPlaceholders: false,
    rowsAsArray: false,
    stringifyObjects: true,
    supportBigNumbers: true,
  });
  let isLost = false;
  const lose = (): void => {
    isLost = true;
  };
  connection.on('error', lose);
  connection.on('end', lose);
  connection.stream.on('close', lose);
  connection.stream.unref();
  connection.connectTimeout?.unref?.();
  const destroy = (): void => {
    lose();
    connection.destroy();
  };
  // Without spans, also if the application's SDK started later.
  const send: MysqlConnection['query'] = withoutWrappers(connection.query).bind(connection);
  const sendPrepared: MysqlConnection['query'] = withoutWrappers(connection.execute).bind(connection);
  let maxPacketBytes = Number.POSITIVE_INFINITY;
  const query = (sql: string, values: readonly SqlValue[] = []): Promise<unknown> =>
    new Promise((resolve, reject) => {
      // Bytes take twice their size as text. If that is too large, they are sent as a parameter.
      const isLarge = textBytes(sql, values) >= maxPacketBytes;
      if (isLarge) assertPacketFits(values, maxPacketBytes);
      (isLarge ? sendPrepared : send)(sql, values, (error, result) => {
        if (error === null) resolve(result);
        else reject(error);
      });
    });

  let isMariadb = false;
  let limitedMs: number | undefined;
  /** Set for the session, which svc does not share. A little shorter than svc's own limit, so that the connection survives. */
  const limitStatements = async (limitMs: number): Promise<void> => {
    if (limitedMs === limitMs) return;
    const ms = Math.max(1, Math.floor(limitMs * 0.9));
    const seconds = Math.max(1, Math.floor(ms / 1_000));
    const limit = isMariadb ? `max_statement_time = ${ms / 1_000}` : `max_execution_time = ${ms}`;
    await query(
      `SET SESSION ${limit}, lock_wait_timeout = ${seconds}, innodb_lock_wait_timeout = ${seconds}`,
    );
    limitedMs = limitMs;
  };
  try {
    await new Promise<void>((resolve, reject) => {
      connection.connect((error) => (error ? reject(error) : resolve()));
    });
    // With TLS, this is another socket than before.
    connection.stream.unref();
    for (const sql of session) await query(sql);
    const [found] = (await query(
      'SELECT VERSION() AS version, @@max_allowed_packet AS bytes',
    )) as readonly SqlRow[];
    isMariadb = /mariadb/i.test(String(found?.version));
    maxPacketBytes = Number(found?.bytes ?? maxPacketBytes);
    if (isMariadb) await query(`SET SESSION idle_transaction_timeout = ${idleInTransactionMs / 1_000}`);
    await limitStatements(timeoutMs);
  } catch (error) {
    destroy();
    throw error;
  }

  return {
    async run({ sql, values, hasRows }): Promise<StatementResult> {
      const result = await query(sql, values);
      return hasRows
        ? { rows: result as readonly SqlRow[], count: 0 }
        : { rows: [], count: Number((result as { affectedRows?: number }).affectedRows ?? 0) };
    },
    async begin(limitMs) {
      await limitStatements(limitMs);
      await query('START TRANSACTION');
    },
    async end(verb) {
      await query(verb);
    },
    inClearTo: inClearTo(connection.stream),
    id: connection.threadId,
    async blockerOf(id) {
      for (const sql of isMariadb ? [mariadbBlocker] : [mysqlBlocker, mysqlTableBlocker]) {
        const [found] = (await query(sql, [id])) as readonly SqlRow[];
        if (found !== undefined) return blockerText(found);
      }
      return undefined;
    },
    isLost: () => isLost,
    leave() {
      lose();
      return new Promise((resolve) => connection.end(() => resolve()));
    },
    destroy,
  };
}

/** Upper bound: the driver puts values into the text, with bytes in hex and escaped characters. */
function textBytes(sql: string, values: readonly SqlValue[]): number {
  let bytes = sql.length + 1;
  for (const value of values)
    bytes +=
      typeof value === 'string'
        ? 2 * Buffer.byteLength(value) + 2
        : typeof value === 'number' || value === null
          ? 25
          : 2 * value.length + 3;
  return bytes;
}

interface MysqlError {
  /** Its symbol, or that of the system: `ER_NO_SUCH_TABLE`, `ECONNREFUSED`. */
  readonly code?: unknown;
  readonly errno?: unknown;
  readonly fatal?: unknown;
}

/** By number, because the symbols differ between drivers and between the two products. */
const faults: Readonly<Record<number, StoreFault>> = {
  1044: 'notAllowed',
  1045: 'signIn',
  1130: 'signIn',
  1251: 'signIn',
  1698: 'signIn',
  3118: 'signIn',
  1142: 'notAllowed',
  1143: 'notAllowed',
  1227: 'notAllowed',
  1290: 'readOnly',
  1792: 'readOnly',
  1836: 'readOnly',
  1146: 'tableMissing',
  1054: 'otherTable',
  1176: 'otherTable',
  1347: 'otherTable',
  1205: 'late',
  1317: 'late',
  1969: 'late',
  3024: 'late',
  1040: 'full',
  1053: 'unreachable',
  1152: 'unreachable',
  1203: 'full',
  1226: 'full',
  1927: 'unreachable',
  // Larger than max_allowed_packet.
  1153: 'statement',
};
const unknownDatabase = 1049;
const deadlock = 1213;

/** Made from the code only, because the message holds values. */
function toMysqlError(error: unknown, details: StoreFaultDetails, isSigningIn = false): SvcError {
  if (error instanceof SvcError) return error;
  const { code, errno } = error as MysqlError;
  // When signing in, the database of the URL; afterwards, that of the table.
  const isMissing = errno === unknownDatabase;
  const fault = isMissing ? (isSigningIn ? 'signIn' : 'tableMissing') : faultOf(error as MysqlError);
  return storeError(fault, {
    ...details,
    code: typeof code === 'string' ? code : undefined,
  });
}

function faultOf({ code, errno, fatal }: MysqlError): StoreFault {
  const known = typeof errno === 'number' ? faults[errno] : undefined;
  if (known !== undefined) return known;
  if (/^AUTH_SWITCH/.test(String(code))) return 'signIn';
  return fatal === true || !/^ER_/.test(String(code)) ? 'unreachable' : 'statement';
}

function isPassingInMysql(error: unknown): boolean {
  return (error as MysqlError | undefined)?.errno === deadlock;
}

function isReadOnlyInMysql(error: unknown): boolean {
  return faults[Number((error as MysqlError | undefined)?.errno)] === 'readOnly';
}
