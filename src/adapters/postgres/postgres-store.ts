// postgres/: PostgreSQL: a patch of the application's driver, and the outbox over svc's own connection.

import { randomUUID } from 'node:crypto';
import { Socket } from 'node:net';
import { sleep } from '../../ground/builtins.ts';
import { backoffMs, inTime } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { logger } from '../../observe/logger.ts';
import { besideTable, partsOfTable, placed, quoteName, type SqlValue } from '../../outbox/insert-row.ts';
import type { Notices, OutboxStore } from '../../outbox/outbox-store.ts';
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
import {
  createSqlStore,
  defaultTimeoutMs,
  type SqlDatabase,
  type SqlStoreOptions,
} from '../sql/sql-store.ts';
import { query, type SqlRow } from '../sql/statement.ts';

/**
 * Uses the package `pg`, which the application installs, loaded at the first call. PostgreSQL 13 and later. No named statements
 * and no session settings, so that PgBouncer in transaction mode may be in between.
 *
 * @param listening where to listen for notices, and the time limit in milliseconds for the first one, which proves delivery
 */
export function createPostgresStore(
  options: SqlStoreOptions,
  listening: { readonly url?: string; readonly proofMs?: number } = {},
): OutboxStore {
  const { url, table, timeoutMs = defaultTimeoutMs } = options;
  const details: StoreFaultDetails = { dialect: 'postgres', table, database: placeOf(url) };
  const database = createServerDatabase({
    load: loadPg,
    connect: () => connectPostgres(url, timeoutMs),
    timeoutMs,
    toError: (error) => toPostgresError(error, details),
    isPassing: isPassingInPostgres,
    isReadOnly: isReadOnlyInPostgres,
    details,
  });
  const notices = postgresNotices({
    ...{ table, database, timeoutMs, proofMs: listening.proofMs ?? 5_000 },
    connect: (heard) => connectPostgres(listening.url ?? url, timeoutMs, heard),
  });
  return { ...createSqlStore('postgres', options, details, database), notices };
}

function placeOf(url: string): string {
  const { host } = partsOfUrl(url, ['postgres:', 'postgresql:'], 'postgres://');
  return `PostgreSQL at ${host || 'the local socket'}`;
}

