import { AsyncLocalStorage } from 'node:async_hooks';
import { inStoreOfCaller } from '../context/context-store.ts';
import { shared } from '../ground/lifecycle.ts';
import {
  type BeforeCommit,
  type CallbackResult,
  nextSequence,
  type OriginScope,
  type Transaction,
  type TransactionEnd,
} from './transaction.ts';

/**
 * A part of the application that takes part in transactions: a running captured function, the callback of an ORM's
 * `transaction()`, or the code after a BEGIN. Everything called and awaited there is inside it.
 */
export class Scope implements OriginScope {
  /** The code after a BEGIN: no known function encloses it. */
  readonly isImplicit: boolean;
  /** The transaction of that BEGIN. */
  begun: Transaction | undefined;
  /** When it began, in `nextSequence()`. */
  readonly since: number = nextSequence();
  /** Set by a running captured function that has made no event yet. */
  beforeCommit: BeforeCommit | undefined;
  /** The one event of a captured function exists; it is made before a COMMIT or at the end of the function. */
  hasEvent = false;
  /** That event was made before a COMMIT that failed: the function may retry. */
  lostEvent = false;
  /** The function's result is that of the transaction it opens. */
  wantsCallbackResult = false;
  /** A function is called when the result is needed. */
  callbackResult: CallbackResult | (() => CallbackResult | undefined) | undefined;
  /** Named by the application: all calls in here belong to it. */
  named: Transaction | undefined;
  /** Something was written outside any transaction, or in one that has ended without a rollback. */
  wroteOutside = false;
  /** How that transaction has ended. */
  endedAs: TransactionEnd | undefined;
  /** Like `wroteOutside`, for any statement. */
  sentOutside = false;
  private used: Use[] = [];
  /** Something was written in a transaction that was rolled back. */
  private hasRolledBackWrite = false;

  private outer: Scope | undefined;
  /** Set if it was called after a BEGIN that is not answered yet. */
  private readonly entrance: Entrance | undefined;

  constructor(parent: Scope | undefined, isImplicit = false) {
    this.outer = parent;
    this.isImplicit = isImplicit;
    const place = storage.getStore();
    if (!isImplicit && isEntrance(place)) this.entrance = place;
  }

  get parent(): Scope | undefined {
    return this.entrance?.isPassed === true ? this.entrance.entered : this.outer;
  }

  set parent(parent: Scope | undefined) {
    this.outer = parent;
  }

  /** A statement was called here or inside. */
  uses(transaction: Transaction | undefined, writes: boolean): void {
    const wroteAt = writes ? nextSequence() : undefined;
    for (let scope: Scope | undefined = this; scope !== undefined; scope = scope.parent) {
      if (transaction !== undefined) {
        scope.add(transaction, wroteAt);
        continue;
      }
      scope.sentOutside = true;
      if (writes) scope.wroteOutside = true;
    }
  }

  /**
   * The open transactions it took part in that `counts` accepts. If it wrote in any: only those in which a write is in effect.
   */
  open(counts: (transaction: Transaction) => boolean = always): readonly Transaction[] {
    this.forgetEnded();
    const used = this.used.filter(({ transaction }) => counts(transaction));
    const written = used.filter(({ wroteAt }) => wroteAt !== undefined);
    const inEffect = written.filter(isInEffect);
    const found = [inEffect, written, used].find(({ length }) => length > 0) ?? [];
    return found.map(({ transaction }) => transaction);
  }

  get wroteAndLostAll(): boolean {
    const hasWritten = this.hasRolledBackWrite || this.used.some(({ wroteAt }) => wroteAt !== undefined);
    return hasWritten && !this.hasWriteInEffect();
  }

  /** Whether its event must still be made; the caller makes it then. */
  takeEvent(): boolean {
    const isDue = !this.hasEvent || (this.lostEvent && this.hasTriedAgain());
    this.hasEvent = true;
    this.beforeCommit = undefined;
    if (isDue) this.lostEvent = false;
    return isDue;
  }

  /** Its writes are in effect; or it has written nothing and is in the next transaction. */
  private hasTriedAgain(): boolean {
    if (this.hasWriteInEffect()) return true;
    return !this.hasRolledBackWrite && this.used.length > 0;
  }

