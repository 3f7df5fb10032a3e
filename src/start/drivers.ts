import { mysql2Drivers } from '../adapters/mysql/mysql2-driver.ts';
import type { OrmPatch } from '../adapters/orms/orm-patch.ts';
import { ormPatches } from '../adapters/orms/orms.ts';
import { pgDriver } from '../adapters/postgres/pg-driver.ts';
import { betterSqlite3Driver } from '../adapters/sqlite/better-sqlite3-driver.ts';
import { nodeSqliteDriver } from '../adapters/sqlite/node-sqlite-driver.ts';
import { prepareSqliteAtOnce } from '../adapters/sqlite/prepare-at-once.ts';
import type { PackagePatch } from '../capture/packages/hooked-package.ts';
import type { Config } from '../config/config.ts';
import { SvcError } from '../ground/errors.ts';
import { runOwnWork } from '../ground/lifecycle.ts';
import type { Logger } from '../observe/logger.ts';
import { createConnections } from '../transaction/connection.ts';
import { type Dialect, dialectOf } from '../transaction/dialect.ts';
import type { Connections, DriverPatch } from '../transaction/driver.ts';

export { createOutboxFunctions } from '../outbox/api/functions.ts';

const drivers: Readonly<Record<Dialect, readonly DriverPatch[]>> = {
  postgres: [pgDriver],
  mysql: mysql2Drivers,
  sqlite: [nodeSqliteDriver, betterSqlite3Driver],
};

/** What follows the transactions of the application. */
export interface Following {
  /** What the hooks change as it is loaded. */
  readonly patches: readonly PackagePatch[];
  readonly connections: Connections;
  /** Follows a driver that no hook has seen. Throws where it is none that is known, or cannot be followed. */
  watch(driver: unknown): void;
}

/** Through the driver of this database, or of all that are known. */
export function followDrivers(dialect: Dialect | undefined, logger: Logger): Following {
  const connections = createConnections(() =>
    logger.error(
      'a transaction was committed before its event was stored, in a way that svc does not see: let the application send COMMIT as a statement of its own',
    ),
  );
  const wanted = dialect === undefined ? Object.values(drivers).flat() : drivers[dialect];
  const ofDrivers = wanted.map(({ specifier, patch }) => ({
    specifier,
    patch(exports: object) {
      // Of an import: what it was made of comes by itself.
      if ('default' in exports) return;
      try {
        patch(exports, connections);
      } catch (error) {
        logger.error(`transactions through ${specifier} cannot be followed: ${reasonOf(error)}`);
      }
    },
  }));
  const others = foreignDrivers.map((one) => foreignPatch(one, dialect, logger));
  return {
    patches: [...ofDrivers, ...others, ...ormPatches.map((orm) => ormPatch(orm, logger))],
    connections,
    watch: (driver) => watchDriver(driver, connections),
  };
}

/** Those that applications use, and that svc cannot follow. */
const foreignDrivers: readonly { readonly specifier: string; readonly dialect: Dialect }[] = [
  { specifier: 'postgres', dialect: 'postgres' },
  { specifier: 'mariadb', dialect: 'mysql' },
];

/** Only says so, where the application loads it. */
function foreignPatch(
  { specifier, dialect }: (typeof foreignDrivers)[number],
  wanted: Dialect | undefined,
  logger: Logger,
): PackagePatch {
  let isSaid = wanted !== undefined && wanted !== dialect;
  return {
    specifier,
    patch() {
      if (!isSaid)
        logger.warn(
          `svc does not follow transactions of the driver ${specifier}: run what makes events for the outbox within outbox.withTransaction(transaction, fn), or open it with outbox.runInTransaction`,
        );
      isSaid = true;
    },
  };
}

/** By what it exports: a bundle has no name for it. */
const marks: readonly (readonly [specifier: string, isIt: (exports: Record<string, never>) => boolean])[] = [
  ['pg', ({ Client, Pool }) => isClass(Client, 'query') && typeof Pool === 'function'],
  ['mysql2', ({ createPool, createConnection }) => [createPool, createConnection].every(isFunction)],
  ['node:sqlite', ({ DatabaseSync }) => isClass(DatabaseSync, 'prepare')],
  ['better-sqlite3', (exports) => isClass(exports, 'prepare') && isClass(exports, 'transaction')],
];

function watchDriver(given: unknown, connections: Connections): void {
  const standard = (given as { default?: unknown } | null | undefined)?.default;
  for (const exports of [given, standard]) {
    if (exports === null || (typeof exports !== 'object' && typeof exports !== 'function')) continue;
    const specifier = marks.find(([, isIt]) => isIt(exports as Record<string, never>))?.[0];
    const driver = Object.values(drivers)
      .flat()
      .find((one) => one.specifier === specifier);
    if (driver === undefined) continue;
    try {
      driver.patch(exports, connections);
    } catch (error) {
      throw notFollowed(`transactions through this ${specifier} cannot be followed: ${reasonOf(error)}`);
    }
    return;
  }
  throw notFollowed(
    'outbox.watch() was given something else than the exports of pg, mysql2, node:sqlite or better-sqlite3: pass what `import pg from "pg"` gives; with other drivers, use outbox.withTransaction(transaction, fn)',
  );
}

function isClass(value: unknown, method: string): boolean {
  const prototype: unknown = isFunction(value) ? value.prototype : undefined;
  return isFunction((prototype as Record<string, unknown> | undefined)?.[method]);
}

function isFunction(value: unknown): value is (...args: never[]) => unknown {
  return typeof value === 'function';
}

function notFollowed(message: string): SvcError {
  return new SvcError('SVC_OUTBOX_DRIVER', message);
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
        if (patched === false) say('its classes are not those that svc knows');
        return patched;
      } catch (error) {
        say(reasonOf(error));
        return false;
      }
    },
  };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error';
}
