import { spreadHash } from '../../ground/claims.ts';
import { SvcError } from '../../ground/errors.ts';
import { topicNameForm, topicNamePattern } from '../../ground/event-fields.ts';
import { lazyPattern } from '../../ground/names.ts';
import { logger } from '../../observe/logger.ts';
import {
  besideTable,
  type DialectName,
  eraseSuffix,
  partsOfTable,
  routeColumn,
  rowStatements,
} from '../../outbox/insert-row.ts';
import { columns, shardCount } from '../../outbox/outbox-row.ts';
import {
  type Aggregate,
  type ClaimOptions,
  type ExceptRows,
  type OutboxStatistics,
  type OutboxStore,
  type RowFailure,
  type RowFilter,
  type RowStatus,
  rowStatuses,
  type Senders,
  type ShardHolder,
  type StoredRow,
} from '../../outbox/outbox-store.ts';
import { badTable, type StoreFaultDetails, storeError, unfitTable } from '../../outbox/store-error.ts';
import {
  addPartition,
  countStrays,
  databaseTraits,
  dropPartition,
  lookAtPartitions,
  type Migration,
  migrate,
  migrations,
  missingGuard,
  readVersion,
  tryStatements,
  versionOf,
} from './schema.ts';
import {
  type Condition,
  command,
  type Dialect,
  dialects,
  highestId,
  integers,
  query,
  type SqlRow,
  type Tables,
  tablesOf,
  type Work,
} from './statement.ts';

export interface SqlStoreOptions {
  /** As in `svc.outbox.datasource.url`. */
  readonly url: string;
  /** As in `svc.outbox.table`: with or without its schema. */
  readonly table: string;
  /** When to create missing tables. */
  readonly initializeSchema: 'embedded' | 'always' | 'never';
  /** Whether `insert` deletes what it has written; see `rowStatements`. Default false. */
  readonly erases?: boolean | undefined;
  /** Whether new tables have a partition for each day. PostgreSQL only. */
  readonly partitioned?: boolean | undefined;
  /** Default: those of this svc. */
  readonly migrations?: readonly Migration[] | undefined;
  /** Time limit of one transaction in milliseconds, with the connection. Default: 5000. */
  readonly timeoutMs?: number | undefined;
}

export const defaultTimeoutMs = 5_000;

/** Runs work on the database of an adapter. Always rejects with an `SvcError`. */
export interface SqlDatabase {
  run<T>(work: () => Work<T>, options?: RunOptions): Promise<T>;
  close(deadlineMs: number): Promise<void>;
  /** Of the last connection; `undefined` without a socket. */
  inClearTo?(): string | undefined;
}

export interface RunOptions {
  /** Default: a transaction. A scan is one statement that may read many rows, and that the server itself ends in time. */
  readonly as?: 'transaction' | 'statement' | 'scan';
  /** Default: `timeoutMs`. */
  readonly limitMs?: number;
  /** When to ask who blocks it. Default: a part of `limitMs`. */
  readonly askAfterMs?: number;
  /** Closes a connection that was opened for this work, because none follows soon. */
  readonly leaves?: boolean;
}

