import type { Dialect } from '../../transaction/dialect.ts';
import { driverExecutor } from './driver-executors.ts';
import type { Executor } from './executor.ts';
import { can, has, isShape, type Shape } from './shape.ts';

/** What the transactions of ORMs and query builders hand to their callbacks. */
export function ormExecutor(given: unknown): Executor | undefined {
  for (const recognise of [knex, kysely, drizzle, typeorm, sequelize, mikroOrm, prisma]) {
    const found = recognise(given);
    if (found !== undefined) return found;
  }
  return undefined;
}

function knex(given: unknown): Executor | undefined {
  if (typeof given !== 'function' || !can(given, 'raw') || !has(given, 'client')) return undefined;
  const { isTransaction } = given as unknown as Shape;
  return executor(given.client.dialect, {
    isOutside: isTransaction !== true,
    execute: async (sql, params) => given.raw(withQuestionMarks(sql), params),
  });
}

function kysely(given: unknown): Executor | undefined {
  if (!can(given, 'executeQuery', 'getExecutor')) return undefined;
  const { isTransaction } = given as unknown as Shape;
  const { adapter } = given.getExecutor() as { adapter?: object };
  return executor(adapter?.constructor.name, {
    isOutside: isTransaction !== true,
    execute: (sql, parameters) => {
      const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] };
      return given.executeQuery({ sql, parameters, query, queryId: { queryId: 'svc-outbox' } });
    },
  });
}

/** It shows the connection of its driver. */
function drizzle(given: unknown): Executor | undefined {
  if (!has(given, 'session', 'dialect')) return undefined;
  return driverExecutor(given.session.client);
}

/** An EntityManager or a QueryRunner. */
function typeorm(given: unknown): Executor | undefined {
  if (!can(given, 'query') || !isShape(given)) return undefined;
  const { connection, dataSource = connection, queryRunner = given } = given as Shape;
  if (!has(dataSource, 'options') || !('type' in dataSource.options)) return undefined;
  const { isTransactionActive } = (queryRunner ?? {}) as { isTransactionActive?: boolean };
  return executor(dataSource.options.type, {
    isOutside: isTransactionActive !== true,
    execute: (sql, params) =>
      (given as { query: (...all: unknown[]) => Promise<unknown> }).query(sql, [...params]),
  });
}

function sequelize(given: unknown): Executor | undefined {
  if (!has(given, 'sequelize') || !can(given, 'commit', 'rollback')) return undefined;
  const { sequelize: database, finished } = given as { sequelize: unknown; finished?: unknown };
  if (!can(database, 'getDialect', 'query')) return undefined;
  return executor(database.getDialect(), {
    isOutside: finished !== undefined,
    execute: (sql, bind) => database.query(withNumbers(sql), { bind: [...bind], transaction: given }),
  });
}

function mikroOrm(given: unknown): Executor | undefined {
  if (!can(given, 'getTransactionContext', 'isInTransaction', 'execute', 'getPlatform')) return undefined;
  const platform = given.getPlatform() as object;
  return executor(platform.constructor.name, {
    isOutside: given.isInTransaction() !== true,
    execute: (sql, params) => given.execute(withQuestionMarks(sql), [...params], 'run'),
  });
}

function prisma(given: unknown): Executor | undefined {
  if (!can(given, '$executeRawUnsafe', '$queryRawUnsafe')) return undefined;
  return executor((given as unknown as Shape)._activeProvider, {
    // Within one it has been taken away.
    isOutside: can(given, '$connect'),
    execute: (sql, params) =>
      /^select/i.test(sql) ? given.$queryRawUnsafe(sql, ...params) : given.$executeRawUnsafe(sql, ...params),
  });
}

const dialectNames: readonly (readonly [RegExp, Dialect])[] = [
  [/postgres|^pg|cockroach/i, 'postgres'],
  [/mysql|maria/i, 'mysql'],
  [/sqlite|libsql/i, 'sqlite'],
];

/** `undefined` where the library speaks to a database that svc has no table in. */
function executor(name: unknown, rest: Omit<Executor, 'dialect'>): Executor | undefined {
  const dialect = dialectNames.find(([pattern]) => pattern.test(String(name)))?.[1];
  // Some of their queries begin when they are waited for: that has to be in here.
  return dialect && { dialect, ...rest, execute: async (sql, params) => await rest.execute(sql, params) };
}

/** The parameters of svc's statements stand in their order, and nothing else looks like one. */
function withQuestionMarks(sql: string): string {
  return sql.replaceAll(/\$\d+/g, '?');
}

function withNumbers(sql: string): string {
  let count = 0;
  return sql.replaceAll('?', () => `$${++count}`);
}
