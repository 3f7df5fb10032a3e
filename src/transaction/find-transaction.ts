import type { TransactionEnd } from './driver.ts';
import { currentScope, type Scope } from './scope.ts';
import type { Transaction } from './transaction.ts';

/**
 * The open transactions that a call took part in: the one that the application has named; else those it wrote in, or else read in;
 * of a call that sent nothing by itself, those around it. More than one: nothing says which.
 */
export function findTransactions(own: Scope | undefined = currentScope()): readonly Transaction[] {
  const pinned = pinnedOf(own);
  if (pinned !== undefined) return pinned.isOpen ? [pinned] : [];
  for (let scope = own; scope !== undefined; scope = scope.parent) {
    const open = scope.open();
    if (open.length > 0) return open;
    // What it wrote is committed: its event must not hang on a transaction of somebody else.
    if (scope === own && scope.wroteOutside) return [];
  }
  return [];
}

/** The transaction that the application has named last, around a call. */
export function pinnedOf(own: Scope | undefined): Transaction | undefined {
  for (let scope = own; scope !== undefined; scope = scope.parent)
    if (scope.pinned !== undefined) return scope.pinned;
  return undefined;
}

/** How the transaction of a call ends, once it does; `undefined`: the call took part in none. */
export function endOfTransaction(own: Scope | undefined): Promise<TransactionEnd> | undefined {
  const found = findTransactions(own);
  if (found.length === 0) return undefined;
  const ends = Promise.all(found.map((transaction) => transaction.follow()));
  return ends.then((all) => (all.includes('rolled_back') ? 'rolled_back' : 'committed'));
}
