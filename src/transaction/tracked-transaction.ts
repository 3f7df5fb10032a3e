import type { StatementKind } from './statements.ts';
import type { Transaction } from './transaction.ts';

/**
 * A transaction as it is seen on its connection: statements are called, and answered later.
 *
 * | It is | as told by | and becomes |
 * |---|---|---|
 * | begun | a BEGIN, SQLite's SAVEPOINT, or a query that begins one was called | open: the database says so; over, and never began: it says that none is open, or the next BEGIN is called |
 * | open | `isConfirmed`; also where the database says so of one that nobody saw begin | waiting: a statement that commits is called, and rows are on their way; committing: none is, or they go in one write with it; rolling back: ROLLBACK is called |
 * | waiting | `sentBeforeCommit` | committing: the database has the rows; rolling back, in place of the COMMIT, which fails: it has not taken one |
 * | committing | `commitIsSent` | over; open again: SQLite has refused the COMMIT |
 * | rolling back | `rollbackIsSent` | over |
 * | over | not in the list of its connection, `transaction.ended` | |
 *
 * A connection that is lost ends all of them: `unknown` where COMMIT was sent, else `rolled_back`. AND CHAIN ends one and opens the
 * next with the same answer.
 */
export interface TrackedTransaction {
  readonly transaction: Transaction;
  /** The database has said that it is open; before that, its BEGIN is on its way. */
  isConfirmed: boolean;
  commitIsSent: boolean;
  /** COMMIT was called: it may still wait, and a BEGIN that is called now begins the next one. */
  commitIsCalled: boolean;
  /** It waits for rows: what was sent before it, and what it waits for goes behind that. */
  sentBeforeCommit?: Promise<void>;
  rollbackIsSent: boolean;
  /** The next one is open when that is answered: AND CHAIN, or a BEGIN in the same text. */
  rollbackChains?: boolean;
  /** SQLite's SAVEPOINT, whose RELEASE commits it; or any query, where the session begins by itself. */
  readonly begunBy: 'begin' | 'savepoint' | 'query';
}

export function isEnding({ commitIsCalled, rollbackIsSent }: TrackedTransaction): boolean {
  return commitIsCalled || rollbackIsSent;
}

/** Of SQLite's transaction that is a savepoint, its RELEASE. */
export function commitsIt(kind: StatementKind, { begunBy, transaction }: TrackedTransaction): boolean {
  if (kind.is === 'release') return begunBy === 'savepoint' && transaction.isOutermost(kind.name);
  return kind.is === 'commit' || kind.is === 'implicit commit' || kind.is === 'prepare';
}

export function followSavepoint(kind: StatementKind, transaction: Transaction): void {
  if (kind.is === 'savepoint') transaction.savepoint(kind.name);
  else if (kind.is === 'release') transaction.release(kind.name);
  else if (kind.is === 'rollback to') transaction.rollbackTo(kind.name);
}

export function isQuery({ is }: StatementKind): boolean {
  return is === 'read' || is === 'write';
}
