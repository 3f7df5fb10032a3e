import { assertPacketFits, type SqlValue } from '../../outbox/insert-row.ts';
import { withoutWrappers } from '../../transaction/patch-method.ts';
import { blockerText } from '../sql/blocker.ts';
import {
  idleInTransactionMs,
  loadDriver,
  type ServerConnection,
  serverIdleSeconds,
} from '../sql/server-database.ts';
import type { SqlRow, StatementResult } from '../sql/statement.ts';

/** The part of a `mysql2` connection that is used here. */
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
  readonly stream: { unref(): void; on(event: 'close', listener: () => void): void };
  /** While it connects. */
  readonly connectTimeout?: { unref?(): void } | null;
}

interface MysqlModule {
  createConnection(options: object): MysqlConnection;
}

export const loadMysql = (): MysqlModule => loadDriver('mysql2');

/** Texts are escaped by the driver, which has to know the mode: no NO_BACKSLASH_ESCAPES. STRICT cuts nothing off. */
const session = [
  `SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1, wait_timeout = ${serverIdleSeconds}`,
  'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
];

const processColumns = `p.ID AS pid, p.USER AS name, p.HOST AS address, p.COMMAND AS state, p.TIME AS seconds`;
const mysqlBlocker = `SELECT ${processColumns} FROM performance_schema.data_lock_waits w JOIN performance_schema.threads r ON r.THREAD_ID = w.REQUESTING_THREAD_ID JOIN performance_schema.threads b ON b.THREAD_ID = w.BLOCKING_THREAD_ID JOIN information_schema.PROCESSLIST p ON p.ID = b.PROCESSLIST_ID WHERE r.PROCESSLIST_ID = ? LIMIT 1`;
/** Of a table that is to be altered: whoever uses it in a transaction. MariaDB tells that to nobody. */
const mysqlTableBlocker = `SELECT ${processColumns} FROM performance_schema.metadata_locks w JOIN performance_schema.threads r ON r.THREAD_ID = w.OWNER_THREAD_ID JOIN performance_schema.metadata_locks h ON h.OBJECT_TYPE = w.OBJECT_TYPE AND h.OBJECT_SCHEMA = w.OBJECT_SCHEMA AND h.OBJECT_NAME = w.OBJECT_NAME AND h.LOCK_STATUS = 'GRANTED' AND h.OWNER_THREAD_ID <> w.OWNER_THREAD_ID JOIN performance_schema.threads b ON b.THREAD_ID = h.OWNER_THREAD_ID JOIN information_schema.PROCESSLIST p ON p.ID = b.PROCESSLIST_ID WHERE r.PROCESSLIST_ID = ? AND w.OBJECT_TYPE = 'TABLE' AND w.LOCK_STATUS = 'PENDING' LIMIT 1`;
const mariadbBlocker = `SELECT ${processColumns} FROM information_schema.INNODB_LOCK_WAITS w JOIN information_schema.INNODB_TRX r ON r.trx_id = w.requesting_trx_id JOIN information_schema.INNODB_TRX b ON b.trx_id = w.blocking_trx_id JOIN information_schema.PROCESSLIST p ON p.ID = b.trx_mysql_thread_id WHERE r.trx_mysql_thread_id = ? LIMIT 1`;

export async function connectMysql(url: string, timeoutMs: number): Promise<ServerConnection> {
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
  // Without spans, also of what began before the application's SDK was there.
  const send: MysqlConnection['query'] = withoutWrappers(connection.query).bind(connection);
  const sendPrepared: MysqlConnection['query'] = withoutWrappers(connection.execute).bind(connection);
  let maxPacketBytes = Number.POSITIVE_INFINITY;
  const query = (sql: string, values: readonly SqlValue[] = []): Promise<unknown> =>
    new Promise((resolve, reject) => {
      // As text bytes take twice their room: what would be too large then goes as it is.
      const isLarge = textBytes(sql, values) >= maxPacketBytes;
      if (isLarge) assertPacketFits(values, maxPacketBytes);
      (isLarge ? sendPrepared : send)(sql, values, (error, result) => {
        if (error === null) resolve(result);
        else reject(error);
      });
    });

  let isMariadb = false;
  let limitedMs: number | undefined;
  /** Of the session: nobody else has it. A little earlier than svc gives up: then the connection lives on. */
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
    // TLS has put another socket over the first.
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

/** At most: a driver puts values into the text, bytes in hex, and a backslash before a character. */
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
