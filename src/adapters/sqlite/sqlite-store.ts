// sqlite/: SQLite: a patch of the application's driver, and the outbox over svc's own connection.

import { existsSync } from 'node:fs';
import { backoffMs, within } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type { OutboxStore } from '../../outbox/outbox-store.ts';
import {
  packageMissing,
  type StoreFault,
  type StoreFaultDetails,
  storeError,
} from '../../outbox/store-error.ts';
import {
  createSqlStore,
  defaultTimeoutMs,
  type SqlDatabase,
  type SqlStoreOptions,
} from '../sql/sql-store.ts';
import { runWorkAtOnce, type Work } from '../sql/statement.ts';
import { type SqliteDriver, type SqliteHandle, sqliteFile } from './sqlite-driver.ts';

type SqliteFile = ReturnType<typeof sqliteFile>;

/** Between two tries while another connection has the file: the first and the longest wait. */
const firstWaitMs = 2;
const longestWaitMs = 50;

/**
 * Uses the application's driver. Before it has loaded one, svc uses `better-sqlite3` if it is installed, else `node:sqlite`. Each
 * transaction is synchronous, so that the application cannot interfere. While another connection holds the lock, svc waits on a
 * timer. A wait in SQLite would block the thread in which the application is about to release the lock.
 *
 * @param load another driver
 */
export function createSqliteStore(options: SqlStoreOptions, load?: SqliteFile['load']): OutboxStore {
  const file = sqliteFile(options.url, load);
  const details: StoreFaultDetails = {
    dialect: 'sqlite',
    table: options.table,
    database: `SQLite in ${file.path}`,
  };
  return createSqlStore('sqlite', options, details, openLater(file, options, details));
}

function openLater(
  file: SqliteFile,
  { initializeSchema, timeoutMs = defaultTimeoutMs }: SqlStoreOptions,
  details: StoreFaultDetails,
): SqlDatabase {
  let driver: Promise<SqliteDriver> | undefined;
  let open: { readonly by: SqliteDriver; readonly handle: SqliteHandle } | undefined;
  let isClosed = false;
  const inFlight = new Set<Promise<unknown>>();
  // Synchronous, because the application is about to use the file.
  const stopListening = file.onOtherDriver(() => {
    if (open === undefined) return;
    const isTheirs = (file.usedDriver() ?? open.by) === open.by;
    if (!isTheirs || file.foreign() !== undefined) closeHandle();
  });

  function closeHandle(): void {
    const last = open?.handle;
    open = undefined;
    try {
      last?.close();
    } catch {
      // Its state no longer matters.
    }
  }

  function opened(made: SqliteDriver): SqliteHandle {
    if (open !== undefined) return open.handle;
    const beside = file.foreign();
    if (beside !== undefined) throw storeError('otherCopy', { ...details, code: beside });
    // Opening would create an empty file.
    if (initializeSchema === 'never' && !existsSync(file.path)) throw storeError('tableMissing', details);
    const by = file.usedDriver() ?? made;
    const handle = by.open(file.path);
    try {
      handle.exec('PRAGMA busy_timeout = 0');
      handle.exec('PRAGMA journal_mode = WAL');
      // NORMAL may lose the last commits in a power failure, and their events.
      handle.exec('PRAGMA synchronous = FULL');
    } catch (error) {
      handle.close();
      throw error;
    }
    open = { by, handle };
    return handle;
  }

  /** Without an `await`: see above. */
  function transact<T>(made: SqliteDriver, work: Work<T>): T {
    const database = opened(made);
    database.exec('BEGIN IMMEDIATE');
    try {
      const result = runWorkAtOnce(work, (statement) => database.run(statement));
      database.exec('COMMIT');
      return result;
    } catch (error) {
      rollBack(database);
      throw error;
    }
  }

  function rollBack(database: SqliteHandle): void {
    try {
      database.exec('ROLLBACK');
    } catch {
      // SQLite has already rolled back, or the handle is unusable. The next call opens another.
      closeHandle();
    }
  }

  async function attempt<T>(work: () => T, limitMs: number): Promise<T> {
    const untilMs = performance.now() + limitMs;
    for (let tries = 1; ; tries++) {
      const waitMs = backoffMs(tries, firstWaitMs, longestWaitMs);
      if (isClosed) throw storeError('closed', details);
      try {
        return work();
      } catch (error) {
        if (!isBusy(error) || performance.now() + waitMs > untilMs) throw toSqliteError(error, details);
      }
      await new Promise<void>((resolve) => void setTimeout(resolve, waitMs * (0.5 + Math.random())).unref());
    }
  }

  return {
    async run(work, { as = 'transaction', limitMs = timeoutMs } = {}) {
      driver ??= Promise.resolve().then(file.load);
      const made = await driver.catch((error: unknown) => {
        driver = undefined;
        throw packageMissing('better-sqlite3', error as NodeJS.ErrnoException);
      });
      const trying = attempt(
        () =>
          as === 'transaction'
            ? transact(made, work())
            : runWorkAtOnce(work(), (one) => opened(made).run(one)),
        limitMs,
      );
      inFlight.add(trying);
      try {
        return await trying;
      } finally {
        inFlight.delete(trying);
      }
    },
    async close(deadlineMs) {
      await within(deadlineMs, Promise.allSettled(inFlight));
      isClosed = true;
      stopListening();
      closeHandle();
    },
  };
}

