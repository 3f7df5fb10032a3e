import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { OwnDatabase, TestDatabase } from '../../support/database.ts';
import { startOwnMariadb } from '../../support/mariadb.ts';
import { startOwnPostgres } from '../../support/postgres.ts';

export type OutboxDatabaseName = 'postgres' | 'mariadb' | 'sqlite';

/** A database that the applications store their orders in, and what is different about it. */
export interface OutboxDatabase {
  /** As in `--database`. */
  readonly name: OutboxDatabaseName;
  readonly title: string;
  /** Packages that the application needs for it. */
  readonly packages: readonly string[];
  /** In `application/`, what the application does with its driver. */
  readonly driver: string;
  /** The number of an attempt, which the database gives. */
  readonly numberColumn: string;
  start(): Promise<StartedDatabase>;
}

export interface StartedDatabase extends TestDatabase {
  /** What can be killed; SQLite has no server. */
  readonly server: OwnDatabase | null;
  stop(): Promise<void>;
}

const ofServer = (startOwn: () => Promise<OwnDatabase>) => async (): Promise<StartedDatabase> => {
  const server = await startOwn();
  const { url, query, freshDatabase, stop } = server;
  return { url, query, freshDatabase, server, stop };
};

export const outboxDatabases: readonly OutboxDatabase[] = [
  {
    ...{ name: 'postgres', title: 'PostgreSQL', packages: ['pg'], driver: 'postgres.mjs' },
    numberColumn: 'number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY',
    start: ofServer(startOwnPostgres),
  },
  {
    ...{ name: 'mariadb', title: 'MariaDB', packages: ['mysql2'], driver: 'mysql.mjs' },
    numberColumn: 'number bigint NOT NULL AUTO_INCREMENT PRIMARY KEY',
    start: ofServer(startOwnMariadb),
  },
  {
    ...{ name: 'sqlite', title: 'SQLite', packages: [], driver: 'sqlite.mjs' },
    numberColumn: 'number INTEGER PRIMARY KEY AUTOINCREMENT',
    start: startSqlite,
  },
];

/** Files in a folder of their own. */
async function startSqlite(): Promise<StartedDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-faults-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  const freshUrl = (): string => `sqlite:${join(folder, `${randomBytes(4).toString('hex')}.db`)}`;
  return {
    ...{ url: freshUrl(), server: null },
    freshDatabase: async () => freshUrl(),
    query: async (url, statement) => querySqlite(url, statement),
    stop: async () => remove(),
  };
}

export const pathIn = (url: string): string => url.slice('sqlite:'.length);

function querySqlite(url: string, statement: string): Record<string, unknown>[] {
  const handle = new DatabaseSync(pathIn(url), { timeout: 1_000 });
  try {
    return handle.prepare(statement).all();
  } finally {
    handle.close();
  }
}
