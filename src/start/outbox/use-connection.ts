import { SvcError } from '../../ground/errors.ts';
import { loadOwnCopy } from '../../ground/files/load-own-copy.ts';
import { packageMissing } from '../../outbox/store-error.ts';
import type { Dialect } from '../../transaction/dialect.ts';

interface PgModule {
  readonly Client: new (
    options: object,
  ) => {
    connect(): Promise<unknown>;
    end(): Promise<void>;
    on(event: 'error', listener: () => void): void;
  };
}

interface MysqlModule {
  createConnection(options: object): { connect(done: (error: unknown) => void): void; destroy(): void };
}

interface SqliteModule {
  readonly DatabaseSync: new (path: string, options: object) => { close(): void };
}

const timeoutMs = 10_000;

/** One connection of the application's driver, for one command. Rejects with one-line errors of svc, and as `work` does. */
export async function useConnection(
  url: string,
  dialect: Dialect,
  work: (connection: object) => Promise<void>,
): Promise<void> {
  const { connection, connected, end } = open(url, dialect);
  try {
    await connected().catch((error: { code?: unknown }) => {
      throw new SvcError(
        'SVC_OUTBOX_UNREACHABLE',
        `the database cannot be reached${typeof error?.code === 'string' ? ` (${error.code})` : ''}: check its URL, and that it runs`,
      );
    });
    await work(connection);
  } finally {
    await end();
  }
}

interface Opened {
  readonly connection: object;
  connected(): Promise<unknown>;
  end(): unknown;
}

function open(url: string, dialect: Dialect): Opened {
  if (dialect === 'postgres') {
    const { Client } = load<PgModule>('pg');
    const client = new Client({ connectionString: url, connectionTimeoutMillis: timeoutMs });
    client.on('error', () => {});
    return { connection: client, connected: () => client.connect(), end: () => client.end().catch(() => {}) };
  }
  if (dialect === 'mysql') {
    const { createConnection } = load<MysqlModule>('mysql2');
    const connection = createConnection({
      ...{ uri: url.replace(/^mariadb:/, 'mysql:'), connectTimeout: timeoutMs },
    });
    const connected = (): Promise<unknown> =>
      new Promise((resolve, reject) =>
        connection.connect((error) => (error ? reject(error) : resolve(null))),
      );
    return { connection, connected, end: () => connection.destroy() };
  }
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite') as unknown as SqliteModule;
  const handle = new DatabaseSync(url.replace(/^sqlite:(?:\/\/(?=\/))?/, ''), { timeout: timeoutMs });
  return { connection: handle, connected: async () => {}, end: () => handle.close() };
}

function load<T>(name: string): T {
  try {
    return loadOwnCopy(name) as T;
  } catch (error) {
    throw packageMissing(name, error as NodeJS.ErrnoException);
  }
}
