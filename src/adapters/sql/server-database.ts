import { isLoopback } from '../../ground/addresses.ts';
import { inTime, within } from '../../ground/clock.ts';
import type { SvcError } from '../../ground/errors.ts';
import { loadOwnCopy } from '../../ground/files.ts';
import type { Logger } from '../../observe/logger.ts';
import { badUrl, packageMissing, type StoreFaultDetails, storeError } from '../../outbox/store-error.ts';
import { sayBlocked } from './database-traits.ts';
import type { RunOptions, SqlDatabase } from './sql-store.ts';
import { runWork, type Statement, type StatementResult, type Work } from './statement.ts';

/** A connection to a server. It holds no process. */
export interface ServerConnection {
  /** Rejects with what the driver rejects with. */
  run(statement: Statement): Promise<StatementResult>;
  /**
   * Opens a transaction in which no statement takes longer than `limitMs`, nor waits that long for a lock, and which the server
   * ends by itself where nothing more comes: whoever stands still in it must not hold up others.
   */
  begin(limitMs: number): Promise<void>;
  end(verb: 'COMMIT' | 'ROLLBACK'): Promise<void>;
  /** The address of a server on another machine, if the connection is not encrypted. */
  readonly inClearTo?: string | undefined;
  /** What the server calls it. */
  readonly id: number | undefined;
  /** Who holds the lock that the connection of this id waits for; `undefined`: nobody, or one may not know. */
  blockerOf(id: number): Promise<string | undefined>;
  /** Whether it can be used no longer. */
  isLost(): boolean;
  /** With a goodbye to the server. Never rejects. */
  leave(): Promise<void>;
  /** At once; what is under way is given up, by the server as well as it can be done. */
  destroy(): void;
}

export interface ServerDatabaseOptions {
  /** Loads the driver: no part of the time-out, as no server is waited for. */
  readonly load: () => unknown;
  /** Gives up by itself after the same time-out. */
  readonly connect: () => Promise<ServerConnection>;
  readonly timeoutMs: number;
  readonly toError: (error: unknown) => SvcError;
  /** A deadlock and the like: all is rolled back, and may be done once more. */
  readonly isPassing: (error: unknown) => boolean;
  /** It takes no writes, as one that another has taken over from: a new connection may lead to that. */
  readonly isReadOnly: (error: unknown) => boolean;
  readonly details: StoreFaultDetails;
  /** Hears of a statement that has waited for long, and for whom. */
  readonly logger: Logger | undefined;
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
  /** A socket in the file system has none. */
  readonly remoteAddress?: string | undefined;
}

/** A driver that the application has installed, as a copy of its own. */
export function loadDriver<T>(packageName: string): T {
  try {
    return loadOwnCopy(packageName) as T;
  } catch (error) {
    throw packageMissing(packageName, error as NodeJS.ErrnoException);
  }
}

/** What a URL says of the server; `what` it has to be, where it is none of `protocols`. */
export function partsOfUrl(url: string, protocols: readonly string[], what: string): URL {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed !== undefined && protocols.includes(parsed.protocol)) return parsed;
  throw badUrl(`it must begin with ${what} and have special characters of the password percent-encoded`);
}

/** One for what is sent, and one for what is sent meanwhile: processes are many, and a server has few. */
const mostConnections = 2;
const idleMs = 12_000;
/** MySQL ends what is idle for longer, in a transaction or not: later than svc itself does. */
export const serverIdleSeconds = 15;
/** A transaction in which the server hears nothing for so long is rolled back; svc sends one statement right after the other. */
export const idleInTransactionMs = 5_000;
/** Of its time-out, a statement has so much until it is asked who holds it up. */
const askAfter = 0.6;
const mostTries = 4;

/** A few connections, opened when they are needed and again after a failure. */
export function createServerDatabase(options: ServerDatabaseOptions): SqlDatabase {
  const { timeoutMs, details } = options;
  const onBlocked = sayBlocked(details.database, options.logger);
  /** The one that was used last is on top: the other one becomes idle. */
  const idle: { readonly connection: ServerConnection; readonly timer: NodeJS.Timeout }[] = [];
  const waiting: (() => void)[] = [];
  const inFlight = new Set<Promise<unknown>>();
  const used = new Set<ServerConnection>();
  let places = mostConnections;
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
      // What cannot be rolled back ends with its connection.
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
      const isAlone = idle.length === 0 && places === mostConnections;
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
    // Another one: this waits.
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
        if (tries === mostTries || !options.isPassing(error)) throw options.toError(error);
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
