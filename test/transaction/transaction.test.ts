import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import type { TransactionEnd } from '../../src/transaction/driver.ts';
import {
  endOfTransaction,
  findTransactions,
  nextSequence,
  runInScope,
  Scope,
  Transaction,
} from '../../src/transaction/transaction.ts';

function newTransaction(): Transaction {
  return new Transaction({ dialect: 'sqlite', status: () => 'open', run: () => undefined }, undefined);
}

const insert = { text: 'INSERT', values: [] };
const same = (error: unknown): unknown => error;

describe('savepoints of a transaction', () => {
  type Step = ['event', string] | ['savepoint' | 'release' | 'rollbackTo', string];
  const cases: readonly [string, readonly Step[], string][] = [
    [
      'what came after it goes',
      [
        ['event', '1'],
        ['savepoint', 'a'],
        ['event', '2'],
        ['rollbackTo', 'a'],
      ],
      '1',
    ],
    [
      'what comes after the rollback stays',
      [
        ['savepoint', 'a'],
        ['event', '1'],
        ['rollbackTo', 'a'],
        ['event', '2'],
      ],
      '2',
    ],
    [
      'it can be gone back to again',
      [
        ['savepoint', 'a'],
        ['event', '1'],
        ['rollbackTo', 'a'],
        ['event', '2'],
        ['rollbackTo', 'a'],
      ],
      '',
    ],
    [
      'a released one undoes nothing',
      [
        ['savepoint', 'a'],
        ['event', '1'],
        ['release', 'a'],
        ['rollbackTo', 'a'],
      ],
      '1',
    ],
    [
      'the outer one undoes the inner',
      [
        ['savepoint', 'a'],
        ['savepoint', 'b'],
        ['event', '1'],
        ['release', 'b'],
        ['rollbackTo', 'a'],
      ],
      '',
    ],
    [
      'the inner one leaves the outer',
      [
        ['savepoint', 'a'],
        ['event', '1'],
        ['savepoint', 'b'],
        ['event', '2'],
        ['rollbackTo', 'b'],
        ['release', 'a'],
      ],
      '1',
    ],
    [
      'of one name, the last counts',
      [
        ['savepoint', 'a'],
        ['event', '1'],
        ['savepoint', 'a'],
        ['event', '2'],
        ['rollbackTo', 'a'],
      ],
      '1',
    ],
    [
      'of one name, then the one before',
      [
        ['savepoint', 'a'],
        ['event', '1'],
        ['savepoint', 'a'],
        ['release', 'a'],
        ['event', '2'],
        ['rollbackTo', 'a'],
      ],
      '',
    ],
    [
      'releasing the outer one releases the inner',
      [
        ['savepoint', 'a'],
        ['savepoint', 'b'],
        ['release', 'a'],
        ['event', '1'],
        ['rollbackTo', 'b'],
      ],
      '1',
    ],
    [
      'going back to the outer one forgets the inner',
      [
        ['savepoint', 'a'],
        ['savepoint', 'b'],
        ['rollbackTo', 'a'],
        ['event', '1'],
        ['rollbackTo', 'b'],
      ],
      '1',
    ],
    [
      'names that are not there are nothing',
      [
        ['event', '1'],
        ['rollbackTo', 'x'],
        ['release', 'x'],
      ],
      '1',
    ],
  ];
  for (const [title, steps, kept] of cases) {
    it(title, async () => {
      const transaction = newTransaction();
      const ends = new Map<string, Promise<TransactionEnd | 'left out'>>();
      for (const [what, name] of steps)
        if (what === 'event') ends.set(name, transaction.join(insert, nextSequence(), same).ended);
        else transaction[what](name);
      transaction.hasEnded('committed');
      const all = await Promise.all([...ends].map(async ([name, end]) => [name, await end] as const));
      assert.equal(
        all
          .filter(([, end]) => end === 'committed')
          .map(([name]) => name)
          .join(' '),
        kept,
      );
    });
  }

  it('forgive a failure of a function that began after them', () => {
    const transaction = newTransaction();
    transaction.savepoint('a');
    transaction.fail(new Error('why'), nextSequence());
    transaction.savepoint('b');
    transaction.rollbackTo('b');
    assert.throws(() => transaction.beforeCommit(undefined), /why/);
    transaction.rollbackTo('a');
    assert.equal(transaction.beforeCommit(undefined), undefined);
  });

  it('do not forgive that of a function that began before them', () => {
    const transaction = newTransaction();
    const since = nextSequence();
    transaction.savepoint('a');
    transaction.fail(new Error('why'), since);
    transaction.rollbackTo('a');
    assert.throws(() => transaction.beforeCommit(undefined), /why/);
  });

  it('forgive the later failure and keep the earlier', () => {
    const transaction = newTransaction();
    transaction.fail(new Error('first'), nextSequence());
    transaction.savepoint('a');
    transaction.fail(new Error('second'), nextSequence());
    transaction.rollbackTo('a');
    assert.throws(() => transaction.beforeCommit(undefined), /first/);
  });

  it('keep the failure of a longer function, whichever came first', () => {
    const transaction = newTransaction();
    const outer = nextSequence();
    transaction.savepoint('a');
    transaction.fail(new Error('inner'), nextSequence());
    transaction.fail(new Error('outer'), outer);
    transaction.rollbackTo('a');
    assert.throws(() => transaction.beforeCommit(undefined), /outer/);
  });
});