/** One process creates the tables, and many may wait for it. */
const migrationLimitMs = 60_000;
/** Shorter than the wait for the lock. */
const migrationAskMs = 1_000;
const partitionAskMs = 50;
/** An operator's filter may read all rows of a table, without an index. */
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
  const { table, initializeSchema, migrations: known = migrations, partitioned = false } = options;
  const wanted = versionOf(known);
  const dialect = dialects[dialectName];
  const tables = tablesOf(dialectName, table);
  const { insert, erase } = rowStatements(table, dialectName, true);
  const erasure = options.erases ? erase : undefined;
  const mayMake =
    initializeSchema === 'always' || (initializeSchema === 'embedded' && dialectName === 'sqlite');
  const statement: RunOptions = { as: 'statement' };
  const scan: RunOptions = { as: 'scan' };
  const search: RunOptions = {
    as: 'scan',
    limitMs: Math.max(searchLimitMs, options.timeoutMs ?? defaultTimeoutMs),
  };

  /** A lock prevented the last change of partitions. */
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
        logger.info('the tables of the outbox were created', {
          table,
          database: details.database,
          schemaVersion: done.after,
        });
      after = done.after;
    }
  }

  /** Gives up without the lock, to try again another time: the application's transactions go first. */
  async function unlessLate(work: () => Work<boolean>, says: string): Promise<void> {
    try {
      // Reports a blocking transaction at the second attempt only, because most are short.
      const isDone = await database.run(work, isHeldUp ? { askAfterMs: partitionAskMs } : {});
      isHeldUp = false;
      if (isDone) logger.info(`the outbox ${says}`, { table });
    } catch (error) {
      const { code } = error as SvcError;
      if (code === 'SVC_OUTBOX_NOT_ALLOWED') throw storeError('notOwner', details);
      if (code !== 'SVC_OUTBOX_UNREACHABLE') throw error;
      isHeldUp = true;
      logger.debug(`the outbox has no ${says}: ${(error as Error).message}`, { table });
    }
  }

  /** In chunks, so that each transaction is short. Each row is read once. */
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
      if (version < wanted) throw unfitTable.wrongVersion(version, wanted, details);
      try {
        await database.run(() => tryStatements(tables));
      } catch (error) {
        // Newer versions only add to the tables. Any other change shows here.
        const isOther = error instanceof SvcError && changedTables.has(error.code);
        throw isOther && version > wanted ? unfitTable.wrongVersion(version, wanted, details) : error;
      }
      if (version > wanted)
        logger.warn('the tables of the outbox are from a newer svc, but this version can use them', {
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
            const { text, values } = insert(row);
            yield* command(text, ...values);
            const erased = erasure?.(row);
            if (erased !== undefined) yield* command(erased.text, ...erased.values);
          }
        },
        rows.length === 1 && erasure === undefined ? statement : {},
      );
    },

    async claim(owner, leaseMs, options) {
      const work = (): Work<Claim> => claim(dialect, tables, owner, leaseMs, options);
      const { shards, hasDead, nowMs } = await database.run(work, statement);
      options?.onTime?.(nowMs);
      // A failure does not matter, because dead relays are not counted.
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
      if (count > 0) throw unfitTable.strayRows(count, details);
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

    inClearTo: async () => database.inClearTo?.(),
    close: (deadlineMs) => database.close(deadlineMs),
  };
}

/**
 * The statistics of a queue are always outdated. If they show an empty table, PostgreSQL sorts the whole backlog for each
 * batch, to take its first rows.
 */
function* queryInOrder(sql: string): Work<readonly SqlRow[]> {
  return (yield { sql, values: [], hasRows: true, isInOrder: true }).rows;
}

function* pending(
  dialect: Dialect,
  { rows, statusIndex }: Tables,
  shards: readonly number[],
  { upToId, ids }: ExceptRows,
  limit: number,
): Work<readonly StoredRow[]> {
  const [after = 0, max = 0] = integers([upToId, limit]);
  const held = integers(shards).join(', ');
  if (held === '') return [];
  const left = integers(ids).join(', ');
  const known = left === '' ? '' : `AND id NOT IN (${left}) `;
  // The order includes the shard, so that only the index of PENDING rows matches.
  const sql =
    `SELECT ${storedColumns(dialect)} FROM ${rows}${dialect.useIndex(statusIndex)} ` +
    `WHERE status = 'PENDING' AND id > ${after} AND id <= ${highestId} AND shard IN (${held}) ${known}ORDER BY id, shard LIMIT ${max}`;
  return (yield* queryInOrder(sql)).map(toStoredRow);
}

