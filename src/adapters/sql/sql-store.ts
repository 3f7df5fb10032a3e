import { SvcError } from '../../ground/errors.ts';
import type { Logger } from '../../observe/logger.ts';
import { eraseStatement, eraseValues } from '../../outbox/erase-row.ts';
import { type DialectName, insertStatement, insertValues, partsOfTable } from '../../outbox/insert-row.ts';
import type { OutboxStore, RowFilter } from '../../outbox/outbox-store.ts';
import {
  badTable,
  type StoreFaultDetails,
  storeError,
  strayRows,
  wrongVersion,
} from '../../outbox/store-error.ts';
import { ack, cleanup, deleteRows, fail, makePending } from './change-rows.ts';
import { databaseTraits } from './database-traits.ts';
import { dialects, tablesOf } from './dialect.ts';
import { type Claim, claim, forgetDead, holders, isFull, release } from './leases.ts';
import { lookAtSenders } from './look-at-senders.ts';
import { addPartition, dropPartition, lookAtPartitions } from './partitions.ts';
import { migrate, readVersion, tryStatements } from './prepare.ts';
import {
  conditionOf,
  countPending,
  failedAggregates,
  holds,
  lastId,
  pending,
  readIds,
  readRows,
  readTime,
  statistics,
} from './read-rows.ts';
import { type Migration, migrations, versionOf } from './schema.ts';
import { type Condition, command, type Work } from './statement.ts';
import { countStrays, missingGuard } from './valid-rows.ts';

export interface SqlStoreOptions {
  /** As in `svc.outbox.datasource.url`. */
  readonly url: string;
  /** As in `svc.outbox.table`: with or without its schema. */
  readonly table: string;
  /** When tables are made where there are none. */
  readonly initializeSchema: 'embedded' | 'always' | 'never';
  readonly logger?: Logger | undefined;
  /** Whether `insert` deletes what it has written; see `erase-row.ts`. Default false. */
  readonly erases?: boolean | undefined;
  /** Where the rows are made, they lie in a partition for each day. PostgreSQL only. */
  readonly partitioned?: boolean | undefined;
  /** Default: those of this svc. */
  readonly migrations?: readonly Migration[] | undefined;
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
  /** After so long it is asked who holds it up. Default: a part of `limitMs`. */
  readonly askAfterMs?: number;
  /** A connection that was opened for it is not kept: nothing else is to come soon. */
  readonly leaves?: boolean;
}

/** Tables are made once, and by one process of many that wait for it. */
const migrationLimitMs = 60_000;
/** Sooner than they give up a lock. */
const migrationAskMs = 1_000;
const partitionAskMs = 50;
/** An operator's filter may read all rows of a table, for which there is no index. */
const searchLimitMs = 30_000;
/** Rows that an operator's command changes in one transaction. */
const chunkRows = 5_000;

const changedTables: ReadonlySet<string> = new Set(['SVC_OUTBOX_SCHEMA_VERSION', 'SVC_OUTBOX_TABLE_MISSING']);

