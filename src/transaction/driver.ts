// transaction/: which transaction of the application a call took part in, and what must happen before it commits.

export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** `aborted`: open, but the database will only roll it back. */
export type TransactionStatus = 'none' | 'open' | 'aborted';

/** `unknown`: its COMMIT was sent, but never answered. */
export type TransactionEnd = 'committed' | 'rolled_back' | 'unknown';

/** The error of `DriverSession.run` if the transaction of svc's statement has ended before its turn. */
export class TransactionOver extends Error {
  constructor() {
    super('the transaction is over');
  }
}

/**
 * PORT: one connection of the application. A folder under `adapters/` patches a driver and implements it.
 *
 * - `status` is the last status from the database itself, never derived from the text of a statement.
 * - `run` sends a statement of svc after those of the application, with the driver's own unpatched method; it is neither
 * captured nor traced. Resolves when the database has answered; a synchronous driver returns `undefined`. Rejects or throws
 * with the driver's error. Outside a transaction it sends only a ROLLBACK. It sends nothing if `isOpen` returns false at its
 * turn: an earlier statement may have begun the next transaction.
 * - `runAll`: the same for several statements in one write; the first failure ends it. With it, rows of svc wait for the
 * application's next statement, and go in one write with its COMMIT. Only for databases that abort the transaction when a
 * statement fails.
 * - `isBusy`: whether a statement of the application is in flight that may not end before the application continues.
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

/** When a statement may be sent: now, or after the promise; not at all if it rejects. */
export type Admission = Promise<void> | undefined;

/** Rows of svc that precede a COMMIT, in one write with it. */
export interface RowsBeforeCommit {
  readonly statements: readonly Statement[];
  /** The COMMIT has been answered, with success or failure. */
  answered(): void;
  /** The COMMIT was not answered and may not have been sent; it cannot be sent again without the rows. */
  unanswered(error: unknown): void;
  /** The database has rejected a row, and has not run the COMMIT. Rejects with the reason after the rollback. */
  refused(error: unknown): Promise<never>;
}

/** A driver's patch reports the events of a connection to it. */
export interface WatchedConnection {
  readonly session: DriverSession;
  /** The transaction of a statement that is called now: open, or about to be. */
  readonly current: object | undefined;
  /**
   * The application sends a statement; called in its context. Throws or rejects if a COMMIT must not be sent: the transaction
   * has been rolled back by then.
   */
  sends(text: string): Admission;
  /** The same, for a driver that can write rows ahead of this very statement. */
  sendsWithRows(text: string): Admission | RowsBeforeCommit;
  /** The application sends something other than a statement. */
  sendsNoText(): Admission;
  /**
   * The database has answered: the status of the connection, and how a transaction has ended since the last answer, if known.
   */
  answered(status: TransactionStatus, ended: TransactionEnd | undefined): void;
  /** The connection is gone, with everything that was not committed. */
  isLost(): void;
  /** The driver differs from what its patch supports: this connection is no longer followed. */
  isNotUnderstood(error: unknown): void;
}

/** A driver's patch registers the application's connections here. */
export interface Connections {
  /**
   * The same object for the same handle. `make` runs at its first statement. `undefined`: the connection is not followed, as
   * `make` has thrown, and the application's call continues without svc.
   */
  of(handle: object, make: (connection: WatchedConnection) => DriverSession): WatchedConnection | undefined;
  /** The connection of a handle whose statements were seen. */
  seen(handle: object): WatchedConnection | undefined;
}

/** How svc patches one package of a driver. */
export interface DriverPatch {
  /** As an application imports it: `pg`, `mysql2/promise`. */
  readonly specifier: string;
  /**
   * Changes the package's classes in place, once per class. Throws if this version is not supported, with the reason and the
   * remedy.
   */
  patch(exports: unknown, connections: Connections): void;
  /**
   * Follows nothing: only makes callbacks run in the context of their caller. Once per class; throws if it cannot. Omit it if
   * the driver calls back before it returns.
   */
  bindCallbacks?(exports: unknown): void;
}

export const dialects = ['postgres', 'mysql', 'sqlite'] as const;
/** The kind of a database. MariaDB counts as MySQL. */
export type Dialect = (typeof dialects)[number];

const schemes: Readonly<Record<string, Dialect>> = {
  'postgres:': 'postgres',
  'postgresql:': 'postgres',
  'mysql:': 'mysql',
  'mariadb:': 'mysql',
  'sqlite:': 'sqlite',
};

/** The kind of database that a URL names; `undefined` for other schemes. */
export function dialectOf(url: string): Dialect | undefined {
  return schemes[/^\w+:/.exec(url)?.[0].toLowerCase() ?? ''];
}

/** Drivers whose transactions svc cannot follow. */
export const foreignDrivers: readonly { readonly specifier: string; readonly dialect: Dialect }[] = [
  { specifier: 'postgres', dialect: 'postgres' },
  { specifier: 'mariadb', dialect: 'mysql' },
  { specifier: 'sqlite3', dialect: 'sqlite' },
  { specifier: 'libsql', dialect: 'sqlite' },
];

export function foreignText(specifier: string): string {
  return `svc does not follow transactions of the driver ${specifier}. Call functions with outbox events inside outbox.withTransaction(transaction, fn), or open the transaction with outbox.runInTransaction`;
}
