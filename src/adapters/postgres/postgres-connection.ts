import { Socket } from 'node:net';
import { placed, type SqlValue } from '../../outbox/insert-row.ts';
import { packageMissing } from '../../outbox/store-error.ts';
import type { ServerConnection } from '../sql/server-database.ts';
import type { SqlRow } from '../sql/statement.ts';

/** The part of a `pg` client that is used here. */
interface PgClient {
  connect(): Promise<unknown>;
  query(text: string, values?: readonly SqlValue[]): Promise<PgResult>;
  end(): Promise<void>;
  unref(): void;
  on(event: 'error' | 'end', listener: () => void): void;
  readonly connection: { readonly stream: { destroy(): void } };
}

interface PgResult {
  readonly rows: readonly SqlRow[];
  readonly rowCount: number | null;
}

interface PgModule {
  readonly Client: new (config: object) => PgClient;
}

// Not written into the import: the package is an optional peer, which type checkers and bundlers must not insist on.
const packageName: string = 'pg';

export async function loadPg(): Promise<PgModule> {
  try {
    const found = (await import(packageName)) as PgModule & { default?: PgModule };
    return found.default ?? found;
  } catch (error) {
    throw packageMissing(packageName, error as NodeJS.ErrnoException);
  }
}

/** Everything as text and bytes as bytes: an application can change what `pg` makes of a type for the whole process. */
const types = {
  getTypeParser: (oid: number) => (oid === byteaOid ? bytesOfHex : (text: string) => text),
};
const byteaOid = 17;
const bytesOfHex = (text: string): Buffer => Buffer.from(text.slice(2), 'hex');

export async function connectPostgres(url: string, timeoutMs: number): Promise<ServerConnection> {
  const { Client } = await loadPg();
  const client = new Client({
    connectionString: url,
    application_name: 'svc-outbox',
    connectionTimeoutMillis: timeoutMs,
    keepAlive: true,
    types,
    stream: () => new Socket().unref(),
  });
  let isLost = false;
  const lose = (): void => {
    isLost = true;
  };
  client.on('error', lose);
  client.on('end', lose);
  const destroy = (): void => {
    lose();
    client.connection.stream.destroy();
  };
  try {
    await client.connect();
  } catch (error) {
    destroy();
    throw error;
  }
  // TLS has put another socket over the first.
  client.unref();

  return {
    async run({ sql, values }) {
      const { rows, rowCount } = await client.query(placed('postgres', sql), [...values]);
      return { rows, count: rowCount ?? 0 };
    },
    async begin(limitMs) {
      // In the transaction and not in the session, which a pooler may give to somebody else afterwards.
      await client.query(
        `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = ${Math.ceil(limitMs)}`,
      );
    },
    async end(verb) {
      await client.query(verb);
    },
    isLost: () => isLost,
    destroy: () => {
      if (isLost) client.connection.stream.destroy();
      else {
        lose();
        // Says goodbye; what does not go, goes anyway.
        client.end().catch(() => {});
        const timer = setTimeout(() => client.connection.stream.destroy(), 500);
        timer.unref();
      }
    },
  };
}
