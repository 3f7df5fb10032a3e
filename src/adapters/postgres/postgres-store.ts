// postgres/: PostgreSQL: its driver, as the application uses it, and the outbox in it, over svc's own connection.

import type { OutboxStore } from '../../outbox/outbox-store.ts';
import type { StoreFaultDetails } from '../../outbox/store-error.ts';
import { createServerDatabase, partsOfUrl } from '../sql/server-database.ts';
import { createSqlStore, defaultTimeoutMs, type SqlStoreOptions } from '../sql/sql-store.ts';
import { connectPostgres, loadPg } from './postgres-connection.ts';
import { isPassingInPostgres, isReadOnlyInPostgres, toPostgresError } from './postgres-failure.ts';
import { postgresNotices } from './postgres-notices.ts';

/**
 * Through the package `pg`, which the application installs; it is loaded at the first call. PostgreSQL 13 and later. No named
 * statements and no settings of the session: PgBouncer in transaction mode may stand in between.
 */
export function createPostgresStore(options: SqlStoreOptions): OutboxStore {
  const { url, table, timeoutMs = defaultTimeoutMs } = options;
  const details: StoreFaultDetails = { dialect: 'postgres', table, database: placeOf(url) };
  const database = createServerDatabase({
    load: loadPg,
    connect: () => connectPostgres(url, timeoutMs),
    timeoutMs,
    toError: (error) => toPostgresError(error, details),
    isPassing: isPassingInPostgres,
    isReadOnly: isReadOnlyInPostgres,
    details,
    logger: options.logger,
  });
  const notices = postgresNotices({
    ...{ table, database, timeoutMs, logger: options.logger },
    connect: (heard) => connectPostgres(url, timeoutMs, heard),
  });
  return { ...createSqlStore('postgres', options, details, database), notices };
}

function placeOf(url: string): string {
  const { host } = partsOfUrl(url, ['postgres:', 'postgresql:'], 'postgres://');
  return `PostgreSQL at ${host || 'the local socket'}`;
}
