import { isLoopback } from '../../ground/addresses.ts';
import { inTime, within } from '../../ground/clock.ts';
import type { SvcError } from '../../ground/errors.ts';
import { loadOwnCopy } from '../../ground/files.ts';
import { throttledLog } from '../../observe/logger.ts';
import { badUrl, packageMissing, type StoreFaultDetails, storeError } from '../../outbox/store-error.ts';
import type { RunOptions, SqlDatabase } from './sql-store.ts';
import type { SqlRow, Statement, StatementResult, Work } from './statement.ts';

/** An unref'd connection to a server. */
export interface ServerConnection {
  run(statement: Statement): Promise<StatementResult>;
  /**
   * Opens a transaction. `limitMs` bounds each statement and each wait for a lock. The server ends the transaction by itself if
   * no statement follows, so that a blocked process does not block others.
   */
  begin(limitMs: number): Promise<void>;
  end(verb: 'COMMIT' | 'ROLLBACK'): Promise<void>;
  /** The address of a server on another machine, if the connection is not encrypted. */
  readonly inClearTo?: string | undefined;
  /** The server's id of the connection. */
  readonly id: number | undefined;
  /** The holder of the lock that the connection of this id waits for; `undefined`: none, or not visible to this user. */
  blockerOf(id: number): Promise<string | undefined>;
  isLost(): boolean;
  /** Closes it in agreement with the server. Never rejects. */
  leave(): Promise<void>;
  /** Closes it at once, and cancels work in flight on the server as far as possible. */
  destroy(): void;
}

interface ServerDatabaseOptions {
  /** Loads the driver. The time-out excludes it, because it waits for no server. */
  readonly load: () => unknown;
  /** Applies the same time-out. */
  readonly connect: () => Promise<ServerConnection>;
  readonly timeoutMs: number;
  readonly toError: (error: unknown) => SvcError;
  /** Deadlocks and the like: everything is rolled back, and may be retried. */
  readonly isPassing: (error: unknown) => boolean;
  /** The server takes no writes, for example after a failover. A new connection may lead to one that does. */
  readonly isReadOnly: (error: unknown) => boolean;
  readonly details: StoreFaultDetails;
  /** Warns of long waits for locks. */
}

/** The remote address of a socket without TLS. `undefined` for a local socket. */
export function inClearTo({ encrypted, remoteAddress }: ConnectedSocket): string | undefined {
  return encrypted === true || remoteAddress === undefined || isLoopback(remoteAddress)
    ? undefined
    : remoteAddress;
}

export interface ConnectedSocket {
  /** Only sockets with TLS have it. */
  readonly encrypted?: boolean;
  /** Missing for a socket in the file system. */
  readonly remoteAddress?: string | undefined;
}

/** A driver that the application has installed, as a separate copy. */
export function loadDriver<T>(packageName: string): T {
  try {
    return loadOwnCopy(packageName) as T;
  } catch (error) {
    throw packageMissing(packageName, error as NodeJS.ErrnoException);
  }
}

/** Parses a URL. `what` describes the allowed forms, for the error. */
export function partsOfUrl(url: string, protocols: readonly string[], what: string): URL {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed !== undefined && protocols.includes(parsed.protocol)) return parsed;
  throw badUrl(`it must begin with ${what} and have special characters of the password percent-encoded`);
}

/** For two statements at a time. Processes are many, and a server has few connections. */
const maxConnections = 2;
const idleMs = 12_000;
/** The server rolls back a transaction without statements for this long. svc sends one right after the other. */
export const idleInTransactionMs = 5_000;
/** After this part of its time-out, svc asks who blocks a statement. */
const askAfter = 0.6;
const maxTries = 4;

