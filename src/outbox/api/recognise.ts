import { SvcError } from '../../ground/errors.ts';
import { driverExecutor } from './driver-executors.ts';
import type { Executor } from './executor.ts';
import { ormExecutor } from './orm-executors.ts';
import { can, isShape } from './shape.ts';

/** @throws SvcError `SVC_OUTBOX_EXECUTOR` */
export function executorOf(given: unknown): Executor {
  const found = portExecutor(given) ?? driverExecutor(given) ?? ormExecutor(given);
  if (found !== undefined) return found;
  throw new SvcError(
    'SVC_OUTBOX_EXECUTOR',
    `the outbox cannot write through what it was given${isPool(given) ? ', which is a pool: a transaction is on one of its connections' : ''}. It takes a client of pg, a connection of mysql2 or mariadb, a handle of node:sqlite or better-sqlite3, sql of postgres.js, the transaction object of Knex, Kysely, Drizzle, Prisma or Sequelize, an EntityManager or QueryRunner of TypeORM, an EntityManager of MikroORM, or { dialect: 'postgres' | 'mysql' | 'sqlite', execute(sql, params) }`,
  );
}

function portExecutor(given: unknown): Executor | undefined {
  if (!can(given, 'execute')) return undefined;
  const { dialect } = given as { dialect?: unknown };
  if (dialect !== 'postgres' && dialect !== 'mysql' && dialect !== 'sqlite') return undefined;
  return { dialect, execute: async (sql, params) => given.execute(sql, [...params]) };
}

function isPool(given: unknown): boolean {
  return can(given, 'getConnection') || (isShape(given) && 'totalCount' in given);
}
