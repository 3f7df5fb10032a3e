import { readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { OwnDatabase } from '../support/database.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startOwnMariadb } from '../support/mariadb.ts';
import { startOwnPostgres } from '../support/postgres.ts';
import { runSvc } from '../support/run-svc.ts';

export const drivers = ['pg', 'mysql2', 'better-sqlite3', 'node:sqlite'] as const;
export type Driver = (typeof drivers)[number];

/** A row of the outbox. */
export interface Row {
  readonly event_type: string;
  readonly payload: Uint8Array;
}

/** An empty database with a table `things`, for one process. */
export interface FreshDatabase {
  /** As the programs are given it. */
  readonly url: string;
  readonly env: NodeJS.ProcessEnv;
  rows(): Promise<Row[]>;
  /** What its server was asked by the programs, by the id of each; svc's own statements are left out. */
  statements(): Map<string, string[]>;
}

export interface Databases {
  /** `isStored`: with the tables of the outbox. */
  fresh(isStored: boolean): Promise<FreshDatabase>;
  stop(): Promise<void>;
}

const things = 'CREATE TABLE things (id varchar(64) PRIMARY KEY)';
/** What svc asks on a connection of the application. */
const ownStatements = /svc_outbox_events|^SELECT pg_backend_pid\(\)$|^DO 0$/;
const stored = 'SELECT event_type, payload FROM svc_outbox_events';

async function environment(
  driver: Driver,
  address: string,
  datasource: string,
  isStored: boolean,
): Promise<NodeJS.ProcessEnv> {
  const env = { HOSTS_DRIVER: driver, DATABASE: address };
  if (!isStored) return env;
  const outbox = { SVC_OUTBOX_ENABLED: 'true', SVC_OUTBOX_DATASOURCE_URL: datasource };
  const { code, stderr } = await runSvc(['outbox', 'migrate'], {
    cwd: tmpdir(),
    env: { SVC_BROKER_TOPIC: 'events', ...outbox },
  });
  if (code !== 0) throw new Error(`svc outbox migrate: ${stderr}`);
  return { ...env, ...outbox, SVC_OUTBOX_PUBLISHER_ENABLED: 'false' };
}

function inFiles(driver: Driver): Databases {
  const folder = temporaryFolder('hosts');
  let count = 0;
  return {
    async fresh(isStored) {
      const file = join(folder, `${++count}.db`);
      const handle = new DatabaseSync(file);
      handle.exec(things);
      handle.close();
      const env = await environment(driver, file, `sqlite:${file}`, isStored);
      return {
        url: file,
        env,
        async rows() {
          const read = new DatabaseSync(file, { readOnly: true });
          const rows = read.prepare(stored).all() as unknown as Row[];
          read.close();
          return rows;
        },
        statements: () => new Map(),
      };
    },
    stop: async () => rmSync(folder, { recursive: true }),
  };
}

/** The programs have a name of their own on the server, by which its log knows them. */
interface Naming {
  /** Once. */
  readonly prepare: readonly string[];
  addressOf(url: string): string;
  /** What the programs have asked, one text each, in this part of the log. */
  read(log: string): string[];
}

const ofPostgres: Naming = {
  prepare: ["ALTER SYSTEM SET log_line_prefix = '%a|'", 'SELECT pg_reload_conf()'],
  addressOf: (url) => `${url}?application_name=programs`,
  read(log) {
    const asked: string[] = [];
    let isOpen = false;
    for (const line of log.split('\n')) {
      const [, kind, text] =
        /^programs\|(LOG|DETAIL): {2}(?:statement: |execute [^:]*: |(?=[Pp]arameters))(.*)/.exec(line) ?? [];
      if (kind === 'LOG') asked.push(text as string);
      else if (isOpen && (kind === 'DETAIL' || line.startsWith('\t')))
        asked[asked.length - 1] += ` ${text ?? line}`;
      isOpen = kind !== undefined || (isOpen && line.startsWith('\t'));
    }
    return asked;
  },
};

const ofMariadb: Naming = {
  prepare: ["CREATE USER programs@'%'", "GRANT ALL ON *.* TO programs@'%'"],
  addressOf: (url) => url.replace('//root@', '//programs@').replace('mariadb:', 'mysql:'),
  read(log) {
    const asked: string[] = [];
    const own = new Set<string>();
    for (const line of log.split('\n')) {
      const [, id = '', command, text = ''] = /^(?:\d{6}\s+[\d:]+)?\s+(\d+) (\w+)\t(.*)/.exec(line) ?? [];
      if (command === 'Connect' && text.startsWith('programs@')) own.add(id);
      if (command === 'Quit') own.delete(id);
      if (own.has(id) && /^(Query|Execute)$/.test(command ?? '')) asked.push(text);
    }
    return asked;
  },
};

async function onServer(
  driver: Driver,
  server: OwnDatabase,
  { prepare, addressOf, read }: Naming,
): Promise<Databases> {
  for (const each of prepare) await server.query(server.url, each);
  const log = server.statementsFile as string;
  return {
    async fresh(isStored) {
      const url = await server.freshDatabase();
      await server.query(url, things);
      const env = await environment(driver, addressOf(url), url, isStored);
      const from = statSync(log).size;
      return {
        url: addressOf(url),
        env,
        rows: () => server.query(url, stored) as unknown as Promise<Row[]>,
        statements: () => byProgram(read(readFileSync(log).subarray(from).toString())),
      };
    },
    stop: () => server.stop(),
  };
}

/** Each program begins with `SELECT 'p1' AS program`. */
function byProgram(asked: readonly string[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  let program = '';
  for (const text of asked) {
    program = /^SELECT '(\w+)' AS program/.exec(text)?.[1] ?? program;
    if (!ownStatements.test(text)) found.set(program, [...(found.get(program) ?? []), text]);
  }
  return found;
}

/** For the programs of one driver; two processes must not use it at once. */
export async function databasesOf(driver: Driver): Promise<Databases> {
  if (driver === 'pg') return onServer(driver, await startOwnPostgres({ logStatements: true }), ofPostgres);
  if (driver === 'mysql2') return onServer(driver, await startOwnMariadb({ logStatements: true }), ofMariadb);
  return inFiles(driver);
}
