import { Socket } from 'node:net';
import { placed, type SqlValue } from '../../outbox/insert-row.ts';
import { withoutWrappers } from '../../transaction/patch-method.ts';
import { blockerText } from '../sql/blocker.ts';
import { idleInTransactionMs, loadDriver, type ServerConnection } from '../sql/server-database.ts';
import type { SqlRow } from '../sql/statement.ts';

/** The part of a `pg` client that is used here. */
interface PgClient {
  connect(): Promise<unknown>;
  query(text: string, values?: readonly SqlValue[]): Promise<PgResult>;
  end(): Promise<void>;
  unref(): void;
  on(event: 'error' | 'end', listener: () => void): void;
  on(event: 'notification', listener: (notice: { readonly payload?: string }) => void): void;
  readonly connection: { readonly stream: { destroy(): void } };
  readonly host: string;
  readonly port: number;
  /** What the server calls the connection, and what proves that it is ours. */
  readonly processID?: unknown;
  readonly secretKey?: unknown;
}

interface PgResult {
  readonly rows: readonly SqlRow[];
  readonly rowCount: number | null;
}

interface PgModule {
  readonly Client: new (config: object) => PgClient;
}

export const loadPg = (): PgModule => loadDriver('pg');

/** Everything as text and bytes as bytes: an application can change what `pg` makes of a type for the whole process. */
const types = {
  getTypeParser: (oid: number) => (oid === byteaOid ? bytesOf : (text: string) => text),
};
const byteaOid = 17;

/** As `bytea_output` of the database or its user has it: in hex, or as characters with octal numbers for what is none. */
function bytesOf(text: string): Buffer {
  if (text.startsWith('\\x')) return Buffer.from(text.slice(2), 'hex');
  const characters = text.replace(/\\(\\|[0-7]{3})/g, (_, escaped: string) =>
    escaped === '\\' ? escaped : String.fromCharCode(Number.parseInt(escaped, 8)),
  );
  return Buffer.from(characters, 'latin1');
}

/** Of a connection that listens. */
export interface Heard {
  notice(payload: string): void;
  lost(): void;
}

export async function connectPostgres(
  url: string,
  timeoutMs: number,
  heard?: Heard,
): Promise<ServerConnection> {
  const { Client } = loadPg();
  const client = new Client({
    connectionString: url,
    application_name: 'svc-outbox',
    connectionTimeoutMillis: timeoutMs,
    keepAlive: true,
    types,
    stream: () => new Socket().unref(),
  });
  // Without spans, also of what began before the application's SDK was there.
  const send: PgClient['query'] = withoutWrappers(client.query).bind(client);
  const connect: PgClient['connect'] = withoutWrappers(client.connect).bind(client);
  let isLost = false;
  let isWorking = false;
  const lose = (): void => {
    isLost = true;
    heard?.lost();
  };
  client.on('notification', ({ payload = '' }) => heard?.notice(payload));
  client.on('error', lose);
  client.on('end', lose);
  const destroy = (): void => {
    if (isWorking && !isLost) cancel(client);
    lose();
    client.connection.stream.destroy();
  };
  const query = async (text: string, values?: readonly SqlValue[]): Promise<PgResult> => {
    isWorking = true;
    try {
      return await send(text, values);
    } finally {
      isWorking = false;
    }
  };
  try {
    await connect();
  } catch (error) {
    destroy();
    throw error;
  }
  // TLS has put another socket over the first.
  client.unref();

  return {
    async run({ sql, values, isInOrder = false }) {
      if (isInOrder) {
        // One round trip and one transaction. The answers are those of each statement.
        const answers = (await query(`${inOrder}${sql}`)) as unknown as readonly PgResult[];
        return { rows: answers.at(-1)?.rows ?? [], count: 0 };
      }
      const { rows, rowCount } = await query(placed('postgres', sql), [...values]);
      return { rows, count: rowCount ?? 0 };
    },
    async begin(limitMs) {
      // In the transaction and not in the session, which a pooler may give to somebody else afterwards. A little earlier than
      // svc gives up: then the connection lives on.
      const limit = Math.max(1, Math.floor(limitMs * 0.9));
      await query(
        `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = ${limit}; SET LOCAL lock_timeout = ${limit}; SET LOCAL idle_in_transaction_session_timeout = ${idleInTransactionMs}`,
      );
    },
    id: typeof client.processID === 'number' ? client.processID : undefined,
    async blockerOf(id) {
      const { rows } = await query(placed('postgres', blockerSql), [id, id]);
      return blockerText(rows[0]);
    },
    async end(verb) {
      await query(verb);
    },
    isLost: () => isLost,
    async leave() {
      lose();
      await client.end().catch(() => {});
    },
    destroy,
  };
}

const inOrder = ['sort', 'incremental_sort', 'bitmapscan', 'seqscan']
  .map((way) => `SET LOCAL enable_${way} = off; `)
  .join('');

/** What a role may not see of another's session is null. Whose turn it is to make the tables is no lock that is in the way. */
const blockerSql = `SELECT pid, application_name AS name, host(client_addr) AS address, state, floor(extract(epoch FROM clock_timestamp() - xact_start)) AS seconds FROM pg_stat_activity WHERE pid = ANY(pg_blocking_pids(?)) AND NOT EXISTS (SELECT 1 FROM pg_locks WHERE pid = ? AND locktype = 'advisory' AND NOT granted) ORDER BY xact_start LIMIT 1`;

const cancelRequest = 80_877_102;
const longestCancelMs = 2_000;

/**
 * A server does not notice that nobody waits any more while a statement waits for a lock: each try would leave one behind, until
 * there are no connections left.
 */
function cancel({ host, port, processID, secretKey }: PgClient): void {
  if (typeof processID !== 'number' || typeof secretKey !== 'number') return;
  const request = Buffer.alloc(16);
  request.writeInt32BE(request.length, 0);
  request.writeInt32BE(cancelRequest, 4);
  request.writeInt32BE(processID, 8);
  request.writeInt32BE(secretKey, 12);
  const socket = new Socket().unref();
  const timer = setTimeout(() => socket.destroy(), longestCancelMs);
  timer.unref();
  socket.on('error', () => {}).on('close', () => clearTimeout(timer));
  if (host.startsWith('/')) socket.connect(`${host}/.s.PGSQL.${port}`);
  else socket.connect(port, host);
  socket.end(request);
}