function* failedAggregates({ rows }: Tables, shards: readonly number[]): Work<readonly Aggregate[]> {
  const held = integers(shards).join(', ');
  if (held === '') return [];
  // Not DISTINCT: MySQL ignores trailing blanks in comparisons.
  const sql = `SELECT aggregate_type, aggregate_id FROM ${rows} WHERE status = 'FAILED' AND shard IN (${held})`;
  return (yield* query(sql)).map((row) => ({
    aggregateType: String(row.aggregate_type),
    aggregateId: String(row.aggregate_id),
  }));
}

type Page = readonly [tables: Tables, filter: RowFilter, afterId: number, limit: number];

function pageOf(columns: string, dialect: Dialect, [{ rows }, filter, afterId, limit]: Page) {
  const chosen = conditionOf(dialect, filter);
  const sql = `SELECT ${columns} FROM ${rows} WHERE id > ? AND id <= ${highestId} AND ${chosen.sql} ORDER BY id LIMIT ?`;
  return query(sql, afterId, ...chosen.values, limit);
}

function* readRows(dialect: Dialect, ...page: Page): Work<readonly StoredRow[]> {
  return (yield* pageOf(storedColumns(dialect), dialect, page)).map(toStoredRow);
}

function* readIds(dialect: Dialect, ...page: Page): Work<readonly number[]> {
  return (yield* pageOf('id', dialect, page)).map(({ id }) => Number(id));
}

function* lastId({ rows }: Tables): Work<number> {
  const [found] = yield* query(
    `SELECT COALESCE(MAX(id), 0) AS last_id FROM ${rows} WHERE id <= ${highestId}`,
  );
  return Number(found?.last_id);
}

function* holds(dialect: Dialect, { rows }: Tables, eventId: string, afterId: number): Work<boolean> {
  const [after = 0] = integers([afterId]);
  const sql = `SELECT 1 AS found FROM ${rows} WHERE id > ${after} AND ${dialect.equals('event_id')} LIMIT 1`;
  return (yield* query(sql, eventId)).length > 0;
}

function* readTime({ msOf, now }: Dialect): Work<number> {
  const [found] = yield* query(`SELECT ${msOf(now)} AS now_ms`);
  return Math.round(Number(found?.now_ms));
}

function* countPending({ rows }: Pick<Tables, 'rows'>): Work<number> {
  const [found] = yield* query(`SELECT COUNT(*) AS row_count FROM ${rows} WHERE status = 'PENDING'`);
  return Number(found?.row_count);
}

/** Each status by its own index only, because a table keeps PUBLISHED rows for days. The oldest row has the lowest id. */
function* statistics(dialect: Dialect, { rows }: Tables): Work<OutboxStatistics> {
  const { msOf, now } = dialect;
  const pendingCount = yield* countPending({ rows });
  const [oldest] = yield* query(
    `SELECT ${msOf(now)} - ${msOf('created_at')} AS age_ms FROM ${rows} WHERE status = 'PENDING' ORDER BY id LIMIT 1`,
  );
  const [failed] = yield* query(`SELECT COUNT(*) AS row_count FROM ${rows} WHERE status = 'FAILED'`);
  const [published] = yield* query(
    `SELECT COUNT(*) AS row_count, AVG(${msOf('published_at')} - ${msOf('created_at')}) AS mean_ms FROM ${rows} WHERE status = 'PUBLISHED'`,
  );
  const counts = {
    pending: pendingCount,
    published: Number(published?.row_count),
    failed: Number(failed?.row_count),
  };
  return {
    total: counts.pending + counts.published + counts.failed,
    ...counts,
    oldestPendingMs: duration(oldest?.age_ms),
    avgProcessingTimeMs: duration(published?.mean_ms),
  };
}

/** One less than the column holds, so that it can be raised once more. */
const maxRetries = 2_147_483_646;
/** The limit of a `Date`. */
const longestTimeMs = 8_640_000_000_000_000;

const everyRow: Condition = { sql: '1 = 1', values: [] };

