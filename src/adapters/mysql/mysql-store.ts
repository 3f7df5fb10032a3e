// mysql/: MySQL and MariaDB: its driver, as the application uses it, and the outbox in it, over svc's own connection.

import type { OutboxStore } from '../../outbox/outbox-store.ts';
import type { StoreFaultDetails } from '../../outbox/store-error.ts';
import { createServerDatabase, partsOfUrl } from '../sql/server-database.ts';
import { createSqlStore, defaultTimeoutMs, type SqlStoreOptions } from '../sql/sql-store.ts';
import { connectMysql, loadMysql } from './mysql-connection.ts';
import { isPassingInMysql, isReadOnlyInMysql, toMysqlError } from './mysql-failure.ts';

/**
 * Through the package `mysql2`, which the application installs; it is loaded at the first call. MySQL 8.0.13 and later, MariaDB
 * 10.6 and later. READ COMMITTED: what is locked is what is changed.
 */
export function createMysqlStore(options: SqlStoreOptions): OutboxStore {
  const { url, table, timeoutMs = defaultTimeoutMs } = options;
  const details: StoreFaultDetails = { dialect: 'mysql', table, database: placeOf(url) };
  return createSqlStore(
    'mysql',
    options,
    details,
    createServerDatabase({
      load: loadMysql,
      connect: () =>
        connectMysql(url, timeoutMs).catch((error: unknown) => {
          throw toMysqlError(error, details, true);
        }),
      timeoutMs,
      toError: (error) => toMysqlError(error, details),
      isPassing: isPassingInMysql,
      isReadOnly: isReadOnlyInMysql,
      details,
      logger: options.logger,
    }),
  );
}

function placeOf(url: string): string {
  const { protocol, host } = partsOfUrl(url, ['mysql:', 'mariadb:'], 'mysql:// or mariadb://');
  return `${protocol === 'mysql:' ? 'MySQL' : 'MariaDB'} at ${host}`;
}
