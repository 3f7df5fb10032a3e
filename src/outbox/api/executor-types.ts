import type { OutboxPort } from './executor.ts';

/**
 * What holds an open transaction: a client of `pg`, a connection of `mysql2` or `mariadb`, a handle of `node:sqlite` or
 * `better-sqlite3`, `sql` of postgres.js within `begin`, the transaction object of an ORM, or an `OutboxPort`.
 */
export type OutboxExecutor = OutboxPort | object;

/** What opens transactions: a pool or connection of a driver, `sql` of postgres.js, the database object of an ORM. */
export type OutboxDataSource = object;

// biome-ignore-start lint/suspicious/noExplicitAny: the types of other packages, of which one parameter is looked for
/** What `runInTransaction` hands over: what the driver or the library calls a transaction, or the connection it is on. */
export type TransactionOf<Source> = Source extends {
  totalCount: number;
  connect(callback: (error: any, client: infer Client, done: any) => void): void;
}
  ? NonNullable<Client>
  : Source extends { getConnection(): Promise<infer Connection> }
    ? Connection
    : Source extends { getConnection(callback: (error: any, connection: infer Connection) => any): void }
      ? Connection
      : Source extends { begin(options: string, work: (sql: infer Sql) => any): any }
        ? Sql
        : Source extends { transaction(): { execute(work: (transaction: infer Trx) => any): any } }
          ? Trx
          : Source extends { prepare(sql: string): any; exec(sql: string): any }
            ? Source
            : any;
// biome-ignore-end lint/suspicious/noExplicitAny: as above
