import type { StatementKind } from './statements.ts';
import type { Transaction } from './transaction.ts';

/** A transaction as it goes by on its connection: statements are called, and answered later. */
export interface Course {
  readonly transaction: Transaction;
  /** The database has said that it is open; before that, its BEGIN is on its way. */
  isConfirmed: boolean;
  commitIsSent: boolean;
  /** COMMIT was called: it may still wait, and a BEGIN that is called now begins the next one. */
  commitIsCalled: boolean;
  /** It waits for rows: what was sent before it, and what it waits for goes behind that. */
  commitTurn?: Promise<void>;
  rollbackIsSent: boolean;
  /** The next one is open when that is answered: AND CHAIN, or a BEGIN in the same text. */
  rollbackGoesOn?: boolean;
  /** SQLite's SAVEPOINT, whose RELEASE commits it; or any query, where the session begins by itself. */
  readonly begunBy: 'begin' | 'savepoint' | 'query';
}

export function isLeaving({ commitIsCalled, rollbackIsSent }: Course): boolean {
  return commitIsCalled || rollbackIsSent;
}

/** Of SQLite's transaction that is a savepoint, its RELEASE. */
export function commitsIt(kind: StatementKind, { begunBy, transaction }: Course): boolean {
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
