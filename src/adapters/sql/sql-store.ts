import { SvcError } from '../../ground/errors.ts';
import type { Logger } from '../../observe/logger.ts';
import { type DialectName, insertStatement, insertValues, partsOfTable } from '../../outbox/insert-row.ts';
import type { OutboxStore, RowFilter } from '../../outbox/outbox-store.ts';
import { badTable, type StoreFaultDetails, storeError, wrongVersion } from '../../outbox/store-error.ts';
import { ack, cleanup, deleteRows, fail, makePending } from './change-rows.ts';
import { dialects, tablesOf } from './dialect.ts';
import { claim, forgetDead, release } from './leases.ts';
import { migrate, readVersion, tryStatements } from './prepare.ts';
import {
  conditionOf,
  countPending,
  failedAggregates,
  pending,
  readIds,
  readRows,
  statistics,
} from './read-rows.ts';
import { schemaVersion } from './schema.ts';
import { type Condition, command, type Work } from './statement.ts';

export interface SqlStoreOptions {
  /** As in `svc.outbox.datasource.url`. */
  readonly url: string;
  /** As in `svc.outbox.table`: with or without its schema. */
  readonly table: string;
  /** When tables are made where there are none. */
  readonly initializeSchema: 'embedded' | 'always' | 'never';
  readonly logger?: Logger | undefined;
  /** The longest that one transaction may take, connecting included. Default 5000. */
  readonly timeoutMs?: number | undefined;
}

export const defaultTimeoutMs = 5_000;

/** What an adapter brings along: where work is done. Rejects with an `SvcError` always. */
export interface SqlDatabase {
  run<T>(work: () => Work<T>, options?: RunOptions): Promise<T>;
  close(deadlineMs: number): Promise<void>;
}

export interface RunOptions {
  /** Default: a transaction. A scan is one statement that may read much: a server ends it by itself in time. */
  readonly as?: 'transaction' | 'statement' | 'scan';
  /** Default: `timeoutMs`. */
  readonly limitMs?: number;
}

/** Tables are made once, and by one process of many that wait for it. */
const migrationLimitMs = 60_000;
/** Rows that an operator's command changes in one transaction. */
const chunkRows = 5_000;

/** The port over any of the three databases. */
export function createSqlStore(
  dialectName: DialectName,
  options: SqlStoreOptions,
  details: StoreFaultDetails,
  database: SqlDatabase,
): OutboxStore {
  if (partsOfTable(options.table) === undefined) throw badTable();
  const { table, initializeSchema, logger } = options;
  const dialect = dialects[dialectName];
  const tables = tablesOf(dialectName, table);
  const insertion = insertStatement(table, dialectName);
  const mayMake =
    initializeSchema === 'always' || (initializeSchema === 'embedded' && dialectName === 'sqlite');
  const statement: RunOptions = { as: 'statement' };
  const scan: RunOptions = { as: 'scan' };

  async function versionNow(): Promise<number> {
    try {
      return await database.run(() => readVersion(tables), statement);
    } catch (error) {
      if (mayMake && error instanceof SvcError && error.code === 'SVC_OUTBOX_TABLE_MISSING') return 0;
      throw error;
    }
  }

  async function make(): Promise<void> {
    const limitMs = Math.max(migrationLimitMs, options.timeoutMs ?? defaultTimeoutMs);
    const before = await database.run(() => migrate(dialect, table, tables, limitMs), { limitMs });
    if (before === undefined) throw storeError('late', details);
    if (before < schemaVersion)
      logger?.info('the tables of the outbox were made', {
        table,
        database: details.database,
        schemaVersion,
      });
  }

  /** In pieces, so that no transaction is long; each row is looked at once. */
  async function inChunks(
    filter: RowFilter,
    work: (ids: readonly number[], where: Condition) => Work<number>,
  ): Promise<number> {
    const where = conditionOf(dialect, filter);
    let count = 0;
    let afterId = 0;
    for (;;) {
      const ids = await database.run(() => readIds(dialect, tables, filter, afterId, chunkRows), scan);
      if (ids.length > 0) count += await database.run(() => work(ids, where));
      if (ids.length < chunkRows) return count;
      afterId = ids.at(-1) ?? afterId;
    }
  }

  return {
    name: dialectName,

    async prepare() {
      if (mayMake && (await versionNow()) < schemaVersion) await make();
      const version = await versionNow();
      if (version !== schemaVersion) throw wrongVersion(version, schemaVersion, details);
      await database.run(() => tryStatements(tables));
    },

    async insert(rows) {
      if (rows.length === 0) return;
      await database.run(
        function* () {
          for (const row of rows) yield* command(insertion, ...insertValues(row));
        },
        rows.length === 1 ? statement : {},
      );
    },

    async claim(owner, leaseMs) {
      const { shards, hasDead } = await database.run(() => claim(dialect, tables, owner, leaseMs));
      // Nothing depends on it: they are not counted any more.
      if (hasDead) await database.run(() => forgetDead(dialect, tables), statement).catch(() => {});
      return shards;
    },
    release: (owner) => database.run(() => release(tables, owner)),

    pending: (shards, except, limit) =>
      database.run(() => pending(dialect, tables, shards, except, limit), statement),

    failedAggregates: (shards) => database.run(() => failedAggregates(tables, shards), statement),

    async ack(owner, ids, keep) {
      if (ids.length === 0) return [];
      return database.run(
        () => ack(dialect, tables, owner, ids, keep),
        dialect.hasReturning ? statement : {},
      );
    },

    async fail(owner, failures) {
      if (failures.length > 0) await database.run(() => fail(dialect, tables, owner, failures));
    },

    countPending: () => database.run(() => countPending(tables), scan),
    statistics: () => database.run(() => statistics(dialect, tables), scan),
    read: (filter, afterId, limit) =>
      database.run(() => readRows(dialect, tables, filter, afterId, limit), scan),

    retry(filter) {
      const statuses = (filter.statuses ?? ['FAILED']).filter((status) => status === 'FAILED');
      return inChunks({ ...filter, statuses }, (ids, where) => makePending(dialect, tables, ids, where));
    },

    discard: (filter) => inChunks(filter, (ids, where) => deleteRows(dialect, tables, ids, where)),

    cleanup: (status, ageMs, limit) => database.run(() => cleanup(dialect, tables, { status, ageMs, limit })),

    close: (deadlineMs) => database.close(deadlineMs),
  };
}
