import type { TransactionEnd } from './driver.ts';
import { currentScope, type Scope } from './scope.ts';
import { nextSequence, type Transaction } from './transaction.ts';

/**
 * The open transactions that a call took part in: the one that the application has named; else those it wrote in, or else read in;
 * of a call that sent nothing by itself, those around it. More than one: nothing says which. None: also where some of what it wrote is
 * committed, for that stands whatever becomes of the rest; but for a transaction that commits right now.
 */
export function findTransactions(own: Scope | undefined = currentScope()): readonly Transaction[] {
  const named = namedOf(own);
  if (named !== undefined) return named.isOpen ? [named] : [];
  for (let scope = own; scope !== undefined; scope = scope.parent) {
    if (scope.isImplicit) scope = outermostImplicit(scope);
    const open = scope.isImplicit ? begunAround(own, scope) : scope.open();
    // What it wrote is committed: its event must not hang on a transaction of somebody else.
    if (scope === own && scope.wroteOutside) return open.filter(({ isCommitting }) => isCommitting);
    if (open.length > 0) return open;
  }
  return [];
}

/** Those that must not commit where the event of a call cannot be made: of several, those that the call itself has used. */
export function transactionsToFail(own: Scope | undefined = currentScope()): readonly Transaction[] {
  const found = findTransactions(own);
  return found.length === 1 ? found : (own?.open() ?? []);
}

/** A function that has begun two transactions is in both: nothing says which of them is that of what it calls. */
function outermostImplicit(scope: Scope): Scope {
  let outermost = scope;
  while (outermost.parent?.isImplicit) outermost = outermost.parent;
  return outermost;
}

/** Without those that others have begun beside this one, and those of which the COMMIT is on its way: the next on that connection is begun. */
function begunAround(own: Scope | undefined, outermost: Scope): readonly Transaction[] {
  const around = new Set<unknown>();
  for (let scope = own; scope !== undefined; scope = scope.parent) around.add(scope);
  const open = outermost.open(
    ({ scope }) => scope === undefined || !(scope as Scope).isImplicit || around.has(scope),
  );
  return open.filter((one, index) => !open.some(({ session }, at) => at > index && session === one.session));
}

/** The transaction that the application has named last, around a call. */
export function namedOf(own: Scope | undefined): Transaction | undefined {
  for (let scope = own; scope !== undefined; scope = scope.parent)
    if (scope.named !== undefined) return scope.named;
  return undefined;
}

/** What a call has written is rolled back; or it has written nothing, and was called within what is. */
export function isUndone(own: Scope): boolean {
  if (own.wroteAndLostAll) return true;
  return findTransactions(own).some((transaction) => transaction.hasUndone(own.startIn(transaction)));
}

/** How the transaction of a call ends, once it does; `undefined`: the call took part in none. */
export function endOfTransaction(own: Scope | undefined): Promise<TransactionEnd> | undefined {
  if (own !== undefined && isUndone(own)) return Promise.resolve('rolled_back');
  const found = findTransactions(own);
  if (found.length === 0) return undefined;
  const ends = Promise.all(found.map((transaction) => transaction.follow(startIn(transaction, own))));
  return ends.then((all) => (all.includes('rolled_back') ? 'rolled_back' : 'committed'));
}

/** What is undone with this undoes the event of a call, and nothing else does. */
export function startIn(transaction: Transaction, own: Scope | undefined): number {
  return own === undefined || own.isImplicit ? nextSequence() : own.startIn(transaction);
}
