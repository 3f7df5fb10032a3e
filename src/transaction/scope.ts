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
 * A part of the application that takes part in transactions: a captured function while it runs, the callback of an ORM's
 * `transaction()`, or what follows a BEGIN. Whatever is called and awaited there is inside of it.
 */
export class Scope implements OriginScope {
  /** What follows a BEGIN: no function that svc knows encloses it. */
  readonly isImplicit: boolean;
  /** The transaction of that BEGIN. */
  begun: Transaction | undefined;
  /** When it began, in `nextSequence()`. */
  readonly since: number = nextSequence();
  /** Of a captured function that runs and has made no event yet. */
  beforeCommit: BeforeCommit | undefined;
  /** The one event of a captured function is made, before a COMMIT or at its end. */
  hasEvent = false;
  /** It was made before a COMMIT that came to nothing: the function may try again. */
  lostEvent = false;
  /** It takes for its result what the transaction gives that it opens itself. */
  wantsCallbackResult = false;
  /** A function is asked when it matters. */
  callbackResult: CallbackResult | (() => CallbackResult | undefined) | undefined;
  /** Named by the application: what is called in here belongs to it, whatever else was seen. */
  named: Transaction | undefined;
  /** Something was written here that no transaction held, or one that has ended and was not rolled back. */
  wroteOutside = false;
  /** How the latter has ended. */
  endedAs: TransactionEnd | undefined;
  /** The same of any statement. */
  sentOutside = false;
  private used: Use[] = [];
  /** Something was written in a transaction that was rolled back. */
  private hasRolledBackWrite = false;

  private outer: Scope | undefined;
  /** It was called behind a BEGIN that was not answered. */
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

  /** A statement was called here, or inside of it. */
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
   * The open transactions it took part in, of those that `counts`: those it wrote in, where there are any, and there those in which that
   * stands.
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

  /** Whether its event is still to be made, which the caller does then. */
  takeEvent(): boolean {
    const isDue = !this.hasEvent || (this.lostEvent && this.hasTriedAgain());
    this.hasEvent = true;
    this.beforeCommit = undefined;
    if (isDue) this.lostEvent = false;
    return isDue;
  }

  /** What it has written stands; or it has written nothing, and is in the next transaction. */
  private hasTriedAgain(): boolean {
    if (this.hasWriteInEffect()) return true;
    return !this.hasRolledBackWrite && this.used.length > 0;
  }

  /** It has written, and that is not undone. */
  private hasWriteInEffect(): boolean {
    this.forgetEnded();
    return this.wroteOutside || this.used.some(isInEffect);
  }

  /** What is undone in this transaction with all of it: its first write there that stands, or its call. */
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
        // It never began, and held nothing.
        if (use.transaction.ended !== 'rolled_back') this.endedAs = use.transaction.ended;
      } else this.hasRolledBackWrite = true;
    }
    this.used = this.used.filter(({ transaction }) => transaction.isOpen);
  }
}

interface Use {
  readonly transaction: Transaction;
  /** The first write in it that stands, or else one that was undone. */
  wroteAt: number | undefined;
}

function isInEffect({ transaction, wroteAt }: Use): boolean {
  return wroteAt !== undefined && !transaction.hasUndone(wroteAt);
}

/**
 * Behind a BEGIN whose answer its caller waits for. That frame is entered at once, and so is whatever called it without waiting for it: who
 * of them is inside of the transaction shows when an answer of its connection comes. Who goes on with it has waited for it.
 */
interface Entrance {
  /** What is behind it. */
  readonly entered: Scope;
  readonly outer: Place;
  /** The caller waits for nothing: it has sent more in the transaction before its BEGIN was answered. */
  isPassed?: true;
}

/** Where a callback runs: kept as it is, and given back to `runInScope`. */
export type Place = Scope | Entrance | undefined;

const storage = shared('transaction-scopes', () => new AsyncLocalStorage<Place>());

/** The scope that what is called now is in. */
export function currentScope(): Scope | undefined {
  const place = storage.getStore();
  return isEntrance(place) ? pass(place) : place;
}

/** That of a statement in this transaction: who sends one is inside, but for the BEGIN itself. */
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

/** A callback that is called where no context leads back to the caller, such as from a socket: in its scope, for its user. */
export function inScopeOfCaller<F>(callback: F): F {
  if (typeof callback !== 'function') return callback;
  const runAsCaller = asCaller();
  return function (this: unknown, ...given: unknown[]): unknown {
    return runAsCaller(() => Reflect.apply(callback, this, given));
  } as F;
}

/** Runs what is called later as if the caller of now called it: in its scope, and with its values of svc's context. */
export function asCaller(): <R>(work: () => R) => R {
  const place = storage.getStore();
  const runForUser = inStoreOfCaller();
  if (place === undefined) return runForUser;
  return (work) => runInScope(place, () => runForUser(work));
}

/** As `runInScope`, without a frame for it: `place` is that of the caller until it enters the one that is returned. */
export function enterScope(place: Place): Place {
  const outer = storage.getStore();
  storage.enterWith(place);
  return outer;
}

/**
 * What its caller does from now on is inside of the scope: there is no function around it that could be run in one. With `waits` from
 * the answer on, which the caller waits for.
 */
export function enterImplicitScope(waits = true): Scope {
  let parent = currentScope();
  // A function that begins one transaction after the other must not nest them.
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

/** Enters what its caller has waited for. */
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
    // What the caller has begun before it, and waited for, is around it.
    if (!isEntrance(around) && around?.isImplicit) entered.parent = around;
    return entered;
  }
  return around === outer ? entrance : { entered, outer: around };
}

function always(): boolean {
  return true;
}

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
