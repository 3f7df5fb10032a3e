import { join } from 'node:path';
import * as nodeSqlite from 'node:sqlite';
import mysql from 'mysql2/promise';
import pg from 'pg';
import { mysql2Drivers } from '../../src/adapters/mysql/mysql2-driver.ts';
import { pgDriver } from '../../src/adapters/postgres/pg-driver.ts';
import { sqliteDrivers } from '../../src/adapters/sqlite/sqlite-driver.ts';
import { startOwnWork } from '../../src/ground/lifecycle.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { patchDriver } from '../contract/captured.ts';
import type { OwnDatabase } from '../support/database.ts';

export const table = 'svc_outbox_events';

/** An application on its database. What it sends itself holds no value of anybody. */
export interface Application {
  query(text: string): Promise<unknown>;
  close(): Promise<unknown>;
}

/** A database with the tables of the outbox, and what can be seen in it and beside it. */
export interface CanaryDatabase {
  readonly url: string;
  connect(): Promise<Application>;
  /** Aside, as an administrator. */
  ask(statement: string): Promise<Record<string, unknown>[]>;
  /** Makes the database refuse events of the type REFUSED, and roll back those of the type RETRIED as a conflict. */
  readonly refusals: readonly string[];
}

let files = 0;

export async function canarySqlite(folder: string): Promise<CanaryDatabase> {
  patchDriver(sqliteDrivers.nodeSqlite, nodeSqlite);
  const path = join(folder, `canary-${++files}.db`);
  const administrator = new nodeSqlite.DatabaseSync(path);
  return prepared({
    url: `sqlite:${path}`,
    connect: async () => {
      const database = new nodeSqlite.DatabaseSync(path);
      return { query: async (text: string) => database.exec(text), close: async () => database.close() };
    },
    ask: async (statement: string) =>
      startOwnWork(() => administrator.prepare(statement).all()) as Record<string, unknown>[],
    refusals: [
      `CREATE TRIGGER refused BEFORE INSERT ON ${table} WHEN NEW.event_type IN ('REFUSED', 'RETRIED')
       BEGIN SELECT RAISE(ABORT, 'refused'); END`,
    ],
  });
}

/** `settings`: of the database, as `ALTER DATABASE … SET` takes them. */
export async function canaryPostgres(
  server: OwnDatabase,
  settings: readonly string[] = [],
): Promise<CanaryDatabase> {
  patchDriver(pgDriver, pg);
  const url = await server.freshDatabase();
  const name = new URL(url).pathname.slice(1);
  for (const setting of settings) await server.query(url, `ALTER DATABASE ${name} SET ${setting}`);
  return prepared({
    url,
    connect: async () => {
      const client = new pg.Client({ connectionString: url });
      client.on('error', () => {});
      await client.connect();
      return { query: (text) => client.query(text), close: () => client.end() };
    },
    ask: (statement) => server.query(url, statement),
    refusals: [
      `ALTER TABLE ${table} ADD CONSTRAINT refused CHECK (event_type <> 'REFUSED')`,
      `CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END $$`,
      `CREATE TRIGGER retried BEFORE INSERT ON ${table} FOR EACH ROW WHEN (NEW.event_type = 'RETRIED') EXECUTE FUNCTION conflict()`,
    ],
  });
}

export async function canaryMariadb(server: OwnDatabase): Promise<CanaryDatabase> {
  const promises = mysql2Drivers.find(({ specifier }) => specifier === 'mysql2/promise');
  if (promises !== undefined) patchDriver(promises, mysql);
  const url = await server.freshDatabase();
  return prepared({
    url,
    connect: async () => {
      const connection = await mysql.createConnection(url.replace(/^mariadb:/, 'mysql:'));
      connection.on('error', () => {});
      return {
        query: (text) => connection.query(text),
        close: async () => connection.destroy(),
      };
    },
    ask: (statement) => server.query(url, statement),
    refusals: [
      `ALTER TABLE ${table} ADD CONSTRAINT refused CHECK (event_type <> 'REFUSED')`,
      `CREATE TRIGGER retried BEFORE INSERT ON ${table} FOR EACH ROW
       IF NEW.event_type = 'RETRIED' THEN SIGNAL SQLSTATE '40001' SET MESSAGE_TEXT = 'conflict'; END IF`,
    ],
  });
}

async function prepared(database: CanaryDatabase): Promise<CanaryDatabase> {
  const store = openOutboxStore({ url: database.url, table, initializeSchema: 'always' });
  await store.prepare();
  await store.close(1_000);
  await database.ask('CREATE TABLE orders (id INTEGER)');
  return database;
}