/** An empty filter selects every row. An empty list in it selects no row. */
function conditionOf(dialect: Dialect, filter: RowFilter): Condition {
  const parts: Condition[] = [];
  if (filter.ids !== undefined) parts.push(dialect.isOneOf('id', filter.ids));
  if (filter.statuses !== undefined) parts.push(hasStatus(filter.statuses));
  const texts = [
    ['event_type', filter.eventType],
    ['topic', filter.topic],
    ['aggregate_type', filter.aggregateType],
    ['aggregate_id', filter.aggregateId],
  ] as const;
  for (const [column, text] of texts)
    if (text !== undefined) parts.push({ sql: dialect.equals(column), values: [text] });
  const { since, before } = filter;
  if (since !== undefined) parts.push({ sql: `created_at >= ${dialect.timeOfMs}`, values: [since] });
  if (before !== undefined) parts.push({ sql: `created_at < ${dialect.timeOfMs}`, values: [before] });
  if (parts.length === 0) return everyRow;
  return {
    sql: parts.map(({ sql }) => sql).join(' AND '),
    values: parts.flatMap(({ values }) => values),
  };
}

/** Literals, because a partial index does not match a parameter. */
function hasStatus(statuses: readonly RowStatus[]): Condition {
  const known = rowStatuses.filter((status) => statuses.includes(status));
  const sql = known.map((status) => `status = '${status}'`).join(' OR ');
  return { sql: known.length === 0 ? '1 = 0' : `(${sql})`, values: [] };
}

function storedColumns({ msOf, now }: Dialect): string {
  const waits = `CASE WHEN next_retry_at IS NULL THEN 0 ELSE ${msOf('next_retry_at')} - ${msOf(now)} END AS wait_ms`;
  const given = Object.values(columns).map(({ name, is }) =>
    is === 'time' ? `${msOf(name)} AS ${name}` : name,
  );
  return `id, ${given.join(', ')}, status, retry_count, last_error, ${waits}`;
}

function toStoredRow(row: SqlRow): StoredRow {
  const { topic, record_key: key } = row;
  const headers = parsed(row.headers);
  const payload = bytesOf(row.payload);
  const fault = rowFault({ topic, key, headers, payload });
  return {
    id: Number(row.id),
    eventId: String(row.event_id),
    aggregateType: String(row.aggregate_type),
    aggregateId: String(row.aggregate_id),
    eventType: String(row.event_type),
    topic: String(topic),
    key: String(key),
    headers: typeof headers === 'object' && headers !== null ? (headers as StoredRow['headers']) : {},
    payload: payload ?? Buffer.alloc(0),
    occurredAt: timeOf(row.occurred_at),
    status: row.status as RowStatus,
    retryCount: Math.max(0, Math.min(Number(row.retry_count) || 0, maxRetries)),
    lastError: row.last_error === null ? null : String(row.last_error),
    waitMs: Math.max(0, Math.ceil(Number(row.wait_ms))),
    shard: Number(row.shard),
    fault,
  };
}

/** The columns that become the record, unchecked: SQLite stores any value in any column. */
interface FoundRecord {
  readonly topic: unknown;
  readonly key: unknown;
  /** Parsed JSON; `undefined`: not JSON. */
  readonly headers: unknown;
  readonly payload: unknown;
}

/** Characters of a name in a message. */
const longestName = 60;

/**
 * Why a row cannot become a record; `undefined` if it can. Rows of svc always can. The client would refuse a bad row of another
 * program each time, which would look like an outage of the cluster.
 */
function rowFault({ topic, key, headers, payload }: FoundRecord): string | undefined {
  if (typeof topic !== 'string' || !topicNamePattern.test(topic)) return `its topic must be ${topicNameForm}`;
  if (typeof key !== 'string') return 'its record_key must be a string';
  if (!Buffer.isBuffer(payload)) return 'its payload must be bytes';
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers))
    return 'its headers must be an object in JSON';
  for (const [name, text] of Object.entries(headers))
    if (typeof text !== 'string')
      return `its header ${JSON.stringify(name.slice(0, longestName))} must be a string`;
  return undefined;
}

