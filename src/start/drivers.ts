import { mysql2Drivers } from '../adapters/mysql/mysql2-driver.ts';
import { type OrmPatch, ormPatches } from '../adapters/orms/orms.ts';
import { pgDriver } from '../adapters/postgres/pg-driver.ts';
import {
  betterSqlite3Driver,
  foreignSqliteIsLoaded,
  nodeSqliteDriver,
  prepareSqliteAtOnce,
} from '../adapters/sqlite/sqlite-driver.ts';
import type { PackagePatch } from '../capture/packages/hook.ts';
import type { Config } from '../config/config.ts';
import { isOwnWork, runOwnWork, shared } from '../ground/lifecycle.ts';
import type { Logger } from '../observe/logger.ts';
import { watchDriver } from '../outbox/api/functions.ts';
import { createConnections } from '../transaction/connection.ts';
import { type Connections, type Dialect, type DriverPatch, dialectOf } from '../transaction/driver.ts';
import { type ForeignDriver, foreignDrivers, foreignText } from './outbox/outbox-health.ts';

export { createOutboxFunctions } from '../outbox/api/functions.ts';

const drivers: Readonly<Record<Dialect, readonly DriverPatch[]>> = {
  postgres: [pgDriver],
  mysql: mysql2Drivers,
  sqlite: [nodeSqliteDriver, betterSqlite3Driver],
};
const all = Object.values(drivers).flat();

/** Of all drivers and ORMs whose transactions svc follows: it sees them where Node loads them. */
export function followedSpecifiers(): string[] {
  return [...all, ...ormPatches].map(({ specifier }) => specifier);
}

/** What follows the transactions of the application. */
export interface Following {
  /** What the hooks change as it is loaded. */
  readonly patches: readonly PackagePatch[];
  readonly connections: Connections;
  /** Follows a driver that no hook has seen. Throws where it is none that is known, or cannot be followed. */
  watch(driver: unknown): void;
  /** A line for each loaded driver that is not followed, or that there is none that is. */
  remarks(): readonly string[];
}

/** A driver is patched once: what it tells its first start of svc, it tells the later ones. */
const followed = shared('followed', () => {
  const state: { logger: Logger | undefined; isFollowing: boolean; readonly connections: Connections } = {
    logger: undefined,
    isFollowing: false,
    connections: createConnections(
      () =>
        state.logger?.error(
          'a transaction was committed before its event was stored, in a way that svc cannot see. Send COMMIT as a separate statement',
        ),
      (error) => sayOnce(state.logger, `transactions on a connection cannot be followed: ${reasonOf(error)}`),
    ),
  };
  return state;
});

/** Through the driver of this database, or of all that are known. */
export function followDrivers(dialect: Dialect | undefined, logger: Logger): Following {
  const { connections } = followed;
  followed.logger = logger;
  const wanted = dialect === undefined ? all : drivers[dialect];
  const foreign = new Set<string>();
  const ofDrivers = wanted.map(({ specifier, patch }) => ({
    specifier,
    patch(exports: object) {
      // Of an import: what it was made of comes by itself.
      if ('default' in exports) return;
      try {
        patch(exports, connections);
        // svc loads one for itself, too, wherever that of the application is.
        if (!isOwnWork()) followed.isFollowing = true;
      } catch (error) {
        sayOnce(logger, `transactions through ${specifier} cannot be followed: ${reasonOf(error)}`);
        bindCallbacks(specifier, exports, logger);
      }
    },
  }));
  const others = foreignDrivers
    .filter((one) => dialect === undefined || one.dialect === dialect)
    .map((driver) => foreignPatch(driver, foreign, logger));
  return {
    patches: [...ofDrivers, ...others, ...ormPatches.map((orm) => ormPatch(orm, logger))],
    connections,
    watch(driver) {
      watchDriver(driver, all, connections);
      followed.isFollowing = true;
    },
    remarks() {
      const lines = [...foreign].map((specifier) => `outbox: ${inUse(specifier)}`);
      return lines.length === 0 && !followed.isFollowing ? [noneFollowed(wanted)] : lines;
    },
  };
}

/**
 * Lets a driver call back in the context of whoever called it, where svc follows no transactions through it: else an event of a callback
 * would name the user whose request has opened the connection. Never throws.
 */
export function bindCallbacks(specifier: string, exports: object, logger: Logger): void {
  // Of an import: what it was made of comes by itself.
  if ('default' in exports) return;
  try {
    all.find((driver) => driver.specifier === specifier)?.bindCallbacks?.(exports);
  } catch (error) {
    sayOnce(
      logger,
      `callbacks of ${specifier} are not bound to their callers (${reasonOf(error)}). Their events may name another user: bind the callbacks with AsyncResource.bind, or use promises`,
    );
  }
}

/** Only says so, where the application loads it. */
function foreignPatch(
  { specifier, dialect }: ForeignDriver,
  foreign: Set<string>,
  logger: Logger,
): PackagePatch {
  return {
    specifier,
    patch() {
      if (!foreign.has(specifier)) logger.warn(foreignText(specifier));
      foreign.add(specifier);
      if (dialect === 'sqlite') foreignSqliteIsLoaded(specifier);
    },
  };
}

function inUse(specifier: string): string {
  return `the driver ${specifier} is in use, but svc does not follow its transactions: call functions with events inside outbox.withTransaction(transaction, fn) or outbox.runInTransaction`;
}

function noneFollowed(wanted: readonly DriverPatch[]): string {
  const names = [...new Set(wanted.map(({ specifier }) => specifier.split('/', 1)[0]))].join(' or ');
  return `outbox: svc follows no driver yet, because the application has not loaded a known one (${names}). If the driver is in a bundle, pass it to outbox.watch at the start. For other drivers, call functions with events inside outbox.withTransaction(transaction, fn)`;
}

/**
 * The tables of an embedded database are there before the application's first turn. What is wrong with them the store tells
 * when it is prepared.
 */
export function prepareEmbedded({ datasource, table, initializeSchema }: Config['outbox']): void {
  if (initializeSchema === 'never' || dialectOf(datasource.url ?? '') !== 'sqlite') return;
  try {
    runOwnWork(() => prepareSqliteAtOnce(datasource.url ?? '', table));
  } catch {
    // Said by the store.
  }
}

/** Without it a function is still found in its transaction, one aside that sends nothing itself while several run side by side. */
function ormPatch({ specifier, patch }: OrmPatch, logger: Logger): PackagePatch {
  const say = (reason: string): void =>
    logger.debug(`transactions of ${specifier} are followed through the driver only: ${reason}`);
  return {
    specifier,
    patch(exports) {
      try {
        const patched = patch(exports);
        if (patched === false) say('svc does not know its classes');
        return patched;
      } catch (error) {
        say(reasonOf(error));
        return false;
      }
    },
  };
}

const said = new Set<string>();

/** Each connection of a driver is like the others, and each copy of it. */
function sayOnce(logger: Logger | undefined, line: string): void {
  if (said.has(line)) return;
  said.add(line);
  logger?.error(line);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error';
}
