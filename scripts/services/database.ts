import { join } from 'node:path';
import { lastLines, runCommand } from './commands.ts';
import type { LocalServer } from './local-server.ts';
import { Unavailable } from './unavailable.ts';

/** A server of databases. */
export interface DatabaseServer {
  /** Of its first database, with a user who may do everything. */
  readonly url: string;
  /** Where each statement that it takes is written, of one that was started with `logStatements`. */
  readonly statementsFile: string | null;
  /** `null` for the one named by its variable: it is not ours to stop. */
  readonly local: LocalServer | null;
}

export interface DatabaseStartOptions {
  /** Default false. */
  readonly logStatements?: boolean;
  /** Whether replicas can follow it. Default false; PostgreSQL lets them always. */
  readonly replicates?: boolean;
  readonly keep?: boolean;
  readonly log?: (line: string) => void;
}

/** One product: how to have a server of it, and how to ask one. */
export interface Database {
  /** Name of the service: `postgres`. */
  readonly name: string;
  /** As people write it. */
  readonly title: string;
  /** Names one that runs already. */
  readonly variable: string;
  /** Downloads what `start` needs, once. Throws {@link Unavailable}. */
  ensure(log: (line: string) => void): Promise<unknown>;
  /** Throws {@link Unavailable}. */
  start(options?: DatabaseStartOptions): Promise<DatabaseServer>;
  /** Runs one statement over a connection of its own; the rows of its answer. */
  query(url: string, statement: string): Promise<Record<string, unknown>[]>;
  /** `null` when the server can be used, else why not. */
  problem(url: string): Promise<string | null>;
}

/** How long an answer may take that tells whether a server can be used. */
export const ANSWER_TIMEOUT_MS = 3_000;

/** Of a statement, and of its connection: CREATE DATABASE copies files, on a disk that others use as well. */
export const QUERY_TIMEOUT_MS = 30_000;

export function databaseUrlFromEnv({ variable }: Pick<Database, 'variable'>): string | undefined {
  return process.env[variable]?.trim() || undefined;
}

/** The server named by the variable, after it has answered; `null` when that is not set. Throws {@link Unavailable}. */
export async function useGivenDatabase(database: Database): Promise<DatabaseServer | null> {
  const { title, variable } = database;
  const url = databaseUrlFromEnv(database);
  if (url === undefined) return null;
  const problem = await database.problem(url);
  if (problem === null) return { url, statementsFile: null, local: null };
  // The address may hold a password: only its server is told.
  const server = URL.canParse(url) ? new URL(url).host : 'no address';
  throw new Unavailable(
    `${variable} names ${server}, where no ${title} can be used: ${problem}`,
    `start that server, or unset ${variable}`,
  );
}

/** The same reason, with what it is that cannot be had. */
export async function orUnavailable<T>(
  { title, variable }: Pick<Database, 'title' | 'variable'>,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    throw new Unavailable(`no ${title}: ${error.message}`, `${error.how}, or set ${variable}`);
  }
}

/** Copies the data of a server that was initialised once into the folder of a new one. */
export async function copyData(template: string, folder: string): Promise<string> {
  const data = join(folder, 'data');
  await runOrFail('cp', ['-R', '-p', template, data]);
  return data;
}

const RUN_TIMEOUT_MS = 2 * 60_000;

export async function runOrFail(program: string, args: readonly string[], cwd?: string): Promise<string> {
  const { code, stdout, stderr } = await runCommand(program, args, {
    timeoutMs: RUN_TIMEOUT_MS,
    ...(cwd && { cwd }),
  });
  if (code === 0) return stdout.toString();
  throw new Error(`${program} failed (${code ?? 'time-out'}):\n${lastLines(`${stdout}\n${stderr}`, 6)}`);
}
