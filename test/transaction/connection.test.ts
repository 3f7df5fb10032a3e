import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import {
  currentScope,
  runInScope,
  Scope,
  type Transaction,
  type TransactionEnd,
} from '../../src/transaction/transaction.ts';
import { type FakeConnection, fakeConnection, loseConnections } from './fake-session.ts';

const statement = (text: string) => ({ text, values: [] });
const same = (error: unknown): unknown => error;

/** Begun, and answered. */
async function begun(
  fake: FakeConnection = fakeConnection(),
): Promise<{ fake: FakeConnection; transaction: Transaction }> {
  await fake.run('BEGIN', 'open');
  return { fake, transaction: fake.connection.current as Transaction };
}

/** How it has ended, or that it has not. */
function endOf(ended: Promise<TransactionEnd | 'left out'>): Promise<TransactionEnd | 'left out' | 'open'> {
  return Promise.race([ended, turn('open' as const)]);
}

function settling(promise: Promise<unknown> | undefined): { state: string } {
  const seen = { state: promise === undefined ? 'at once' : 'waits' };
  promise?.then(
    () => {
      seen.state = 'goes';
    },
    (error: Error) => {
      seen.state = error.message;
    },
  );
  return seen;
}

describe('a COMMIT', () => {
  afterEach(loseConnections);

  it('goes at once where nothing is to be waited for', async () => {
    const { fake } = await begun();
    assert.equal(fake.connection.sends('COMMIT'), undefined);
  });

  it('waits until all that svc has sent is answered', async () => {
    const { fake, transaction } = await begun();
    const [one, two] = [
      transaction.join(statement('one'), 1, same),
      transaction.join(statement('two'), 2, same),
    ];
    const commit = settling(fake.connection.sends('COMMIT'));
    await fake.answer();
    assert.equal(commit.state, 'waits');
    await fake.answer();
    assert.equal(commit.state, 'goes');
    fake.connection.answered('none', 'committed');
    assert.deepEqual([await one.ended, await two.ended], ['committed', 'committed']);
    assert.deepEqual(fake.sent, ['one', 'two']);
  });

  it('waits for what is sent while it waits', async () => {
    const { fake, transaction } = await begun();
    transaction.join(statement('one'), 1, same);
    const commit = settling(fake.connection.sends('COMMIT'));
    transaction.join(statement('two'), 2, same);
    await fake.answer();
    await turn();
    assert.equal(commit.state, 'waits');
    await fake.answer();
    assert.equal(commit.state, 'goes');
  });

  it('becomes ROLLBACK where one was not taken, and fails with the error as it was explained', async () => {
    const { fake, transaction } = await begun();
    const joined = transaction.join(statement('one'), 1, () => new Error('explained'));
    const written = settling(joined.written);
    const commit = settling(fake.connection.sends('COMMIT'));
    await fake.answer(new Error('with values'));
    assert.deepEqual(fake.sent, ['one', 'ROLLBACK']);
    assert.equal(commit.state, 'waits');
    fake.connection.answered('none', 'rolled_back');
    await fake.answer();
    assert.deepEqual([commit.state, written.state], ['explained', 'explained']);
    assert.equal(await joined.ended, 'rolled_back');
  });

  it('fails with that error though the ROLLBACK fails too', async () => {
    const { fake, transaction } = await begun();
    transaction.fail(new Error('why'), 1);
    const commit = settling(fake.connection.sends('COMMIT'));
    await fake.answer(new Error('lost'));
    assert.equal(commit.state, 'why');
  });

  it('fails at once where the driver is synchronous', async () => {
    const { fake, transaction } = await begun(fakeConnection('sqlite', 'sync'));
    assert.throws(() => transaction.join(statement('fails'), 1, () => new Error('explained')), /explained/);
    assert.throws(() => fake.connection.sends('COMMIT'), /explained/);
    assert.deepEqual(fake.sent, ['fails', 'ROLLBACK']);
    assert.equal(fake.connection.current, undefined);
  });

  it('has the events written of functions that began the transaction and still run', async () => {
    const fake = fakeConnection();
    const [outer, inner] = [new Scope(undefined), new Scope(undefined)];
    const order: string[] = [];
    await runInScope(outer, async () => {
      outer.beforeCommit = () => {
        order.push('outer');
        return fake.connection.current?.join(statement('outer'), outer.since, same).written;
      };
      const nested = new Scope(outer);
      nested.beforeCommit = () => {
        order.push('nested');
        return undefined;
      };
      await runInScope(nested, () => fake.run('BEGIN', 'open'));
      // This one takes part in the transaction, and did not begin it.
      inner.beforeCommit = () => {
        order.push('inner');
        return undefined;
      };
      await runInScope(inner, () => fake.run('INSERT', 'open'));
      const commit = settling(fake.connection.sends('COMMIT'));
      assert.deepEqual(order, ['nested', 'outer']);
      await fake.answer();
      assert.equal(commit.state, 'goes');
    });
  });

  it('fails where such an event cannot be made', async () => {
    const fake = fakeConnection();
    const scope = new Scope(undefined);
    scope.beforeCommit = () => {
      throw new Error('refused');
    };
    await runInScope(scope, () => fake.run('BEGIN', 'open'));
    const commit = settling(fake.connection.sends('COMMIT'));
    await fake.answer();
    assert.equal(commit.state, 'refused');
  });

  it('knows what the callback around it returned', async () => {
    const fake = fakeConnection();
    const scope = new Scope(undefined);
    const seen: unknown[] = [];
    scope.beforeCommit = (result) => {
      seen.push(result?.value);
      return undefined;
    };
    await runInScope(scope, async () => {
      const boundary = new Scope(scope);
      await runInScope(boundary, async () => {
        await fake.run('BEGIN', 'open');
        boundary.callbackResult = { value: 7 };
        fake.connection.sends('COMMIT');
      });
    });
    assert.deepEqual(seen, [7]);
  });

  it('that nobody saw coming raises the alarm where an event is missing, and only there', async () => {
    const [quiet, missing] = [await begun(), await begun()];
    quiet.fake.connection.answered('none', 'committed');
    missing.transaction.join(statement('one'), 1, same);
    missing.fake.connection.answered('none', 'committed');
    assert.deepEqual([quiet.fake.ungated, missing.fake.ungated], [0, 1]);
  });
});

