import { SvcError } from '../../ground/errors.ts';
import { isolate } from '../../observe/otel-api.ts';
import { can, executorOf, has, isPostgresJs, isShape, isSqliteHandle, type Shape } from './executor.ts';

/**
 * Runs work in a transaction of its own, committed where it resolves and rolled back where it does not. Rejects where the database has
 * rolled it back in place of the COMMIT.
 */
export type RunTransaction = <R>(work: (executor: unknown) => Promise<R>) => Promise<R>;

/** @throws SvcError `SVC_OUTBOX_DATA_SOURCE` */
export function transactionsOf(source: unknown): RunTransaction {
  // Those of MikroORM have the methods of a pool as well.
  const run = looking(ofLibrary(source)) ?? ofDriver(source);
  if (run !== undefined) return run;
  throw new SvcError(
    'SVC_OUTBOX_DATA_SOURCE',
    'outbox.runInTransaction() cannot open a transaction on what it was given. It takes a Pool or Client of pg, a pool or connection of mysql2 or mariadb, a handle of node:sqlite or better-sqlite3, sql of postgres.js, or the database object of Knex, Kysely, Drizzle, TypeORM, Sequelize, MikroORM or Prisma; else open it yourself, with outbox.withTransaction(executor, fn) inside',
  );
}

/** A connection, by its statements. */
interface Steps {
  begin(): unknown;
  /** Throws where the database has not committed. */
  commit(): unknown;
  rollback(): unknown;
  /** Hands it back; `isBroken`: it could not be rolled back. */
  release?(isBroken: boolean): void;
}

async function runSteps<R>(
  executor: unknown,
  steps: Steps,
  work: (executor: unknown) => Promise<R>,
): Promise<R> {
  let isBroken = false;
  try {
    await steps.begin();
    const result = await work(executor);
    await steps.commit();
    return result;
  } catch (error) {
    try {
      await steps.rollback();
    } catch {
      // The first error is the one to tell.
      isBroken = true;
    }
    throw error;
  } finally {
    steps.release?.(isBroken);
  }
}

function ofDriver(source: unknown): RunTransaction | undefined {
  if (isSqliteHandle(source)) return onSqlite(source, source);
  if (isPostgresJs(source)) return looking((work) => source.begin(work));
  if (can(source, 'query') && has(source, 'connectionParameters')) return (work) => onPgClient(source, work);
  if (can(source, 'connect', 'query') && isShape(source) && 'totalCount' in source)
    return async (work) => {
      const client = await source.connect();
      // A connection that is lost between two statements has no other way to say so, and nobody but us has this client: without a
      // listener the process would end.
      if (can(client, 'on')) client.on('error', ignore);
      return onPgClient(client, work, (isBroken) => {
        client.release(isBroken);
        if (can(client, 'removeListener')) client.removeListener('error', ignore);
      });
    };
  if (can(source, 'getConnection')) return onMysqlPool(source);
  if (can(source, 'beginTransaction')) return (work) => onMysqlConnection(source, source, work);
  return undefined;
}

const ignore = (): void => {};

function onPgClient<R>(
  client: { query: (sql: string) => Promise<{ command?: string }> },
  work: (executor: unknown) => Promise<R>,
  release?: (isBroken: boolean) => void,
): Promise<R> {
  return runSteps(
    client,
    {
      begin: () => client.query('BEGIN'),
      async commit() {
        // Of a transaction in which a statement has failed it makes a ROLLBACK, and says nothing.
        const { command } = await client.query('COMMIT');
        if (command === 'ROLLBACK') throw rolledBack();
      },
      rollback: () => client.query('ROLLBACK'),
      ...(release && { release }),
    },
    work,
  );
}

/** Of `mysql2` with callbacks, work gets the connection with callbacks. */
function onMysqlPool(pool: { getConnection: (...all: never[]) => Promise<Shape> }): RunTransaction {
  const hasCallbacks = can(pool, 'promise');
  return async (work) => {
    const connection = await (hasCallbacks ? (pool.promise() as typeof pool) : pool).getConnection();
    const executor = hasCallbacks ? connection.connection : connection;
    const release = can(connection, 'release') ? () => void connection.release() : undefined;
    return onMysqlConnection(connection, executor, work, release);
  };
}

function onMysqlConnection<R>(
  given: unknown,
  executor: unknown,
  work: (executor: unknown) => Promise<R>,
  release?: () => void,
): Promise<R> {
  const connection = can(given, 'promise') ? (given.promise() as unknown) : given;
  if (!can(connection, 'beginTransaction', 'commit', 'rollback')) throw new TypeError('not a connection');
  const { beginTransaction, commit, rollback } = connection;
  return runSteps(
    executor,
    {
      begin: () => Reflect.apply(beginTransaction, connection, []),
      commit: () => Reflect.apply(commit, connection, []),
      rollback: () => Reflect.apply(rollback, connection, []),
      ...(release && { release }),
    },
    work,
  );
}

/** Whatever else uses the handle until its end is in the transaction, too. */
function onSqlite(handle: { exec: (sql: string) => unknown }, executor: unknown): RunTransaction {
  const send = (sql: string) => (): unknown => handle.exec(sql);
  const steps = { begin: send('BEGIN IMMEDIATE'), commit: send('COMMIT'), rollback: send('ROLLBACK') };
  return (work) => runSteps(executor, steps, work);
}

/**
 * PostgreSQL answers the COMMIT of a transaction in which a statement has failed with ROLLBACK, and libraries do not tell: it is asked
 * before. The driver `pg` tells, and the other databases go on after a statement that has failed.
 */
function looking(run: RunTransaction | undefined): RunTransaction | undefined {
  if (run === undefined) return undefined;
  return (work) =>
    run(async (executor) => {
      const result = await work(executor);
      await assertNotAborted(executor);
      return result;
    });
}

async function assertNotAborted(given: unknown): Promise<void> {
  const executor = executorOf(given);
  if (executor.dialect !== 'postgres') return;
  try {
    await isolate(async () => executor.execute('SELECT 1', []));
  } catch (error) {
    throw isAborted(error) ? rolledBack() : error;
  }
}

/** Each library wraps the error of its driver in its own way. */
function isAborted(error: unknown, depth = 0): boolean {
  if (!isShape(error) || depth > 5) return false;
  if (
    [error.code, error.originalCode].includes('25P02') ||
    /25P02|transaction is aborted/.test(String(error.message))
  )
    return true;
  const inner = [error.cause, error.original, error.parent, error.driverError, error.previous, error.meta];
  return inner.some((each) => isAborted(each, depth + 1));
}

function ofLibrary(source: unknown): RunTransaction | undefined {
  // Of Drizzle on SQLite, whose own transactions take no function that waits.
  if (has(source, 'session') && isSqliteHandle(source.session.client))
    return onSqlite(source.session.client, source);
  if (can(source, '$transaction')) return (work) => source.$transaction(work);
  if (can(source, 'transactional')) return (work) => source.transactional(work);
  // That of better-sqlite3 neither.
  if (!can(source, 'transaction') || isSqliteHandle(source)) return undefined;
  // Kysely.
  if (can(source, 'getExecutor')) return (work) => source.transaction().execute(work);
  return (work) => source.transaction(work);
}

export function rolledBack(): SvcError {
  return new SvcError(
    'SVC_OUTBOX_ROLLED_BACK',
    'the transaction was rolled back before its COMMIT: one of its statements had failed, and the code went on after the error, or it has sent ROLLBACK itself. Let errors through, or run what may fail behind a SAVEPOINT',
  );
}
