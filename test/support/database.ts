import { randomBytes } from 'node:crypto';
import {
  type Database,
  type DatabaseServer,
  type DatabaseStartOptions,
  useGivenDatabase,
} from '../../scripts/services/database.ts';

export interface TestDatabase {
  /** Of the server's first database, with a user who may do everything. */
  readonly url: string;
  /** Makes an empty database, `svc_test_<n>`; its address. */
  freshDatabase(): Promise<string>;
  /** Runs one statement over a connection of its own; the rows of its answer. */
  query(url: string, statement: string): Promise<Record<string, unknown>[]>;
}

/** A server that a test may hurt. */
export interface OwnDatabase extends TestDatabase {
  /** Where each statement that it takes is written, with `logStatements`. */
  readonly statementsFile: string | null;
  /** Ends it at once, as a crash does (SIGKILL). Its data stay. */
  kill(): Promise<void>;
  /** Starts it again on the same port with the same data, after a `kill` where it still runs; waits for its answer. */
  restart(): Promise<void>;
  /** Freezes all of it: once this resolves, connections stay open and nothing answers, until `resume`. */
  pause(): Promise<void>;
  resume(): void;
  stop(): Promise<void>;
}

export interface DatabaseSupport {
  /** The server that all suites of this run share: the one of the variable, or one that is started at the first call. */
  start(): Promise<TestDatabase>;
  /** A server of your own, to kill and to freeze. Never the one of the variable. */
  startOwn(options?: Pick<DatabaseStartOptions, 'logStatements' | 'replicates'>): Promise<OwnDatabase>;
}

const log = (line: string): void => console.error(line);

/** The servers of one product, as suites use them; they end with the run. */
export function databaseSupport(database: Database): DatabaseSupport {
  let shared: Promise<DatabaseServer> | null = null;
  const own = new Set<DatabaseServer>();
  const made: { url: string; name: string }[] = [];

  function testDatabase({ url, local }: DatabaseServer): TestDatabase {
    return {
      url,
      query: database.query,
      async freshDatabase() {
        const name = `svc_test_${randomBytes(6).toString('hex')}`;
        await database.query(url, `CREATE DATABASE ${name}`);
        if (local === null) made.push({ url, name });
        return Object.assign(new URL(url), { pathname: `/${name}` }).href;
      },
    };
  }

  // At the end of the run, whoever used it first. A run that is killed leaves nothing either: see scripts/services/guard.ts.
  if (typeof after === 'function') {
    after(`stop ${database.title}`, async function () {
      // On a busy machine, PostgreSQL takes a second for each database that it drops.
      this.timeout(60_000);
      const started = await shared?.catch(() => null);
      // A given server lives on, without what was made in it.
      for (const { url, name } of made) await database.query(url, `DROP DATABASE ${name}`);
      await Promise.all([...own, started].map((server) => server?.local?.stop()));
    });
  }

  return {
    async start() {
      shared ??= useGivenDatabase(database).then((given) => given ?? database.start({ log }));
      return testDatabase(await shared);
    },
    async startOwn(options = {}) {
      const server = await database.start({ ...options, log });
      const { local, statementsFile } = server;
      if (local === null) throw new Error(`this ${database.title} is not ours to control`);
      own.add(server);
      const { kill, restart, pause, resume } = local;
      const stop = async (): Promise<void> => {
        own.delete(server);
        await local.stop();
      };
      return { ...testDatabase(server), statementsFile, kill, restart, pause, resume, stop };
    },
  };
}