describe('what is sent behind a COMMIT that waits', () => {
  afterEach(loseConnections);

  it('goes after it, in its order', async () => {
    const { fake, transaction } = await begun();
    transaction.join(statement('one'), 1, same);
    const order: string[] = [];
    for (const text of ['COMMIT', 'SELECT 1', 'SELECT 2'])
      void fake.connection.sends(text)?.then(() => order.push(text));
    void fake.connection.sendsNoText()?.then(() => order.push('no text'));
    await turn();
    assert.deepEqual(order, []);
    await fake.answer();
    assert.deepEqual(order, ['COMMIT', 'SELECT 1', 'SELECT 2', 'no text']);
    assert.equal(fake.connection.sends('SELECT 3'), undefined);
  });

  it('goes also where the COMMIT has failed', async () => {
    const { fake, transaction } = await begun();
    transaction.fail(new Error('why'), 1);
    const commit = settling(fake.connection.sends('COMMIT'));
    const next = settling(fake.connection.sends('SELECT 1'));
    await fake.answer();
    assert.deepEqual([commit.state, next.state], ['why', 'goes']);
  });

  it('may be the next transaction, with its own events and its own end', async () => {
    const { fake, transaction: first } = await begun();
    const one = first.join(statement('one'), 1, same);
    void fake.connection.sends('COMMIT');
    void fake.connection.sends('BEGIN');
    const second = fake.connection.current as Transaction;
    assert.notEqual(second, first);
    const two = second.join(statement('two'), 2, same);
    void fake.connection.sends('ROLLBACK');
    // Not before the BEGIN of its transaction.
    assert.deepEqual(fake.sent, ['one']);
    await fake.answer();
    assert.deepEqual(fake.sent, ['one', 'two']);
    fake.connection.answered('none', 'committed');
    fake.connection.answered('open', undefined);
    assert.equal(await endOf(two.ended), 'open');
    fake.connection.answered('none', 'rolled_back');
    assert.deepEqual([await one.ended, await two.ended], ['committed', 'rolled_back']);
  });

  it('may be a COMMIT that fails: its ROLLBACK is not sent into the transaction before', async () => {
    const { fake, transaction: first } = await begun();
    first.join(statement('one'), 1, same);
    const commits = [settling(fake.connection.sends('COMMIT'))];
    void fake.connection.sends('BEGIN');
    fake.connection.current?.fail(new Error('why'), 2);
    commits.push(settling(fake.connection.sends('COMMIT')));
    await turn();
    assert.deepEqual(fake.sent, ['one']);
    await fake.answer();
    assert.deepEqual(fake.sent, ['one', 'ROLLBACK']);
    await fake.answer();
    assert.deepEqual(
      commits.map(({ state }) => state),
      ['goes', 'why'],
    );
  });

  it('fails nothing but the COMMIT where the connection is lost', async () => {
    const { fake, transaction } = await begun();
    const { ended, written } = transaction.join(statement('one'), 1, same);
    written?.catch(() => {});
    const commit = settling(fake.connection.sends('COMMIT'));
    fake.connection.isLost();
    await fake.answer(new Error('lost'));
    assert.deepEqual([commit.state, await ended], ['lost', 'rolled_back']);
    assert.deepEqual(fake.sent, ['one']);
  });
});