/** A few connections, opened on demand and again after a failure. */
export function createServerDatabase(options: ServerDatabaseOptions): SqlDatabase {
  const { timeoutMs, details } = options;
  const onBlocked = sayBlocked(details.database);
  /** The last used connection is on top, so that the other one becomes idle. */
  const idle: { readonly connection: ServerConnection; readonly timer: NodeJS.Timeout }[] = [];
  const waiting: (() => void)[] = [];
  const inFlight = new Set<Promise<unknown>>();
  const used = new Set<ServerConnection>();
  let places = maxConnections;
  let isClosed = false;
  let lastInClearTo: string | undefined;

  async function take(): Promise<ServerConnection> {
    if (places === 0) await new Promise<void>((resolve) => waiting.push(resolve));
    else places--;
    for (let last = idle.pop(); last !== undefined; last = idle.pop()) {
      clearTimeout(last.timer);
      if (!last.connection.isLost()) return last.connection;
      last.connection.destroy();
    }
    try {
      const connection = await options.connect();
      lastInClearTo = connection.inClearTo;
      return connection;
    } catch (error) {
      freePlace();
      throw error;
    }
  }

  function freePlace(): void {
    const next = waiting.shift();
    if (next === undefined) places++;
    else next();
  }

  function giveBack(connection: ServerConnection, leaves: boolean): void {
    used.delete(connection);
    if (connection.isLost()) connection.destroy();
    else if (leaves) void connection.leave();
    else {
      const timer = setTimeout(() => {
        idle.splice(
          idle.findIndex((one) => one.connection === connection),
          1,
        );
        void connection.leave();
      }, idleMs);
      timer.unref();
      idle.push({ connection, timer });
    }
    freePlace();
  }

  async function transaction<T>(connection: ServerConnection, work: Work<T>, limitMs: number): Promise<T> {
    try {
      await connection.begin(limitMs);
      const result = await runWork(work, (statement) => connection.run(statement));
      await connection.end('COMMIT');
      return result;
    } catch (error) {
      // Without a rollback, the transaction ends with its connection.
      if (!connection.isLost()) await connection.end('ROLLBACK').catch(() => connection.destroy());
      throw error;
    }
  }

  async function attempt<T>(
    work: () => Work<T>,
    { as = 'transaction', limitMs = timeoutMs, askAfterMs = limitMs * askAfter, leaves = false }: RunOptions,
  ): Promise<T> {
    let connection: ServerConnection | undefined;
    let isLate = false;
    const asking = setTimeout(() => void sayBlocker(connection?.id).catch(() => {}), askAfterMs);
    asking.unref();
    const whole = async (): Promise<T> => {
      const isAlone = idle.length === 0 && places === maxConnections;
      const taken = await take();
      connection = taken;
      used.add(taken);
      try {
        if (isLate) throw storeError('late', details);
        if (as !== 'statement') return await transaction(taken, work(), limitMs);
        return await runWork(work(), (statement) => taken.run(statement));
      } catch (error) {
        if (options.isReadOnly(error)) taken.destroy();
        throw error;
      } finally {
        clearTimeout(asking);
        giveBack(taken, leaves && isAlone && waiting.length === 0);
      }
    };
    return inTime(whole(), {
      limitMs,
      keepsAlive: false,
      late: () => {
        isLate = true;
        connection?.destroy();
        throw storeError('late', details);
      },
    });
  }

  async function sayBlocker(id: number | undefined): Promise<void> {
    if (id === undefined) return;
    // A second connection, because the first one waits.
    const asker = await options.connect();
    try {
      const blocker = await asker.blockerOf(id);
      if (blocker !== undefined) onBlocked(blocker);
    } finally {
      await asker.leave();
    }
  }

  async function run<T>(work: () => Work<T>, runOptions: RunOptions = {}): Promise<T> {
    await options.load();
    for (let tries = 1; ; tries++) {
      if (isClosed) throw storeError('closed', details);
      const trying = attempt(work, runOptions);
      inFlight.add(trying);
      try {
        return await trying;
      } catch (error) {
        if (tries === maxTries || !options.isPassing(error)) throw options.toError(error);
      } finally {
        inFlight.delete(trying);
      }
    }
  }

  return {
    run,
    inClearTo: () => lastInClearTo,
    async close(deadlineMs) {
      isClosed = true;
      const end = async (): Promise<void> => {
        await Promise.allSettled(inFlight);
        await Promise.all(
          idle.splice(0).map(({ connection, timer }) => {
            clearTimeout(timer);
            return connection.leave();
          }),
        );
      };
      await within(deadlineMs, end());
      for (const connection of used) connection.destroy();
    },
  };
}

async function runWork<T>(
  work: Work<T>,
  run: (statement: Statement) => Promise<StatementResult>,
): Promise<T> {
  let step = work.next();
  while (!step.done) {
    let result: StatementResult;
    try {
      result = await run(step.value);
    } catch (error) {
      step = work.throw(error);
      continue;
    }
    step = work.next(result);
  }
  return step.value;
}

/** The holder of a lock, from the columns pid, name, address, state and seconds. All but pid may be null. */
export function blockerText(row: SqlRow | undefined): string | undefined {
  if (row === undefined) return undefined;
  const { pid, name, address, state, seconds } = row;
  const about = [name, address, state].filter((each) => each !== null && each !== undefined && each !== '');
  const since = seconds === null || seconds === undefined ? '' : ` for ${seconds} s`;
  return about.length === 0 ? `process ${pid}` : `process ${pid} (${about.join(', ')}${since})`;
}

function sayBlocked(database: string): (blocker: string) => void {
  const say = throttledLog();
  return (blocker) =>
    say('blocked', `outbox: a statement waits for a lock in ${database}, which ${blocker} holds`);
}
