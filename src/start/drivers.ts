import { isMainThread } from 'node:worker_threads';
import { mysql2Drivers } from '../adapters/mysql/mysql2-driver.ts';
import { ormPatches } from '../adapters/orms/orms.ts';
import { pgDriver } from '../adapters/postgres/pg-driver.ts';
import { sqliteDrivers } from '../adapters/sqlite/sqlite-driver.ts';
import type { PackagePatch } from '../capture/packages/hook.ts';
import type { Config } from '../config/config.ts';
import { isOwnWork, runOwnWork, shared } from '../ground/lifecycle.ts';
import { logger } from '../observe/logger.ts';
import { watchDriver } from '../outbox/api/functions.ts';
import { createConnections } from '../transaction/connection.ts';
import {
  type Connections,
  type Dialect,
  type DriverPatch,
  dialectOf,
  foreignDrivers,
  foreignText,
} from '../transaction/driver.ts';

export { createOutboxFunctions } from '../outbox/api/functions.ts';

const drivers: Readonly<Record<Dialect, readonly DriverPatch[]>> = {
  postgres: [pgDriver],
  mysql: mysql2Drivers,
  sqlite: [sqliteDrivers.nodeSqlite, sqliteDrivers.betterSqlite3],
};
const all = Object.values(drivers).flat();

/** The packages of all drivers and ORMs that svc patches as Node loads them. */
export function followedSpecifiers(): string[] {
  return [...all, ...ormPatches].map(({ specifier }) => specifier);
}

/** A driver is patched once in a process: the state is shared with later starts of svc. */
const followed = shared('followed', () => {
  const state: { isFollowing: boolean; readonly connections: Connections } = {
    isFollowing: false,
    connections: createConnections(
      () =>
        logger.error(
          'a transaction was committed before its event was stored, in a way that svc cannot see. Send COMMIT as a separate statement',
        ),
      (error) => sayOnce(`transactions on a connection cannot be followed: ${reasonOf(error)}`),
    ),
  };
  return state;
});

/**
 * Follows the transactions of the application: of the driver of its outbox, or of all known drivers. In the main thread it also
 * makes the tables of an embedded outbox.
 */
export function followDrivers(outbox: Config['outbox']) {
  if (outbox.enabled && isMainThread) prepareEmbedded(outbox);
  const dialect = outbox.enabled ? dialectOf(outbox.datasource.url ?? '') : undefined;
  const { connections } = followed;
  const wanted = dialect === undefined ? all : drivers[dialect];
  const foreign = new Set<string>();
  const ofDrivers = wanted.map(({ specifier, patch }) => ({
    specifier,
    patch(exports: object) {
      // An import's namespace. The CommonJS exports behind it are patched separately.
      if ('default' in exports) return;
      try {
        patch(exports, connections);
        // A driver that svc loads for its own work does not count.
        if (!isOwnWork()) followed.isFollowing = true;
      } catch (error) {
        sayOnce(`transactions through ${specifier} cannot be followed: ${reasonOf(error)}`);
        bindCallbacks(specifier, exports);
      }
    },
  }));
  const others = foreignDrivers
    .filter((one) => dialect === undefined || one.dialect === dialect)
    .map((driver) => foreignPatch(driver, foreign));
  return {
    /** Applied as the packages are loaded. */
    patches: [...ofDrivers, ...others, ...ormPatches.map((orm) => ormPatch(orm))],
    connections,
    /** Follows a driver that no hook has seen. Throws if the driver is unknown or cannot be followed. */
    watch(driver: unknown): void {
      watchDriver(driver, all, connections);
      followed.isFollowing = true;
    },
    /** A line for each loaded driver that svc does not follow, or one line if svc follows no driver yet. */
    remarks(): readonly string[] {
      const lines = [...foreign].map((specifier) => `outbox: ${inUse(specifier)}`);
      return lines.length === 0 && !followed.isFollowing ? [noneFollowed(wanted)] : lines;
    },
  };
}

/**
 * Binds callbacks of a driver that svc does not follow to their callers. Otherwise an event made in a callback would name
 * the user whose request opened the connection. Never throws.
 */
export function bindCallbacks(specifier: string, exports: object): void {
  // As in `followDrivers`.
  if ('default' in exports) return;
  try {
    all.find((driver) => driver.specifier === specifier)?.bindCallbacks?.(exports);
  } catch (error) {
    sayOnce(
      `callbacks of ${specifier} are not bound to their callers (${reasonOf(error)}). Their events may name another user: bind the callbacks with AsyncResource.bind, or use promises`,
    );
  }
}

/** Warns when the application loads it. */
function foreignPatch(
  { specifier, dialect }: (typeof foreignDrivers)[number],
  foreign: Set<string>,
): PackagePatch {
  return {
    specifier,
    patch() {
      if (!foreign.has(specifier)) logger.warn(foreignText(specifier));
      foreign.add(specifier);
      if (dialect === 'sqlite') sqliteDrivers.foreignIsLoaded(specifier);
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

/** Makes the tables of an embedded database before the application's first tick. */
function prepareEmbedded({ datasource, table, initializeSchema }: Config['outbox']): void {
  if (initializeSchema === 'never' || dialectOf(datasource.url ?? '') !== 'sqlite') return;
  try {
    runOwnWork(() => sqliteDrivers.prepareAtOnce(datasource.url ?? '', table));
  } catch {
    // The store reports it when it is prepared.
  }
}

/**
 * Patches an ORM. Without the patch, svc still finds transactions, but not a call that runs beside others and sends no statement itself.
 */
function ormPatch({ specifier, patch }: (typeof ormPatches)[number]): PackagePatch {
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

/** One line for all connections and copies of a driver. */
function sayOnce(line: string): void {
  if (said.has(line)) return;
  said.add(line);
  logger.error(line);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error';
}