  /** It has written, and not all of that is undone. */
  private hasWriteInEffect(): boolean {
    this.forgetEnded();
    return this.wroteOutside || this.used.some(isInEffect);
  }

  /** A rollback of this transaction to before this point undoes it completely: its first write in effect, or its call. */
  startIn(transaction: Transaction): number {
    return this.used.find((one) => one.transaction === transaction)?.wroteAt ?? this.since;
  }

  private add(transaction: Transaction, wroteAt: number | undefined): void {
    const known = this.used.find((one) => one.transaction === transaction);
    if (known !== undefined) {
      if (wroteAt !== undefined && !isInEffect(known)) known.wroteAt = wroteAt;
      return;
    }
    this.forgetEnded();
    this.used.push({ transaction, wroteAt });
  }

  private forgetEnded(): void {
    if (this.used.every(({ transaction }) => transaction.isOpen)) return;
    for (const use of this.used) {
      if (use.transaction.isOpen || use.wroteAt === undefined) continue;
      if (isInEffect(use)) {
        this.wroteOutside = true;
        // The transaction never began, and held nothing.
        if (use.transaction.ended !== 'rolled_back') this.endedAs = use.transaction.ended;
      } else this.hasRolledBackWrite = true;
    }
    this.used = this.used.filter(({ transaction }) => transaction.isOpen);
  }
}

interface Use {
  readonly transaction: Transaction;
  /** The first write in effect, or else one that was undone. */
  wroteAt: number | undefined;
}

function isInEffect({ transaction, wroteAt }: Use): boolean {
  return wroteAt !== undefined && !transaction.hasUndone(wroteAt);
}

/**
 * After a BEGIN whose answer the caller awaits. The caller's frame is entered at once, and with it every caller that does not
 * await it. When the answer of the connection arrives, the code that continues has awaited it, and so is inside the
 * transaction.
 */
interface Entrance {
  /** The scope behind it. */
  readonly entered: Scope;
  readonly outer: Place;
  /** The caller does not wait: it has sent more in the transaction before its BEGIN was answered. */
  isPassed?: true;
}

/** The place where a callback runs: opaque to callers, for `runInScope`. */
export type Place = Scope | Entrance | undefined;

const storage = shared('transaction-scopes', () => new AsyncLocalStorage<Place>());

/** The current scope. */
export function currentScope(): Scope | undefined {
  const place = storage.getStore();
  return isEntrance(place) ? pass(place) : place;
}

/** The scope of a statement in this transaction. Its caller is inside, except for the BEGIN itself. */
export function scopeIn(transaction: Transaction | undefined, isBegin: boolean): Scope | undefined {
  for (let place = storage.getStore(); isEntrance(place); place = place.outer) {
    const { entered } = place;
    if (entered.begun !== transaction) continue;
    if (isBegin) return entered;
    if (entered.begun?.wasAnswered === false) place.isPassed = true;
    storage.enterWith(entered);
    return entered;
  }
  return currentScope();
}

export function runInScope<R>(place: Place, work: () => R): R {
  return storage.run(place, work);
}

/** Binds a callback to the current scope and user, as it may be called without a context, such as from a socket. */
export function inScopeOfCaller<F>(callback: F): F {
  if (typeof callback !== 'function') return callback;
  const runAsCaller = asCaller();
  return function (this: unknown, ...given: unknown[]): unknown {
    return runAsCaller(() => Reflect.apply(callback, this, given));
  } as F;
}

/** Runs work later as if the current caller called it: in its scope, and with its values of svc's context. */
export function asCaller(): <R>(work: () => R) => R {
  const place = storage.getStore();
  const runForUser = inStoreOfCaller();
  if (place === undefined) return runForUser;
  return (work) => runInScope(place, () => runForUser(work));
}

/** Like `runInScope`, without a frame: the caller's place becomes `place`, and the previous one is returned. */
export function enterScope(place: Place): Place {
  const outer = storage.getStore();
  storage.enterWith(place);
  return outer;
}

/**
 * The caller's next calls are inside the scope, as no function encloses them. `waits`: from the answer to BEGIN on.
 */