/** The port over any of the three databases. */
export function createSqlStore(
  dialectName: DialectName,
  options: SqlStoreOptions,
  details: StoreFaultDetails,
  database: SqlDatabase,
): OutboxStore {
  if (partsOfTable(options.table) === undefined) throw badTable();
  const { table, initializeSchema, logger, migrations: known = migrations, partitioned = false } = options;
  const wanted = versionOf(known);
  const dialect = dialects[dialectName];
  const tables = tablesOf(dialectName, table);
  const insertion = insertStatement(table, dialectName);
  const erasure = options.erases ? eraseStatement(table, dialectName) : undefined;
  const mayMake =
    initializeSchema === 'always' || (initializeSchema === 'embedded' && dialectName === 'sqlite');
  const statement: RunOptions = { as: 'statement' };
  const scan: RunOptions = { as: 'scan' };
  const search: RunOptions = {
    as: 'scan',
    limitMs: Math.max(searchLimitMs, options.timeoutMs ?? defaultTimeoutMs),
  };

  /** Partitions could not be made or dropped, for a lock. */
  let isHeldUp = false;

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
    const partitionedFrom = partitioned ? await database.run(() => readTime(dialect), statement) : undefined;
    const how = { limitMs, migrations: known, partitionedFrom };
    for (let after = 0; after < wanted; ) {
      const done = await database.run(() => migrate(dialect, table, tables, how), {
        ...{ limitMs, askAfterMs: migrationAskMs },
      });
      if (done === undefined) throw storeError('late', details);
      if (done.before < done.after)
        logger?.info('the tables of the outbox were made', {
          table,
          database: details.database,
          schemaVersion: done.after,
        });
      after = done.after;
    }
  }

  /** What does not get its lock now does so another time: the application's transactions go first. */
  async function unlessLate(work: () => Work<boolean>, says: string): Promise<void> {
    try {
      // A short transaction is nothing to tell of; one that was in the way the last time as well is.
      const isDone = await database.run(work, isHeldUp ? { askAfterMs: partitionAskMs } : {});
      isHeldUp = false;
      if (isDone) logger?.info(`the outbox ${says}`, { table });
    } catch (error) {
      const { code } = error as SvcError;
      if (code === 'SVC_OUTBOX_NOT_ALLOWED') throw storeError('notOwner', details);
      if (code !== 'SVC_OUTBOX_UNREACHABLE') throw error;
      isHeldUp = true;
      logger?.debug(`the outbox has not ${says}: ${(error as Error).message}`, { table });
    }
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
      const ids = await database.run(() => readIds(dialect, tables, filter, afterId, chunkRows), search);
      if (ids.length > 0) count += await database.run(() => work(ids, where));
      if (ids.length < chunkRows) return count;
      afterId = ids.at(-1) ?? afterId;
    }
  }

  return {
    name: dialectName,

    async prepare() {
      if (mayMake && (await versionNow()) < wanted) await make();
      const version = await versionNow();
      if (version < wanted) throw wrongVersion(version, wanted, details);
      try {
        await database.run(() => tryStatements(tables));
      } catch (error) {
        // Newer versions add to the tables: where that is not all, it shows here.
        const isOther = error instanceof SvcError && changedTables.has(error.code);
        throw isOther && version > wanted ? wrongVersion(version, wanted, details) : error;
      }
      if (version > wanted)
        logger?.warn('the tables of the outbox are those of a newer svc, and this one can use them', {
          table,
          schemaVersion: version,
        });
    },

    senders: () => database.run(() => lookAtSenders(dialect, table), { ...scan, leaves: true }),

    traits: () => database.run(() => databaseTraits(dialect), { ...scan, leaves: true }),

    async insert(rows) {
      if (rows.length === 0) return;
      await database.run(
        function* () {
          for (const row of rows) {
            yield* command(insertion, ...insertValues(row));
            if (erasure !== undefined) yield* command(erasure, ...eraseValues(row));
          }
        },
        rows.length === 1 && erasure === undefined ? statement : {},
      );
    },

    async claim(owner, leaseMs, onTime, isGone) {
      const work = (): Work<Claim> => claim(dialect, tables, owner, leaseMs, isGone);
      const { shards, hasDead, nowMs } = await database.run(work, statement);
      onTime?.(nowMs);
      // Nothing depends on it: they are not counted any more.
      if (hasDead) await database.run(() => forgetDead(dialect, tables), statement).catch(() => {});
      return shards;
    },
    isFull: (owner) => database.run(() => isFull(dialect, tables, owner), { ...statement, leaves: true }),
    holders: () => database.run(() => holders(dialect, tables), statement),
    release: (owner) => database.run(() => release(tables, owner), statement),

    pending: (shards, except, limit) =>
      database.run(() => pending(dialect, tables, shards, except, limit), statement),

    failedAggregates: (shards) => database.run(() => failedAggregates(tables, shards), statement),

    async ack(owner, ids, keep) {
      if (ids.length === 0) return [];
      return database.run(() => ack(dialect, tables, owner, ids, keep), statement);
    },

    async fail(owner, failures) {
      if (failures.length > 0) await database.run(() => fail(dialect, tables, owner, failures), statement);
    },

    lastId: () => database.run(() => lastId(tables), scan),
    holds: (eventId, afterId) => database.run(() => holds(dialect, tables, eventId, afterId), scan),
    countPending: () => database.run(() => countPending(tables), scan),
    statistics: () => database.run(() => statistics(dialect, tables), scan),
    async checkRows() {
      const count = await database.run(() => countStrays(dialectName, table), search);
      if (count > 0) throw strayRows(count, details);
    },
    missingGuard: () => database.run(() => missingGuard(dialectName, table), statement),
    read: (filter, afterId, limit) =>
      database.run(() => readRows(dialect, tables, filter, afterId, limit), search),

    retry(filter) {
      const statuses = (filter.statuses ?? ['FAILED']).filter((status) => status === 'FAILED');
      return inChunks({ ...filter, statuses }, (ids, where) => makePending(dialect, tables, ids, where));
    },

    discard: (filter) => inChunks(filter, (ids, where) => deleteRows(dialect, tables, ids, where)),

    async partition(ageMs) {
      if (dialectName !== 'postgres') return false;
      const { isPartitioned, missing, old } = await database.run(
        () => lookAtPartitions(table, ageMs),
        statement,
      );
      for (const day of missing) await unlessLate(() => addPartition(table, day), 'added a partition');
      for (const day of old) await unlessLate(() => dropPartition(table, day, ageMs), 'dropped a partition');
      return isPartitioned;
    },

    cleanup: (status, ageMs, limit) => database.run(() => cleanup(dialect, tables, { status, ageMs, limit })),

    close: (deadlineMs) => database.close(deadlineMs),
  };
}
