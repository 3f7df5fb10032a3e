// mysql/: MySQL and MariaDB: its driver, as the application uses it, and the outbox in it, over svc's own connection.

import type { OutboxStore } from '../../outbox/outbox-store.ts';
import { badUrl, type StoreFaultDetails, storeError } from '../../outbox/store-error.ts';
import { sayBlocked } from '../sql/blocker.ts';
import { createServerDatabase } from '../sql/server-database.ts';
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
      late: () => storeError('late', details),
      onBlocked: sayBlocked(details.database, options.logger),
      closed: () => storeError('closed', details),
    }),
  );
}

function placeOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !/^(mysql|mariadb):$/.test(parsed.protocol))
    throw badUrl(
      'it must begin with mysql:// or mariadb:// and have special characters of the password percent-encoded',
    );
  return `${parsed.protocol === 'mysql:' ? 'MySQL' : 'MariaDB'} at ${parsed.host}`;
}