function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}

/** Text that another program stored in SQLite counts as its bytes, as in the other databases. */
function bytesOf(value: unknown): Buffer | undefined {
  if (Buffer.isBuffer(value)) return value;
  if (typeof value === 'string') return Buffer.from(value);
  if (!(value instanceof Uint8Array)) return undefined;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

/** 0 for times outside the range of a `Date`, such as PostgreSQL's 'infinity'. */
function timeOf(value: unknown): number {
  const ms = Math.round(Number(value));
  return Math.abs(ms) <= longestTimeMs ? ms : 0;
}

/** 0 if a clock was set back between the two times. */
function duration(value: unknown): number | null {
  return value === null || value === undefined ? null : Math.max(0, Number(value));
}

/** Enough for the cause of an error. */
const longestError = 1_000;

function* ack(
  dialect: Dialect,
  { rows, shards }: Tables,
  owner: string,
  given: readonly number[],
  keep: boolean,
): Work<readonly number[]> {
  const ids = integers(given);
  const where = both(dialect.isOneOf('id', ids), stillHeld(dialect, shards, owner));
  const verb = keep
    ? `UPDATE ${rows} SET status = 'PUBLISHED', published_at = ${dialect.now}, next_retry_at = NULL`
    : `DELETE FROM ${rows}`;
  const count = yield* command(`${verb} WHERE ${where.sql}`, ...where.values);
  if (count === ids.length) return ids;
  // Rows of a shard that is lost, or rows that an earlier try without an answer has handled.
  const chosen = dialect.isOneOf('id', ids);
  const left = yield* query(
    `SELECT id FROM ${rows} WHERE ${chosen.sql} AND status = 'PENDING'`,
    ...chosen.values,
  );
  const waiting = new Set(left.map(({ id }) => Number(id)));
  return ids.filter((id) => !waiting.has(id));
}

function* fail(
  dialect: Dialect,
  { rows, shards }: Tables,
  owner: string,
  failures: readonly RowFailure[],
): Work<void> {
  // Rows that failed together have one reason, so one statement stores it.
  const alike = Map.groupBy(failures, ({ retryCount, lastError, retryInMs }) =>
    JSON.stringify([retryCount, lastError, retryInMs]),
  );
  for (const group of alike.values()) {
    const [{ retryCount, lastError, retryInMs }] = group as [RowFailure];
    const where = both(
      dialect.isOneOf(
        'id',
        group.map(({ id }) => id),
      ),
      stillHeld(dialect, shards, owner),
    );
    const becomes: Condition =
      retryInMs === null
        ? { sql: `status = 'FAILED', failed_at = ${dialect.now}, next_retry_at = NULL`, values: [] }
        : { sql: `next_retry_at = ${dialect.nowPlusMs}`, values: [retryInMs] };
    yield* command(
      `UPDATE ${rows} SET retry_count = ?, last_error = ?, ${becomes.sql} WHERE ${where.sql}`,
      retryCount,
      oneLine(lastError),
      ...becomes.values,
      ...where.values,
    );
  }
}

/** Repeats `where`, because a row may have changed since it was selected. */
function* makePending(
  dialect: Dialect,
  { rows }: Tables,
  ids: readonly number[],
  where: Condition,
): Work<number> {
  const all = both(both(dialect.isOneOf('id', ids), where), { sql: `status = 'FAILED'`, values: [] });
  return yield* command(
    `UPDATE ${rows} SET status = 'PENDING', retry_count = 0, last_error = NULL, next_retry_at = ${dialect.now}, failed_at = NULL WHERE ${all.sql}`,
    ...all.values,
  );
}

function* deleteRows(
  dialect: Dialect,
  { rows }: Tables,
  ids: readonly number[],
  where: Condition,
): Work<number> {
  const all = both(dialect.isOneOf('id', ids), where);
  return yield* command(`DELETE FROM ${rows} WHERE ${all.sql}`, ...all.values);
}

const since = { PUBLISHED: 'published_at', FAILED: 'failed_at' } as const;

/** Selects by time and deletes by primary key, so that MySQL locks these rows only. */
function* cleanup(
  dialect: Dialect,
  tables: Tables,
  { status, ageMs, limit }: { status: keyof typeof since; ageMs: number; limit: number },
): Work<number> {
  const lock = `cleanup ${tables.rows}`;
  if (dialect.locks !== undefined && !(yield* dialect.locks.tryLock(lock))) return 0;
  try {
    const time = since[status];
    const old: Condition = {
      sql: `status = '${status}' AND ${time} < ${dialect.nowMinusMs}`,
      values: [ageMs],
    };
    const [age = 0, max = 0] = integers([Math.round(ageMs), limit]);
    const sql = `SELECT id FROM ${tables.rows} WHERE ${old.sql.replace('?', String(age))} ORDER BY ${time} LIMIT ${max}`;
    const ids = (yield* queryInOrder(sql)).map(({ id }) => Number(id));
    return ids.length === 0 ? 0 : yield* deleteRows(dialect, tables, ids, old);
  } finally {
    if (dialect.locks?.unlock !== undefined) yield* dialect.locks.unlock(lock);
  }
}

/** A waiting row in a shard of the owner, even if its lease has run out: no other owner has taken it since. */
function stillHeld(dialect: Dialect, shards: string, owner: string): Condition {
  const held = `SELECT shard FROM ${shards} WHERE owner = ?`;
  return { sql: `status = 'PENDING' AND ${dialect.isIn('shard', held)}`, values: [owner] };
}

function both(one: Condition, other: Condition): Condition {
  return { sql: `${one.sql} AND ${other.sql}`, values: [...one.values, ...other.values] };
}

const lineBreaks = lazyPattern(String.raw`[\p{Cc}\u2028\u2029]+`, 'gu');

function oneLine(text: string): string {
  // PostgreSQL stores no NUL.
  return text.replace(lineBreaks(), ' ').slice(0, longestError);
}

interface Claim {
  readonly shards: readonly number[];
  /** Whether there are owners whose time has run out. */
  readonly hasDead: boolean;
  /** The database's clock, since the epoch. */
  readonly nowMs: number;
}

interface Shards extends Omit<Claim, 'shards'> {
  /** Shards to hold; those that it holds already come first. */
  readonly wanted: readonly number[];
  readonly surplus: readonly number[];
  /** Owners of the other shards. */
  readonly holders: readonly string[];
}

/** How often a claim looks for free shards, because others claim at the same time. */
const maxTries = 5;

/**
 * Each statement is a separate transaction, so a process that stops in between keeps no lock. A free shard may be taken by now,
 * so the UPDATE checks it again.
 */
function* claim(
  dialect: Dialect,
  tables: Tables,
  owner: string,
  leaseMs: number,
  options: ClaimOptions = {},
): Work<Claim> {
  yield* command(dialect.aliveUntil(tables.relays), owner, leaseMs, leaseMs);
  let found = yield* look(dialect, tables, owner, options);
  const gone = found.holders.filter(options.isGone ?? (() => false));
  for (const one of gone) yield* release(tables, one);
  if (gone.length > 0) found = yield* look(dialect, tables, owner, options);
  let { wanted, surplus, hasDead, nowMs } = found;
  for (let tries = 1; !(yield* take(dialect, tables, owner, leaseMs, wanted)); tries++) {
    const before = new Set(wanted);
    ({ wanted, surplus, hasDead, nowMs } = yield* look(dialect, tables, owner, options, tries < maxTries));
    if (tries === maxTries) {
      // Only the shards that it got.
      wanted = wanted.filter((shard) => before.has(shard));
      break;
    }
  }
  if (surplus.length > 0) {
    const chosen = dialect.isOneOf('shard', surplus);
    yield* command(
      `UPDATE ${tables.shards} SET owner = NULL, lease_until = NULL WHERE ${chosen.sql} AND owner = ?`,
      ...chosen.values,
      owner,
    );
  }
  return { shards: wanted.toSorted((a, b) => a - b), hasDead, nowMs };
}

function* look(
  dialect: Dialect,
  { shards, relays }: Tables,
  owner: string,
  { keeps = [], leavesExpired = false }: Pick<ClaimOptions, 'keeps' | 'leavesExpired'>,
  takesMore = true,
): Work<Shards> {
  const found = yield* query(
    `SELECT shard, owner, ${dialect.msOf(dialect.now)} AS now_ms, CASE WHEN ${isHeld(dialect)} THEN 1 ELSE 0 END AS held, ` +
      `(SELECT COUNT(*) FROM ${relays}) AS known_count, ` +
      `(SELECT COUNT(*) FROM ${relays} WHERE alive_until > ${dialect.now}) AS alive_count ` +
      `FROM ${shards} ORDER BY shard`,
  );
  const [first] = found;
  const aliveCount = Math.max(1, Number(first?.alive_count));
  const share = Math.ceil(shardCount / aliveCount);
  const own = found.filter((row) => row.owner === owner).map(({ shard }) => Number(shard));
  const kept = own.filter((shard) => keeps.includes(shard));
  const mine = [...kept, ...own.filter((shard) => !keeps.includes(shard))];
  const stays = Math.max(share, kept.length);
  const others = found.filter((row) => row.owner !== owner);
  const isFree = ({ owner: other, held }: (typeof others)[number]): boolean =>
    leavesExpired ? other === null : Number(held) === 0;
  const free = others.filter(isFree).map(({ shard }) => Number(shard));
  // Relays that start together begin at different shards.
  const from = free.length === 0 ? 0 : spreadHash(owner) % free.length;
  const more = takesMore ? Math.max(0, share - mine.length) : 0;
  return {
    wanted: [...mine.slice(0, stays), ...[...free.slice(from), ...free.slice(0, from)].slice(0, more)],
    surplus: mine.slice(stays),
    hasDead: Number(first?.known_count) > aliveCount,
    holders: [...new Set(others.filter((row) => !isFree(row)).map((row) => String(row.owner)))],
    nowMs: Math.round(Number(first?.now_ms)),
  };
}

/** Returns whether all of them now belong to the owner. */
function* take(
  dialect: Dialect,
  { shards }: Tables,
  owner: string,
  leaseMs: number,
  wanted: readonly number[],
): Work<boolean> {
  if (wanted.length === 0) return true;
  const chosen = dialect.isOneOf('shard', wanted);
  const count = yield* command(
    `UPDATE ${shards} SET owner = ?, lease_until = ${dialect.nowPlusMs} WHERE ${chosen.sql} AND (owner = ? OR NOT (${isHeld(dialect)}))`,
    owner,
    leaseMs,
    ...chosen.values,
    owner,
  );
  return count === wanted.length;
}

/** Never NULL: a comparison with NULL would be neither held nor free. */
const isHeld = ({ now }: Dialect): string =>
  `owner IS NOT NULL AND lease_until IS NOT NULL AND lease_until > ${now}`;

/** Whether the other live relays are as many as the shards, and hold all of them. */
function* isFull(dialect: Dialect, { shards, relays }: Tables, owner: string): Work<boolean> {
  const [found] = yield* query(
    `SELECT (SELECT COUNT(*) FROM ${relays} WHERE alive_until > ${dialect.now} AND owner <> ?) AS alive, ` +
      `(SELECT COUNT(*) FROM ${shards} WHERE ${isHeld(dialect)} AND owner <> ?) AS held`,
    owner,
    owner,
  );
  return Number(found?.alive) >= shardCount && Number(found?.held) >= shardCount;
}

function* holders(dialect: Dialect, { shards }: Tables): Work<readonly ShardHolder[]> {
  const left = `${dialect.msOf('MAX(lease_until)')} - ${dialect.msOf(dialect.now)}`;
  const found = yield* query(
    `SELECT owner, COUNT(*) AS shard_count, ${left} AS left_ms FROM ${shards} WHERE owner IS NOT NULL AND lease_until > ${dialect.now} GROUP BY owner ORDER BY owner`,
  );
  return found.map(({ owner, shard_count: count, left_ms: leaseMs }) => ({
    owner: String(owner),
    shards: Number(count),
    leaseMs: Number(leaseMs),
  }));
}

function* forgetDead(dialect: Dialect, { relays }: Tables): Work<void> {
  yield* command(`DELETE FROM ${relays} WHERE alive_until <= ${dialect.now}`);
}

function* release({ shards, relays }: Tables, owner: string): Work<void> {
  yield* command(`DELETE FROM ${relays} WHERE owner = ?`, owner);
  yield* command(`UPDATE ${shards} SET owner = NULL, lease_until = NULL WHERE owner = ?`, owner);
}

/** The database's view of the processes that send the rows. The rights of a relay are enough for all of it. */
function* lookAtSenders(dialect: Dialect, table: string): Work<Senders> {
  const tables = tablesOf(dialect.name, table);
  const { sql, values } = questions[dialect.name](table, tables);
  const alive = `(SELECT COUNT(*) FROM ${tables.relays} WHERE alive_until > ${dialect.now})`;
  const [found] = yield* query(`SELECT ${sql}, ${alive} AS relays`, ...values);
  const is = (name: string): boolean => Number(found?.[name]) > 0;
  const age = `${dialect.msOf(dialect.now)} - ${dialect.msOf('created_at')}`;
  const [oldest] = yield* queryInOrder(
    `SELECT ${age} AS age_ms FROM ${tables.rows}${dialect.useIndex(tables.statusIndex)} WHERE status = 'PENDING' ORDER BY id, shard LIMIT 1`,
  );
  return {
    erases: is('erases'),
    isRouted: is('routed'),
    log: is('readers') ? 'read' : is('logs') ? 'kept' : 'none',
    relays: Number(found?.relays),
    oldestMs: oldest === undefined ? null : Number(oldest.age_ms),
  };
}

interface Question {
  readonly sql: string;
  readonly values: readonly string[];
}

const questions: Readonly<Record<DialectName, (table: string, tables: Tables) => Question>> = {
  postgres(table, { rows }) {
    const trigger = besideTable(partsOfTable(table)?.name ?? table, eraseSuffix);
    // A slot without its log counts as missing.
    const slots = `FROM pg_replication_slots WHERE slot_type = 'logical' AND database = current_database() AND wal_status IS DISTINCT FROM 'lost'`;
    return {
      sql:
        `(SELECT COUNT(*) FROM pg_trigger WHERE tgrelid = to_regclass(?) AND tgname = ? AND tgenabled <> 'D') AS erases, ` +
        `(SELECT COUNT(*) FROM pg_attribute WHERE attrelid = to_regclass(?) AND attname = ? AND NOT attisdropped) AS routed, ` +
        `(SELECT COUNT(*) ${slots}) AS logs, (SELECT COUNT(*) ${slots} AND active) AS readers`,
      values: [rows, trigger, rows, routeColumn],
    };
  },
  mysql(table) {
    const { schema, name = table } = partsOfTable(table) ?? {};
    const place = schema === undefined ? 'DATABASE()' : '?';
    return {
      sql:
        `0 AS erases, @@global.log_bin AS logs, 0 AS readers, ` +
        `(SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = ${place} AND table_name = ? AND column_name = ?) AS routed`,
      values: [...(schema === undefined ? [] : [schema]), name, routeColumn],
    };
  },
  sqlite: () => ({ sql: '0 AS erases, 0 AS routed, 0 AS logs, 0 AS readers', values: [] }),
};