export function enterImplicitScope(waits = true): Scope {
  let parent = currentScope();
  // A function that begins consecutive transactions must not nest them.
  while (parent?.isImplicit && parent.open().length === 0) parent = parent.parent;
  const entered = new Scope(parent, true);
  let outer = storage.getStore();
  while (outer !== undefined && isOver(outer)) outer = isEntrance(outer) ? outer.outer : outer.parent;
  storage.enterWith(waits ? { entered, outer } : entered);
  return entered;
}

function isOver(place: Scope | Entrance): boolean {
  if (isEntrance(place)) return place.entered.begun?.isOpen === false;
  return place.isImplicit && place.open().length === 0;
}

function isEntrance(place: Place): place is Entrance {
  return place !== undefined && 'entered' in place;
}

/** Enters the scope that the caller has awaited. */
function pass(entrance: Entrance): Scope | undefined {
  const found = passed(entrance);
  if (found !== entrance) storage.enterWith(found);
  let place: Place = found;
  while (isEntrance(place)) place = place.outer;
  return place;
}

function passed(entrance: Entrance): Place {
  const { entered, outer } = entrance;
  const around = isEntrance(outer) ? passed(outer) : outer;
  const { begun } = entered;
  if (begun?.isOpen === true && begun.isAnswering) {
    // A scope that the caller has begun and awaited before encloses this one.
    if (!isEntrance(around) && around?.isImplicit) entered.parent = around;
    return entered;
  }
  return around === outer ? entrance : { entered, outer: around };
}

function always(): boolean {
  return true;
}

/**
 * The open transactions of a call: the one that the application has named, else those it wrote in, else those it
 * read in. A call without statements takes part in those around it. Several: the transaction is ambiguous. None: also if some of
 * its writes are committed, as they stay whatever happens to the rest. A transaction that is committing right now still counts.
 */
export function findTransactions(own: Scope | undefined = currentScope()): readonly Transaction[] {
  const named = namedOf(own);
  if (named !== undefined) return named.isOpen ? [named] : [];
  for (let scope = own; scope !== undefined; scope = scope.parent) {
    if (scope.isImplicit) scope = outermostImplicit(scope);
    const open = scope.isImplicit ? begunAround(own, scope) : scope.open();
    // Its writes are committed, so its event must not depend on another transaction.
    if (scope === own && scope.wroteOutside) return open.filter(({ isCommitting }) => isCommitting);
    if (open.length > 0) return open;
  }
  return [];
}

/** The transactions that must not commit if the event of a call cannot be made: of several, those that the call itself used. */
export function transactionsToFail(own: Scope | undefined = currentScope()): readonly Transaction[] {
  const found = findTransactions(own);
  return found.length === 1 ? found : (own?.open() ?? []);
}

/** A function that has begun two transactions is in both: the transaction of its calls is ambiguous. */
function outermostImplicit(scope: Scope): Scope {
  let outermost = scope;
  while (outermost.parent?.isImplicit) outermost = outermost.parent;
  return outermost;
}

/**
 * Without transactions that others have begun beside this one, and without those whose COMMIT is in flight: the next one on
 * that connection has begun.
 */
function begunAround(own: Scope | undefined, outermost: Scope): readonly Transaction[] {
  const around = new Set<unknown>();
  for (let scope = own; scope !== undefined; scope = scope.parent) around.add(scope);
  const open = outermost.open(
    ({ scope }) => scope === undefined || !(scope as Scope).isImplicit || around.has(scope),
  );
  return open.filter((one, index) => !open.some(({ session }, at) => at > index && session === one.session));
}

/** The transaction that the application has named last around a call. */
export function namedOf(own: Scope | undefined): Transaction | undefined {
  for (let scope = own; scope !== undefined; scope = scope.parent)
    if (scope.named !== undefined) return scope.named;
  return undefined;
}

/** The call's writes are rolled back; or it wrote nothing, and its enclosing scope is undone. */
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

/** A rollback to before this point undoes the event of a call; no other rollback does. */
export function startIn(transaction: Transaction, own: Scope | undefined): number {
  return own === undefined || own.isImplicit ? nextSequence() : own.startIn(transaction);
}
