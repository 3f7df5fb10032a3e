// transaction/: which transaction of the application a call took part in, and what must be done before that commits.

import type { Connection } from './connection.ts';
import type { Dialect } from './dialect.ts';

export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** `doomed`: open, and the database will only roll it back. */
export type TransactionStatus = 'none' | 'open' | 'doomed';

/**
 * PORT: one connection of the application, as its driver has it. A folder under `adapters/` patches a driver and implements it.
 *
 * - `status` is what the database itself has said last, never what the text of a statement suggests.
 * - `run` sends a statement of svc behind what the application has sent, with the driver's own unpatched method; nothing of it
 *   is captured or traced. It resolves when the database has answered, or returns `undefined` where the driver is synchronous
 *   and the answer is there. Rejects, or throws, with the driver's error. Outside a transaction it sends nothing but a ROLLBACK.
 * - `beginsByItself`: whether the next query begins a transaction without BEGIN, as with MySQL's `autocommit = 0`.
 */
export interface DriverSession {
  readonly dialect: Dialect;
  status(): TransactionStatus;
  beginsByItself?(): boolean;
  run(statement: Statement): Promise<void> | undefined;
}

/** What a driver's patch is made with: it tells of each connection of the application what happens on it. */
export interface Connections {
  /** The same one for the same handle. `make` runs at its first statement. */
  of(handle: object, make: (connection: Connection) => DriverSession): Connection;
}

/** How svc reaches one package of a driver. */
export interface DriverPatch {
  /** As an application imports it: `pg`, `mysql2/promise`. */
  readonly specifier: string;
  /**
   * Changes the package's classes in place, once however often it is called. Throws where this version of it cannot be followed:
   * the message says why, and what to do.
   */
  patch(exports: unknown, connections: Connections): void;
}
