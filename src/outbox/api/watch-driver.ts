import { SvcError } from '../../ground/errors.ts';
import type { Connections, DriverPatch } from '../../transaction/driver.ts';
import { can, isShape, type Shape } from './shape.ts';

/** By what it exports: in a bundle it has no name. */
const marks: Readonly<Record<string, (exports: Shape) => boolean>> = {
  pg: ({ Client, Pool }) => hasMethod(Client, 'query') && hasMethod(Pool, 'connect'),
  mysql2: (exports) => can(exports, 'createPool', 'createConnection', 'createPoolCluster'),
  'node:sqlite': ({ DatabaseSync }) => hasMethod(DatabaseSync, 'prepare'),
  'better-sqlite3': (exports) => hasMethod(exports, 'prepare') && hasMethod(exports, 'transaction'),
};

/**
 * Follows a driver that no hook has seen, as if it had been loaded by its name.
 *
 * @throws SvcError `SVC_OUTBOX_DRIVER`
 */
export function watchDriver(given: unknown, drivers: readonly DriverPatch[], connections: Connections): void {
  const standard = isShape(given) ? given.default : undefined;
  for (const exports of [standard, given]) {
    const found = drivers.find(({ specifier }) => isShape(exports) && marks[specifier]?.(exports) === true);
    if (found === undefined) continue;
    try {
      found.patch(exports, connections);
      return;
    } catch (error) {
      const reason = error instanceof Error ? error.message : 'unknown error';
      throw notFollowed(`transactions through this ${found.specifier} cannot be followed: ${reason}`);
    }
  }
  throw notFollowed(
    "outbox.watch() was given something else than the exports of pg, mysql2, node:sqlite or better-sqlite3: pass what import pg from 'pg' gives; with other drivers, use outbox.withTransaction(transaction, fn)",
  );
}

function hasMethod(type: unknown, method: string): boolean {
  return typeof type === 'function' && can(type.prototype, method);
}

function notFollowed(message: string): SvcError {
  return new SvcError('SVC_OUTBOX_DRIVER', message);
}
