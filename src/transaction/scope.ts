import { AsyncLocalStorage } from 'node:async_hooks';
import { shared } from '../ground/lifecycle.ts';
import {
  type BeforeCommit,
  type Beginner,
  type CallbackResult,
  nextMoment,
  type Transaction,
} from './transaction.ts';

/**
 * A part of the application that takes part in transactions: a captured function while it runs, the callback of an ORM's
 * `transaction()`, or what follows a BEGIN. Whatever is called and awaited there is inside of it.
 */
export class Scope implements Beginner {
  readonly parent: Scope | undefined;
  /** It has begun with a BEGIN, and ends with nothing: no function encloses it. */
  readonly isFollowUp: boolean;
  /** When it began, in `nextMoment()`. */
  readonly since: number = nextMoment();
  /** Of a captured function that runs and has made no event yet. */
  beforeCommit: BeforeCommit | undefined;
  /** The one event of a captured function is made, before a COMMIT or at its end. */
  hasEvent = false;
  callbackResult: CallbackResult | undefined;
  /** Named by the application: what is called in here belongs to it, whatever else was seen. */
  pinned: Transaction | undefined;
  /** Something was written here that no transaction held, or one that has ended. */
  wroteOutside = false;
  /** The same of any statement. */
  sentOutside = false;
  private used: Use[] = [];

  constructor(parent: Scope | undefined, isFollowUp = false) {
    this.parent = parent;
    this.isFollowUp = isFollowUp;
  }

  /** A statement was called here, or inside of it. */
  uses(transaction: Transaction | undefined, writes: boolean): void {
    for (let scope: Scope | undefined = this; scope !== undefined; scope = scope.parent) {
      if (transaction !== undefined) {
        scope.add(transaction, writes);
        continue;
      }
      scope.sentOutside = true;
      if (writes) scope.wroteOutside = true;
    }
  }

  /** The open transactions it took part in: those it wrote in, where there are any. */
  open(): readonly Transaction[] {
    this.forgetEnded();
    const written = this.used.filter(({ writes }) => writes);
    return (written.length > 0 ? written : this.used).map(({ transaction }) => transaction);
  }

  private add(transaction: Transaction, writes: boolean): void {
    const known = this.used.find((one) => one.transaction === transaction);
    if (known !== undefined) {
      known.writes ||= writes;
      return;
    }
    this.forgetEnded();
    this.used.push({ transaction, writes });
  }

  private forgetEnded(): void {
    if (this.used.every(({ transaction }) => transaction.isOpen)) return;
    if (this.used.some(({ transaction, writes }) => writes && !transaction.isOpen)) this.wroteOutside = true;
    this.used = this.used.filter(({ transaction }) => transaction.isOpen);
  }
}

interface Use {
  readonly transaction: Transaction;
  /** Something was written in it. */
  writes: boolean;
}

const storage = shared('transaction-scopes', () => new AsyncLocalStorage<Scope | undefined>());

export function currentScope(): Scope | undefined {
  return storage.getStore();
}

export function runInScope<R>(scope: Scope | undefined, work: () => R): R {
  return storage.run(scope, work);
}

/** As `runInScope`, without a frame for it: `scope` is that of the caller until it enters the one that is returned. */
export function enterScope(scope: Scope | undefined): Scope | undefined {
  const outer = storage.getStore();
  storage.enterWith(scope);
  return outer;
}

/** What its caller does from now on is inside of the scope: there is no function around it that could be run in one. */
export function enterFollowUp(): Scope {
  let parent = storage.getStore();
  // A function that begins one transaction after the other must not nest them.
  while (parent?.isFollowUp && parent.open().length === 0) parent = parent.parent;
  const scope = new Scope(parent, true);
  storage.enterWith(scope);
  return scope;
}