interface PgClient {
  connect(): Promise<unknown>;
  query(text: string, values?: readonly SqlValue[]): Promise<PgResult>;
  end(): Promise<void>;
  unref(): void;
  on(event: 'error' | 'end', listener: () => void): void;
  on(event: 'notification', listener: (notice: { readonly payload?: string }) => void): void;
  readonly connection: { readonly stream: ConnectedSocket & { destroy(): void } };
  readonly host: string;
  readonly port: number;
  /** The backend's process id and secret key of the connection, for a cancel request. */
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

const loadPg = (): PgModule => loadDriver('pg');

/** All columns as text, except bytes: an application can change the parsers of `pg` for the whole process. */
const types = {
  getTypeParser: (oid: number) => (oid === byteaOid ? bytesOf : (text: string) => text),
};
const byteaOid = 17;

/** Both forms of `bytea_output`: hex, or characters with octal escapes. */
function bytesOf(text: string): Buffer {
  if (text.startsWith('\\x')) return Buffer.from(text.slice(2), 'hex');
  const characters = text.replace(/\\(\\|[0-7]{3})/g, (_, escaped: string) =>
    escaped === '\\' ? escaped : String.fromCharCode(Number.parseInt(escaped, 8)),
  );
  return Buffer.from(characters, 'latin1');
}

interface Heard {
  notice(payload: string): void;
  lost(): void;
}

async function connectPostgres(url: string, timeoutMs: number, heard?: Heard): Promise<ServerConnection> {
  const { Client } = loadPg();
  const client = new Client({
    connectionString: url,
    application_name: 'svc-outbox',
    connectionTimeoutMillis: timeoutMs,
    keepAlive: true,
    types,
    stream: () => new Socket().unref(),
  });
  // Without spans, also if the application's SDK started later.
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
  // With TLS, this is another socket than before.
  client.unref();

  return {
    async run({ sql, values, isInOrder = false }) {
      if (isInOrder) {
        // One round trip and one transaction. There is an answer for each statement.
        const answers = (await query(`${inOrder}${sql}`)) as unknown as readonly PgResult[];
        return { rows: answers.at(-1)?.rows ?? [], count: 0 };
      }
      const { rows, rowCount } = await query(placed('postgres', sql), [...values]);
      return { rows, count: rowCount ?? 0 };
    },
    async begin(limitMs) {
      // Not for the session, which a pooler may share. A little shorter than svc's own limit, so that the connection survives.
      const limit = Math.max(1, Math.floor(limitMs * 0.9));
      await query(
        `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = ${limit}; SET LOCAL lock_timeout = ${limit}; SET LOCAL idle_in_transaction_session_timeout = ${idleInTransactionMs}`,
      );
    },
    inClearTo: inClearTo(client.connection.stream),
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

/** Columns of another role's session may be null. The advisory lock of the migration does not count. */
const blockerSql = `SELECT pid, application_name AS name, host(client_addr) AS address, state, floor(extract(epoch FROM clock_timestamp() - xact_start)) AS seconds FROM pg_stat_activity WHERE pid = ANY(pg_blocking_pids(?)) AND NOT EXISTS (SELECT 1 FROM pg_locks WHERE pid = ? AND locktype = 'advisory' AND NOT granted) ORDER BY xact_start LIMIT 1`;

const cancelRequest = 80_877_102;
const longestCancelMs = 2_000;

/**
 * Cancels the running statement. A server does not notice a lost client while a statement waits for a lock. Each try would
 * leave one behind, until no connections are left.
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

const faults: Readonly<Record<string, StoreFault>> = {
  '28000': 'signIn',
  '28P01': 'signIn',
  '3D000': 'signIn',
  '25006': 'readOnly',
  '42501': 'notAllowed',
  '42P01': 'tableMissing',
  '3F000': 'tableMissing',
  '42703': 'otherTable',
  '42804': 'otherTable',
  '42809': 'otherTable',
  '42P17': 'otherTable',
  '57014': 'late',
  '55P03': 'late',
  '53300': 'full',
};

/** Made from the code only, because message, detail and hint hold values. */
function toPostgresError(error: unknown, details: StoreFaultDetails): SvcError {
  if (error instanceof SvcError) return error;
  const { code, message } = error as { code?: unknown; message?: unknown };
  const text = typeof code === 'string' ? code : undefined;
  if (text === undefined && (error instanceof TypeError || error instanceof RangeError))
    return storeError('statement', details);
  return storeError(faultOf(text, String(message)), { ...details, code: text });
}

function faultOf(code: string | undefined, message: string): StoreFault {
  // pg's own errors have no code: a missing password, or an ended connection.
  if (code === undefined) return /\b(password|SASL|SCRAM)\b/i.test(message) ? 'signIn' : 'unreachable';
  const known = faults[code];
  if (known !== undefined) return known;
  // Connection, resources, operator: too many connections, and a server that stops or starts.
  return /^(08|53|57)\w{3}$/.test(code) || /^E[A-Z]{3,}$/.test(code) || /_/.test(code)
    ? 'unreachable'
    : 'statement';
}

/** Serialization failure, deadlock. */
function isPassingInPostgres(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === '40001' || code === '40P01';
}

function isReadOnlyInPostgres(error: unknown): boolean {
  return faults[String((error as { code?: unknown } | undefined)?.code)] === 'readOnly';
}

interface PostgresNoticesOptions {
  readonly table: string;
  /** The database of the store. Notices go out between its other work. */
  readonly database: Pick<SqlDatabase, 'run'>;
  /** Opens a separate connection for LISTEN. */
  readonly connect: (heard: Heard) => Promise<ServerConnection>;
  readonly timeoutMs: number;
  readonly proofMs: number;
}

const firstPauseMs = 500;
const longestPauseMs = 30_000;
/** How often a silent connection is checked, because a network can lose it without a word. */
const checkMs = 30_000;
/** The pause before the next try if no notices arrive. */
const deafMs = 600_000;

/** NOTIFY and LISTEN on a channel named after the table, without its schema, which not every configuration includes. */
function postgresNotices(options: PostgresNoticesOptions): Notices {
  const { table, database, connect, timeoutMs, proofMs } = options;
  const channel = besideTable(partsOfTable(table)?.name ?? table, '_stored');
  let isSaid = false;

  async function send(payload: string): Promise<void> {
    await database.run(() => query('SELECT pg_notify(?, ?)', channel, payload), { as: 'statement' });
  }

  /** Listens until the connection is lost, or `stopping`. Returns the pause before the next try. Throws if it cannot start. */
  async function listenOnce(hear: Hear, stopping: AbortSignal): Promise<number> {
    const lost = new AbortController();
    const proven = new AbortController();
    const over = AbortSignal.any([stopping, lost.signal]);
    const proof = `proof ${randomUUID()}`;
    const connection = await connect({
      notice(payload) {
        if (payload === proof) proven.abort();
        else if (/^\d+(,\d+)*$/.test(payload)) hear(payload.split(',').map(Number));
      },
      lost: () => lost.abort(),
    });
    const run = (sql: string): Promise<unknown> =>
      inTime(connection.run({ sql, values: [], hasRows: false }), {
        limitMs: timeoutMs,
        keepsAlive: false,
        late: () => Promise.reject(new Error('no answer in time')),
      });
    try {
      await run(`LISTEN ${quoteName('postgres', channel)}`);
      hear();
      await send(proof);
      await pause(proofMs, AbortSignal.any([over, proven.signal]));
      if (!proven.signal.aborted) {
        if (!over.aborted) sayDeaf();
        return over.aborted ? firstPauseMs : deafMs;
      }
      while (!over.aborted) {
        await pause(checkMs, over);
        if (!over.aborted) await run('SELECT 1');
      }
      return firstPauseMs;
    } finally {
      if (stopping.aborted) await connection.leave();
      else connection.destroy();
    }
  }

  function sayDeaf(): void {
    if (isSaid) return;
    isSaid = true;
    logger.info(
      'outbox: the database delivers no NOTIFY, as with PgBouncer in transaction mode. svc finds rows of other processes every svc.outbox.poll-interval-ms',
    );
  }

  return {
    send: (shards) => send(shards.join(',')),
    async listen(hear, stopping) {
      for (let failures = 0; !stopping.aborted; ) {
        let waitMs: number;
        try {
          waitMs = await listenOnce(hear, stopping);
          failures = 0;
        } catch {
          // The reader of the table reports problems of the database.
          waitMs = backoffMs(++failures, firstPauseMs, longestPauseMs);
        }
        await pause(waitMs, stopping);
      }
    },
  };
}

type Hear = Parameters<Notices['listen']>[0];

/** Unref'd. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => {});
}
