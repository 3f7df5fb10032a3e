// transaction/: which transaction of the application a call took part in, and what must be done before that commits.

import { isolate } from '../observe/otel-api.ts';

export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** `aborted`: open, and the database will only roll it back. */
export type TransactionStatus = 'none' | 'open' | 'aborted';

/** `unknown`: its COMMIT was sent, and the answer never came. */
export type TransactionEnd = 'committed' | 'rolled_back' | 'unknown';

/** What a session rejects with, or throws, where the transaction of a statement of svc has ended when its turn has come. */
export class TransactionOver extends Error {
  constructor() {
    super('the transaction is over');
  }
}

/**
 * PORT: one connection of the application, as its driver has it. A folder under `adapters/` patches a driver and implements it.
 *
 * - `status` is what the database itself has said last, never what the text of a statement suggests.
 * - `run` sends a statement of svc behind what the application has sent, with the driver's own unpatched method; nothing of it
 *   is captured or traced. It resolves when the database has answered, or returns `undefined` where the driver is synchronous
 *   and the answer is there. Rejects, or throws, with the driver's error. Outside a transaction it sends nothing but a ROLLBACK, and
 *   nothing where `isOpen` says no when its turn has come: what was sent before it may have begun the next transaction.
 * - `runAll`: the same for several, in one write; the first that the database does not take ends it. With it rows of svc wait for the
 *   application's next statement, and go with its COMMIT where that is one: only for a database that a failed statement dooms the
 *   transaction in.
 * - `isBusy`: whether a statement of the application is on its way, which may not end before the application goes on.
 * - `beginsByItself`: whether the next query begins a transaction without BEGIN, as with MySQL's `autocommit = 0`.
 */
export interface DriverSession {
  readonly dialect: Dialect;
  status(): TransactionStatus;
  isBusy?(): boolean;
  beginsByItself?(): boolean;
  run(statement: Statement, isOpen?: () => boolean): Promise<void> | undefined;
  runAll?(statements: readonly Statement[], isOpen: () => boolean): Promise<void>;
}

/** Where a statement may go: at once, or after the promise; where that rejects, not at all. */
export type Admission = Promise<void> | undefined;

/** Rows of svc that go ahead of a COMMIT, in one write with it. */
export interface RowsBeforeCommit {
  readonly statements: readonly Statement[];
  /** The COMMIT has been answered, in whatever way. */
  answered(): void;
  /** It was not, and may not have been sent: it cannot be sent again without them. */
  unanswered(error: unknown): void;
  /** The database has not taken one of them, nor run the COMMIT. Rejects with the reason, when the transaction is rolled back. */
  refused(error: unknown): Promise<never>;
}

/** What a driver's patch tells of a connection. */
export interface WatchedConnection {
  readonly session: DriverSession;
  /** The transaction that a statement called now is in: open, or about to be. */
  readonly current: object | undefined;
  /**
   * The application sends a statement, and this is called in its context. Throws, or the promise rejects, where a COMMIT must not be
   * sent: the transaction has been rolled back by then.
   */
  sends(text: string): Admission;
  /** The same, for a driver that can write rows ahead of this very statement. */
  sendsWithRows(text: string): Admission | RowsBeforeCommit;
  /** The application sends something that is no statement. */
  sendsNoText(): Admission;
  /** The database has answered: where the connection stands, and how a transaction has ended since its last answer, where it said so. */
  answered(status: TransactionStatus, ended: TransactionEnd | undefined): void;
  /** The connection is gone, and what had not been committed with it. */
  isLost(): void;
  /** The driver is not what its patch was made for: from now on this connection is not followed. */
  isNotUnderstood(error: unknown): void;
}

/** What a driver's patch is made with: it tells of each connection of the application what happens on it. */
export interface Connections {
  /**
   * The same one for the same handle. `make` runs at its first statement. `undefined`: it is not followed, as `make` has thrown, and
   * the application's call goes on without svc.
   */
  of(handle: object, make: (connection: WatchedConnection) => DriverSession): WatchedConnection | undefined;
  /** That of a handle whose statements were seen. */
  seen(handle: object): WatchedConnection | undefined;
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
  /**
   * Follows nothing: only lets the package call back in the context of its caller. Once as well, and throws where it cannot. Left out:
   * the driver calls back before it returns.
   */
  bindCallbacks?(exports: unknown): void;
}

export const dialects = ['postgres', 'mysql', 'sqlite'] as const;
/** The kind of a database. MariaDB is one with MySQL. */
export type Dialect = (typeof dialects)[number];

const schemes: Readonly<Record<string, Dialect>> = {
  'postgres:': 'postgres',
  'postgresql:': 'postgres',
  'mysql:': 'mysql',
  'mariadb:': 'mysql',
  'sqlite:': 'sqlite',
};

/** The kind of database that a URL names; `undefined` where its scheme is of none. */
export function dialectOf(url: string): Dialect | undefined {
  return schemes[/^\w+:/.exec(url)?.[0].toLowerCase() ?? ''];
}

/** What svc runs on it is its own work: not captured, not traced, not seen as the application's. */
export function isolated(session: DriverSession): DriverSession {
  return {
    dialect: session.dialect,
    status: () => session.status(),
    beginsByItself: () => session.beginsByItself?.() === true,
    run: (statement, isOpen) => isolate(() => session.run(statement, isOpen)),
    ...(session.isBusy && { isBusy: () => session.isBusy?.() === true }),
    ...(session.runAll && {
      runAll: (statements, isOpen) =>
        isolate(() => session.runAll?.(statements, isOpen) ?? Promise.resolve()),
    }),
  };
}