interface SqliteError {
  /** `better-sqlite3`: the name of the extended result code. */
  readonly code?: unknown;
  /** `node:sqlite`: its number. */
  readonly errcode?: unknown;
  readonly message?: unknown;
}

/** Primary result codes, as in sqlite.org/rescode.html. */
const names: Readonly<Record<number, string>> = {
  1: 'SQLITE_ERROR',
  3: 'SQLITE_PERM',
  5: 'SQLITE_BUSY',
  6: 'SQLITE_LOCKED',
  8: 'SQLITE_READONLY',
  10: 'SQLITE_IOERR',
  11: 'SQLITE_CORRUPT',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  15: 'SQLITE_PROTOCOL',
  23: 'SQLITE_AUTH',
  26: 'SQLITE_NOTADB',
};

function toSqliteError(error: unknown, details: StoreFaultDetails): SvcError {
  if (error instanceof SvcError) return error;
  const code = nameOf(error as SqliteError);
  return storeError(faultOf(code, String((error as SqliteError).message)), { ...details, code });
}

/** Another connection has the file. */
function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED|PROTOCOL)/.test(nameOf((error ?? {}) as SqliteError) ?? '');
}

function nameOf({ code, errcode }: SqliteError): string | undefined {
  if (typeof errcode === 'number') return names[errcode & 0xff] ?? `SQLITE_${errcode}`;
  return typeof code === 'string' ? code : undefined;
}

function faultOf(code: string | undefined, message: string): StoreFault {
  // The code only reports a bad statement. The message says why.
  if (code === 'SQLITE_ERROR') {
    if (/^(no such table|unknown database)\b/.test(message)) return 'tableMissing';
    if (/\bno such column\b|\bhas no column\b|^(cannot modify|table .* already exists)/.test(message))
      return 'otherTable';
    return 'statement';
  }
  // A file does not become writable by itself.
  if (/^SQLITE_(READONLY|PERM|AUTH)/.test(code ?? '')) return 'notAllowed';
  if (/^SQLITE_(BUSY|LOCKED)/.test(code ?? '')) return 'late';
  if (/^SQLITE_(CANTOPEN|IOERR|NOTADB|CORRUPT|PROTOCOL)/.test(code ?? '')) return 'unreachable';
  return code === undefined || code.startsWith('ERR_') ? 'unreachable' : 'statement';
}
