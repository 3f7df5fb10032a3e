import { ANSWER_TIMEOUT_MS, QUERY_TIMEOUT_MS } from './database.ts';

/** Runs one statement on a MySQL or MariaDB. */
export async function queryMysql(
  url: string,
  statement: string,
  timeout = QUERY_TIMEOUT_MS,
): Promise<Record<string, unknown>[]> {
  const { createConnection } = await import('mysql2/promise');
  const connection = await createConnection({ uri: url, connectTimeout: timeout });
  try {
    const [rows] = await connection.query({ sql: statement, timeout });
    return Array.isArray(rows) ? (rows as Record<string, unknown>[]) : [];
  } finally {
    connection.destroy();
  }
}

/** Why a server cannot be used: also one that answers, but is of the other product. */
export async function mysqlProblem(url: string, title: 'MySQL' | 'MariaDB'): Promise<string | null> {
  try {
    const [row] = await queryMysql(url, 'SELECT version() AS version', ANSWER_TIMEOUT_MS);
    const found = /mariadb/i.test(String(row?.version)) ? 'MariaDB' : 'MySQL';
    return found === title ? null : `it is a ${found}`;
  } catch (error) {
    return (error as Error).message || String((error as NodeJS.ErrnoException).code);
  }
}

/** Where its programs and data are, and how texts are kept; the same when it is initialised and when it runs. */
export function mysqlArguments({ base, data }: { base: string; data: string }): string[] {
  const args = ['--no-defaults', `--basedir=${base}`, `--datadir=${data}`, '--character-set-server=utf8mb4'];
  return process.geteuid?.() === 0 ? [...args, '--user=root'] : args;
}

/** What a server is started with that a test asks for. */
export interface ListenOptions {
  readonly logStatements: boolean;
  readonly replicates: boolean;
}

/** A small server on loopback. `statementsFile`: where it writes each statement that it takes. */
export function listenArguments(
  port: number,
  { statementsFile, replicates }: { statementsFile: string | null } & Pick<ListenOptions, 'replicates'>,
): string[] {
  // The name of the socket is one in the data folder: a whole path can be too long for a socket.
  const args = [`--port=${port}`, '--bind-address=127.0.0.1', '--socket=server.sock'];
  args.push('--innodb-buffer-pool-size=64M');
  if (replicates) args.push('--log-bin=binlog', '--binlog-format=ROW', '--server-id=1');
  return statementsFile ? [...args, '--general-log=1', `--general-log-file=${statementsFile}`] : args;
}
