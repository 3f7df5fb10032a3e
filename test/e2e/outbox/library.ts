import type { Dependencies } from '../../support/packed.ts';
import type { Files } from '../support/run-app.ts';

export type Form = 'esm' | 'cjs' | 'ts';

/** One way of an application to its database, and what svc promises of it. */
export interface Library {
  readonly id: string;
  /** As the table in docs/internals/outbox.md has it. */
  readonly title: string;
  /** Default: PostgreSQL. SQLite is a file. */
  readonly server?: 'postgres' | 'mariadb' | 'mysql' | 'sqlite';
  readonly dependencies: Dependencies;
  /** Run by `npm test` too; the others by the matrix. */
  readonly isEveryday?: boolean;
  readonly form: Form;
  /**
   * Text of the module `database`, which exports `transaction(work)`, `nested(tx, work)` (a savepoint), `insert(tx, id)` (without
   * `tx`: by itself), `close()`, `dataSource()` and, where a caller can end a transaction itself, `begin()`.
   */
  readonly database: string;
  readonly files?: Files;
  /** A script of the application folder that must have run. */
  readonly build?: string;
  /** There is no `begin()`. */
  readonly hasNoBegin?: boolean;
  /** There is no `transaction()` that knows what its callback returned before the COMMIT. */
  readonly hasNoCallbackResult?: boolean;
  /** All transactions of a process share one connection, and can only follow each other. */
  readonly hasOneConnection?: boolean;
  /** The first Node 22 that it runs on. */
  readonly needsNode?: `22.${number}`;
  /** What a user has to know about it, for the table. */
  readonly remark?: string;
}