describe('the transactions of a call', () => {
  const found = (scope: Scope) => findTransactions(scope);

  it('are those it wrote in, or else read in', () => {
    const [scope, written, seen] = [new Scope(undefined), newTransaction(), newTransaction()];
    scope.uses(seen, false);
    assert.deepEqual(found(scope), [seen]);
    scope.uses(written, true);
    assert.deepEqual(found(scope), [written]);
    scope.uses(seen, true);
    assert.deepEqual(found(scope).length, 2);
    written.hasEnded('rolled_back');
    assert.deepEqual(found(scope), [seen]);
  });

  it('are none where some of what it wrote is committed, but for one that commits right now', () => {
    const [scope, first, second] = [new Scope(undefined), newTransaction(), newTransaction()];
    scope.uses(first, true);
    scope.uses(second, true);
    first.hasEnded('committed');
    assert.deepEqual(found(scope), []);
    second.isCommitting = true;
    assert.deepEqual(found(scope), [second]);
  });

  it('are those of functions inside of it as well, and of those around it where it has none', () => {
    const [outer, transaction, other] = [new Scope(undefined), newTransaction(), newTransaction()];
    const [left, right] = [new Scope(outer), new Scope(outer)];
    left.uses(transaction, true);
    assert.deepEqual(
      [found(left), found(right), found(outer)],
      [[transaction], [transaction], [transaction]],
    );
    right.uses(other, true);
    assert.deepEqual([found(left), found(right)], [[transaction], [other]]);
    assert.equal(found(new Scope(outer)).length, 2);
  });

  it('are not those around it where it has written outside, or in one that is over', () => {
    const [outer, around, own] = [new Scope(undefined), newTransaction(), newTransaction()];
    outer.uses(around, true);
    const [outside, late, reads] = [new Scope(outer), new Scope(outer), new Scope(outer)];
    outside.uses(undefined, true);
    late.uses(own, true);
    reads.uses(undefined, false);
    own.hasEnded('committed');
    assert.deepEqual([found(outside), found(late), found(reads)], [[], [], [around]]);
  });

  it('side by side are not mixed', async () => {
    const all = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const [scope, transaction] = [new Scope(undefined), newTransaction()];
        return runInScope(scope, async () => {
          await turn();
          Scope.enterImplicit().uses(transaction, true);
          await turn();
          const [own, ...others] = findTransactions();
          return own === transaction && others.length === 0;
        });
      }),
    );
    assert.deepEqual(new Set(all), new Set([true]));
  });

  it('are forgotten when they are over', () => {
    const scope = new Scope(undefined);
    for (let count = 0; count < 1000; count++) {
      const transaction = newTransaction();
      scope.uses(transaction, true);
      transaction.hasEnded('committed');
    }
    scope.uses(newTransaction(), true);
    assert.equal((scope as unknown as { used: readonly unknown[] }).used.length, 1);
  });

  it('have rolled back where one of them has', async () => {
    const [scope, one, two] = [new Scope(undefined), newTransaction(), newTransaction()];
    assert.equal(endOfTransaction(scope), undefined);
    scope.uses(one, true);
    scope.uses(two, true);
    const ended = endOfTransaction(scope);
    one.hasEnded('committed');
    two.hasEnded('rolled_back');
    assert.equal(await ended, 'rolled_back');
  });
});

describe('a transaction that the application has named', () => {
  it('is the one of all that is called in it, whatever else was used there', () => {
    const [named, other] = [newTransaction(), newTransaction()];
    const scope = new Scope(undefined);
    scope.named = named;
    const inner = new Scope(scope);
    inner.uses(other, true);
    assert.deepEqual(findTransactions(inner), [named]);
  });

  it('gives way to one that is named further inside', () => {
    const [outer, inner] = [newTransaction(), newTransaction()];
    const scope = new Scope(undefined);
    scope.named = outer;
    const nested = new Scope(scope);
    nested.named = inner;
    assert.deepEqual(findTransactions(new Scope(nested)), [inner]);
  });

  it('is none once it has ended: what goes on is in no other one', () => {
    const [named, other] = [newTransaction(), newTransaction()];
    const scope = new Scope(undefined);
    scope.named = named;
    scope.uses(other, true);
    named.hasEnded('committed');
    assert.deepEqual(findTransactions(scope), []);
  });
});
