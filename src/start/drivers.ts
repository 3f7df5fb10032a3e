import { pgDriver } from '../adapters/postgres/pg-driver.ts';
import type { PackagePatch } from '../capture/packages/hooked-package.ts';
import type { Logger } from '../observe/logger.ts';
import { createConnections } from '../transaction/connection.ts';
import type { Dialect } from '../transaction/dialect.ts';
import type { DriverPatch } from '../transaction/driver.ts';

const drivers: Readonly<Record<Dialect, readonly DriverPatch[]>> = {
  postgres: [pgDriver],
  mysql: [],
  sqlite: [],
};

/** Follows the transactions of the application through its driver: of this database, or of all that are known. */
export function driverPatches(dialect: Dialect | undefined, logger: Logger): readonly PackagePatch[] {
  const connections = createConnections(() =>
    logger.error(
      'a transaction was committed before its event was stored, in a way that svc does not see: name a function that commits with COMMIT, or use outbox.save',
    ),
  );
  const wanted = dialect === undefined ? Object.values(drivers).flat() : drivers[dialect];
  return wanted.map(({ specifier, patch }) => ({
    specifier,
    patch(exports) {
      try {
        patch(exports, connections);
      } catch (error) {
        const reason = error instanceof Error ? error.message : 'unknown error';
        logger.error(`transactions through ${specifier} cannot be followed: ${reason}`);
      }
    },
  }));
}
