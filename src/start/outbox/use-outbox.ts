import type { Config } from '../../config/config.ts';
import { backoffMs, inTime, systemClock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import { loadOwnCopy } from '../../ground/files.ts';
import type { Logger } from '../../observe/logger.ts';
import { isolate } from '../../observe/otel-api.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import { reasonOf } from '../../outbox/relay/signal.ts';
import type { ReplayRequest, ReplayResult } from '../../outbox/replay.ts';
import { isPassing, packageMissing } from '../../outbox/store-error.ts';
import type { Dialect } from '../../transaction/driver.ts';
import { openBroker, openOutboxStore } from '../adapters.ts';
import { openSerde } from '../serde.ts';
import { brokerSettingsOf } from '../settings.ts';
import { openReplay } from './outbox-health.ts';
import type { SenderWatch } from './senders.ts';

/** A command may take longer than a relay, which others wait for: it counts large tables, and locks can hold it up. */
const timeoutMs = 30_000;
const closeMs = 5_000;
const holdMs = 60_000;

interface UseOptions {
  /** Makes and updates the tables, where `prepare` is called. Default: it only looks at them. */
  readonly makesTables?: boolean;
  /** With a partition for each day, where it makes them. */
  readonly partitioned?: boolean;
}

/** Opens the outbox of a configuration for one command. Rejects with one-line errors, and as `work` does. */
export async function useOutbox<T>(
  { outbox: { datasource, table } }: Config,
  logger: Logger,
  work: (store: OutboxStore) => Promise<T>,
  { makesTables = false, partitioned = false }: UseOptions = {},
): Promise<T> {
  // Nothing else does: a connection must not keep an application alive.
  const hold = setInterval(() => {}, holdMs);
  const initializeSchema = makesTables ? 'always' : 'never';
  const store = openOutboxStore({
    ...{ url: datasource.url ?? '', table, initializeSchema, logger, timeoutMs, partitioned },
  });
  try {
    return await isolate(() => work(store));
  } finally {
    await store.close(closeMs);
    clearInterval(hold);
  }
}

interface RunningReplay {
  readonly result: Promise<ReplayResult>;
  /** Ends it after the batch under way. */
  stop(): void;
}

/** Sends rows again, from the command line. */
export function replayOutbox(
  config: Config,
  logger: Logger,
  request: ReplayRequest,
  onProgress: (sentCount: number, failedCount: number) => void,
): RunningReplay {
  const stopping = new AbortController();
  const result = useOutbox(config, logger, async (store) => {
    const broker = openSerde(config, logger).sends(
      openBroker(config.broker.client, brokerSettingsOf(config, logger)),
    );
    try {
      const replay = await openReplay(config, store, broker, onProgress);
      if (stopping.signal.aborted) replay.stop();
      stopping.signal.addEventListener('abort', replay.stop);
      return await replay.run(request);
    } finally {
      await broker.close(closeMs);
    }
  });
  return { result, stop: () => stopping.abort() };
}

interface PgModule {
  readonly Client: new (
    options: object,
  ) => {
    connect(): Promise<unknown>;
    end(): Promise<void>;
    on(event: 'error', listener: () => void): void;
  };
}

interface MysqlModule {
  createConnection(options: object): { connect(done: (error: unknown) => void): void; destroy(): void };
}

interface SqliteModule {
  readonly DatabaseSync: new (path: string, options: object) => { close(): void };
}

const timeoutMsOfUseConnection = 10_000;

/** One connection of the application's driver, for one command. Rejects with one-line errors of svc, and as `work` does. */
export async function useConnection(
  url: string,
  dialect: Dialect,
  work: (connection: object) => Promise<void>,
): Promise<void> {
  const { connection, connected, end } = open(url, dialect);
  try {
    await connected().catch((error: { code?: unknown }) => {
      throw new SvcError(
        'SVC_OUTBOX_UNREACHABLE',
        `the database cannot be reached${typeof error?.code === 'string' ? ` (${error.code})` : ''}: check its URL, and that it runs`,
      );
    });
    await work(connection);
  } finally {
    await end();
  }
}

interface Opened {
  readonly connection: object;
  connected(): Promise<unknown>;
  end(): unknown;
}

function open(url: string, dialect: Dialect): Opened {
  if (dialect === 'postgres') {
    const { Client } = load<PgModule>('pg');
    const client = new Client({ connectionString: url, connectionTimeoutMillis: timeoutMsOfUseConnection });
    client.on('error', () => {});
    return { connection: client, connected: () => client.connect(), end: () => client.end().catch(() => {}) };
  }
  if (dialect === 'mysql') {
    const { createConnection } = load<MysqlModule>('mysql2');
    const connection = createConnection({
      ...{ uri: url.replace(/^mariadb:/, 'mysql:'), connectTimeout: timeoutMsOfUseConnection },
    });
    const connected = (): Promise<unknown> =>
      new Promise((resolve, reject) =>
        connection.connect((error) => (error ? reject(error) : resolve(null))),
      );
    return { connection, connected, end: () => connection.destroy() };
  }
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite') as unknown as SqliteModule;
  const handle = new DatabaseSync(url.replace(/^sqlite:(?:\/\/(?=\/))?/, ''), {
    timeout: timeoutMsOfUseConnection,
  });
  return { connection: handle, connected: async () => {}, end: () => handle.close() };
}

function load<T>(name: string): T {
  try {
    return loadOwnCopy(name) as T;
  } catch (error) {
    throw packageMissing(name, error as NodeJS.ErrnoException);
  }
}

export interface ForeignDriver {
  readonly specifier: string;
  readonly dialect: Dialect;
}

/** Drivers that applications use, and that svc cannot follow. */
export const foreignDrivers: readonly ForeignDriver[] = [
  { specifier: 'postgres', dialect: 'postgres' },
  { specifier: 'mariadb', dialect: 'mysql' },
  { specifier: 'sqlite3', dialect: 'sqlite' },
  { specifier: 'libsql', dialect: 'sqlite' },
];

export function foreignText(specifier: string): string {
  return `svc does not follow transactions of the driver ${specifier}: run what makes events for the outbox within outbox.withTransaction(transaction, fn), or open it with outbox.runInTransaction`;
}

const firstPauseMs = 1_000;
const longestPauseMs = 30_000;

interface PrepareOptions {
  readonly store: Pick<OutboxStore, 'prepare'>;
  /** Looks whether the tables fit the settings, once they are there. */
  readonly senders: Pick<SenderWatch, 'look' | 'refusal'>;
  /** This process makes the tables where there are none. */
  readonly makesTables: boolean;
  /** The longest that an event waits for them. */
  readonly maxWaitMs: number;
  readonly logger: Logger;
}

/** The tables of an outbox, looked at or made. */
interface StorePreparation {
  /** Resolves when that was tried once, whatever came of it. */
  readonly tried: Promise<void>;
  /**
   * Before a row is written. `undefined`: it may be. Else it is to wait, `maxWaitMs` at most: for the first look at the tables, or until
   * they are made. Throws, or rejects, where the event would be lost.
   */
  ready(): Promise<void> | undefined;
  /** False while tables that this process makes are not there. */
  isReady(): boolean;
  /** It is not tried again. */
  stop(): void;
}

/**
 * A database that is away, or takes no writes yet, is asked again until it is otherwise: its tables may have to be made. What else is
 * wrong is said once.
 */
export function prepareStore(options: PrepareOptions): StorePreparation {
  const { store, senders, makesTables, maxWaitMs, logger } = options;
  let failures = 0;
  let failedAtMs = 0;
  let isPrepared = false;
  let isGivenUp = false;
  let underWay: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  async function attempt(): Promise<void> {
    try {
      await store.prepare();
    } catch (error) {
      if (isGivenUp) return;
      failedAtMs = systemClock.monotonic();
      if (failures++ === 0) logger.error(`outbox: ${reasonOf(error)}`);
      isGivenUp = !isPassing(error);
      if (!isGivenUp) timer = setTimeout(begin, backoffMs(failures, firstPauseMs, longestPauseMs)).unref();
      return;
    }
    if (!isGivenUp) await senders.look();
    isPrepared = true;
  }

  function begin(): Promise<void> {
    clearTimeout(timer);
    underWay = isolate(attempt).finally(() => {
      underWay = undefined;
    });
    return underWay;
  }

  function refuse(): void {
    const refusal = senders.refusal();
    if (refusal !== undefined) throw new SvcError(refusal.code, refusal.message);
  }

  const tried = begin();
  return {
    tried,
    ready() {
      refuse();
      if (isPrepared || isGivenUp) return undefined;
      if (failures > 0 && !makesTables) return undefined;
      // An application that has come so far has a database that answers: the rest of a long pause is not waited for.
      const isPause = underWay === undefined && systemClock.monotonic() - failedAtMs < firstPauseMs;
      if (isPause) return undefined;
      const looked = (underWay ?? begin()).then(refuse);
      return inTime(looked, { limitMs: maxWaitMs, keepsAlive: false, late: () => undefined });
    },
    isReady: () => isPrepared || !makesTables,
    stop() {
      isGivenUp = true;
      clearTimeout(timer);
    },
  };
}