describe('the end of a transaction', () => {
  afterEach(loseConnections);

  const ends: readonly [string, (fake: FakeConnection) => unknown, TransactionEnd][] = [
    ['committed', (fake) => fake.run('COMMIT', 'none', 'committed'), 'committed'],
    ['rolled back', (fake) => fake.run('ROLLBACK', 'none', 'rolled_back'), 'rolled_back'],
    ['lost', (fake) => fake.connection.isLost(), 'rolled_back'],
    [
      'a COMMIT without an answer',
      (fake) => {
        fake.connection.sends('COMMIT');
        fake.connection.isLost();
      },
      'unknown',
    ],
    [
      'a COMMIT that was answered by ROLLBACK',
      (fake) => fake.run('COMMIT', 'none', 'rolled_back'),
      'rolled_back',
    ],
    ['a chain', (fake) => fake.run('COMMIT AND CHAIN', 'open', 'committed'), 'committed'],
    [
      'a chain that is rolled back',
      (fake) => fake.run('ROLLBACK AND CHAIN', 'open', 'rolled_back'),
      'rolled_back',
    ],
  ];
  for (const [title, end, expected] of ends) {
    it(`${title}: ${expected}`, async () => {
      const { fake, transaction } = await begun();
      const ended = transaction.follow();
      await end(fake);
      assert.equal(await endOf(ended), expected);
      assert.equal(transaction.isOpen, false);
      assert.notEqual(fake.connection.current, transaction);
      assert.equal(await transaction.follow(), expected);
    });
  }

  it('is not the answer to ROLLBACK TO', async () => {
    const { fake, transaction } = await begun();
    await fake.run('SAVEPOINT a', 'open');
    await fake.run('ROLLBACK TO a', 'open', 'rolled_back');
    assert.equal(transaction.isOpen, true);
  });

  it('is not the answer to ROLLBACK TO, although ROLLBACK is sent already', async () => {
    const { fake, transaction } = await begun();
    await fake.run('SAVEPOINT a', 'open');
    for (const text of ['ROLLBACK TO a', 'ROLLBACK']) void fake.connection.sends(text);
    fake.connection.answered('open', 'rolled_back');
    assert.equal(transaction.isOpen, true);
    fake.connection.answered('none', 'rolled_back');
    assert.equal(fake.connection.current, undefined);
  });

  it('comes to what ROLLBACK TO undoes, although SAVEPOINT and RELEASE were sent into the aborted transaction', async () => {
    const { fake, transaction } = await begun();
    await fake.run('SAVEPOINT a', 'open');
    const ended = transaction.follow(transaction.startOf(undefined));
    for (const text of ['wrong', 'RELEASE a', 'SAVEPOINT a']) await fake.run(text, 'aborted');
    await fake.run('ROLLBACK TO a', 'open', 'rolled_back');
    assert.equal(await endOf(ended), 'rolled_back');
  });

  it('is not the answer to a statement outside of any transaction', async () => {
    const fake = fakeConnection();
    await fake.run('SELECT 1', 'none');
    const { transaction } = await begun(fake);
    assert.equal(transaction.isOpen, true);
  });

  it('MySQL: comes with ROLLBACK, although the answer says that a transaction is open', async () => {
    const { fake, transaction } = await begun(fakeConnection('mysql'));
    await fake.run('ROLLBACK', 'open', 'rolled_back');
    assert.equal(await transaction.follow(), 'rolled_back');
  });

  it('PostgreSQL: a BEGIN behind COMMIT begins another one, although an earlier answer says that this one is open', async () => {
    const { fake, transaction } = await begun();
    for (const text of ['INSERT', 'COMMIT']) void fake.connection.sends(text);
    fake.connection.answered('open', undefined);
    void fake.connection.sends('BEGIN');
    assert.notEqual(fake.connection.current, transaction);
  });

  it('PostgreSQL: an event that comes behind COMMIT is left out', async () => {
    const { fake, transaction } = await begun();
    void fake.connection.sends('COMMIT');
    const { ended } = transaction.join(statement('late'), 1, same);
    assert.deepEqual(fake.sent, []);
    fake.connection.answered('none', 'committed');
    assert.equal(await ended, 'left out');
  });

  it('MySQL: does not come with a COMMIT that fails, and later events are written', async () => {
    const { fake, transaction } = await begun(fakeConnection('mysql'));
    await fake.run('COMMIT', 'open');
    void transaction.join(statement('late'), 1, same);
    assert.deepEqual(fake.sent, ['late']);
  });

  it('is not the answer to what was sent before its BEGIN', async () => {
    const fake = fakeConnection();
    for (const text of ['SELECT 1', 'BEGIN', 'INSERT', 'COMMIT']) void fake.connection.sends(text);
    const transaction = fake.connection.current as Transaction;
    fake.connection.answered('none', 'rolled_back');
    assert.equal(transaction.isOpen, true);
    fake.connection.answered('open', undefined);
    fake.connection.answered('none', 'committed');
    assert.equal(await transaction.follow(), 'committed');
  });

  it('of one whose BEGIN came to nothing is with the next', async () => {
    const fake = fakeConnection();
    void fake.connection.sends('BEGIN');
    const ended = fake.connection.current?.follow();
    fake.connection.answered('none', undefined);
    await fake.run('BEGIN', 'open');
    assert.equal(await ended, 'rolled_back');
  });

  for (const [isBusy, expected] of [
    [false, 'rolled_back'],
    [true, 'open'],
  ] as const) {
    it(`of one whose BEGIN came to nothing ${isBusy ? 'waits while pg misses answers' : 'comes once pg has all answers'}`, async () => {
      const fake = fakeConnection();
      fake.isBusy = isBusy;
      void fake.connection.sends('BEGIN');
      const ended = fake.connection.current?.follow() as Promise<TransactionEnd>;
      fake.connection.answered('none', undefined);
      assert.equal(await endOf(ended), expected);
    });
  }

  it('MySQL: BEGIN commits what is open, and is held as a COMMIT is', async () => {
    const { fake, transaction } = await begun(fakeConnection('mysql'));
    const { ended } = transaction.join(statement('one'), 1, same);
    const begin = settling(fake.connection.sends('BEGIN'));
    assert.equal(begin.state, 'waits');
    await fake.answer();
    assert.equal(begin.state, 'goes');
    fake.connection.answered('open', 'committed');
    assert.equal(await ended, 'committed');
    assert.equal(fake.connection.current?.isOpen, true);
  });

  it('MySQL: a BEGIN that is refused for it begins nothing', async () => {
    const { fake, transaction } = await begun(fakeConnection('mysql'));
    transaction.fail(new Error('why'), 1);
    const begin = settling(fake.connection.sends('BEGIN'));
    fake.connection.answered('none', 'rolled_back');
    await fake.answer();
    assert.equal(begin.state, 'why');
    assert.equal(fake.connection.current, undefined);
  });

  it('PostgreSQL and SQLite: BEGIN in a transaction changes nothing', async () => {
    for (const dialect of ['postgres', 'sqlite'] as const) {
      const { fake, transaction } = await begun(fakeConnection(dialect));
      await fake.run('BEGIN', 'open');
      assert.equal(fake.connection.current, transaction);
    }
  });

  it('a session that begins by itself does so with a query', async () => {
    const fake = fakeConnection('mysql');
    fake.beginsByItself = true;
    const scope = new Scope(undefined);
    await runInScope(scope, () => fake.run('INSERT', 'open'));
    const transaction = fake.connection.current as Transaction;
    assert.deepEqual(scope.open(), [transaction]);
    assert.equal(scope.wroteOutside, false);
    await fake.run('COMMIT', 'none', 'committed');
    assert.equal(await transaction.follow(), 'committed');
    // Nothing was there to commit.
    await fake.run('SELECT 1', 'none');
    await fake.run('COMMIT', 'none', 'committed');
    assert.equal(fake.connection.current, undefined);
  });
});

describe('scopes of a connection', () => {
  afterEach(loseConnections);

  for (const [text, wroteOutside] of [
    ['INSERT INTO t VALUES (1)', true],
    ['SELECT 1', false],
  ] as const) {
    it(`outside of a transaction, ${text} ${wroteOutside ? 'has' : 'has not'} written`, async () => {
      const scope = new Scope(undefined);
      await runInScope(scope, () => fakeConnection().run(text, 'none'));
      assert.equal(scope.wroteOutside, wroteOutside);
    });
  }

  it('do not nest where a function begins one transaction after the other', async () => {
    const fake = fakeConnection();
    await runInScope(new Scope(undefined), async () => {
      for (let round = 0; round < 1000; round++) {
        await fake.run('BEGIN', 'open');
        await fake.run('INSERT', 'open');
        await fake.run('COMMIT', 'none', 'committed');
      }
      let depth = 0;
      for (let scope = currentScope(); scope !== undefined; scope = scope.parent) depth++;
      assert.equal(depth, 2);
      assert.deepEqual(currentScope()?.open(), []);
    });
  });
});
