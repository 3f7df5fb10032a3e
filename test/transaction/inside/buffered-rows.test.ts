import assert from 'node:assert/strict';
import type { RowsBeforeCommit } from '../../../src/transaction/driver.ts';
import { findTransactions, type Joined, nextSequence } from '../../../src/transaction/transaction.ts';
import { type FakeConnection, fakeConnection, loseConnections } from '../fake-session.ts';

const row = (text: string) => ({ text, values: [] });
const explain = (error: unknown): unknown => new Error(`explained: ${(error as Error).message}`);

describe('rows that are held', () => {
  afterEach(loseConnections);

  async function begun(): Promise<FakeConnection> {
    const fake = fakeConnection('postgres', 'holds');
    await fake.run('BEGIN', 'open');
    await fake.run('INSERT INTO orders', 'open');
    return fake;
  }
  const join = (text: string): Joined => {
    const [transaction] = findTransactions();
    assert.ok(transaction);
    return transaction.join(row(text), nextSequence(), explain);
  };
  const ahead = (fake: FakeConnection): RowsBeforeCommit => {
    const gate = fake.connection.sendsWithRows('COMMIT');
    assert.ok(gate !== undefined && 'statements' in gate);
    return gate;
  };
  const end = (fake: FakeConnection, how: 'committed' | 'rolled_back'): void => {
    fake.status = 'none';
    fake.connection.answered('none', how);
  };

  it('go with the COMMIT, in the order of their calls', async () => {
    const fake = await begun();
    const joined = [join('a'), join('b')];
    assert.deepEqual(
      joined.map(({ written }) => written),
      [undefined, undefined],
    );
    const gate = ahead(fake);
    assert.deepEqual(
      gate.statements.map(({ text }) => text),
      ['a', 'b'],
    );
    end(fake, 'committed');
    gate.answered();
    assert.deepEqual(await Promise.all(joined.map(({ ended }) => ended)), ['committed', 'committed']);
    assert.deepEqual(fake.sent, []);
    assert.equal(fake.ungated, 0);
  });

  it('are written before any other statement, which waits for them', async () => {
    const fake = await begun();
    join('a');
    const admission = fake.connection.sends('SELECT 1');
    assert.deepEqual(fake.sent, ['a']);
    let isAdmitted = false;
    void admission?.then(() => {
      isAdmitted = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isAdmitted, false);
    await fake.answer();
    assert.equal(isAdmitted, true);
  });

  it('are written before what is no statement', async () => {
    const fake = await begun();
    join('a');
    const admission = fake.connection.sendsNoText();
    assert.deepEqual(fake.sent, ['a']);
    await fake.answer();
    await admission;
  });

  it('are written before a COMMIT whose driver cannot take them along', async () => {
    const fake = await begun();
    join('a');
    const admission = fake.connection.sends('COMMIT');
    assert.deepEqual(fake.sent, ['a']);
    await fake.answer();
    await admission;
  });

  it('are written before a COMMIT that is one of several statements', async () => {
    const fake = await begun();
    join('a');
    const admission = fake.connection.sendsWithRows('SELECT 1; COMMIT');
    assert.ok(admission instanceof Promise);
    assert.deepEqual(fake.sent, ['a']);
    await fake.answer();
    await admission;
  });

  it('go with a ROLLBACK, and are never written', async () => {
    const fake = await begun();
    const { ended } = join('a');
    await fake.run('ROLLBACK', 'none', 'rolled_back');
    assert.equal(await ended, 'rolled_back');
    assert.deepEqual(fake.sent, []);
  });

  it('go with a rollback to a savepoint from before them, and are never written', async () => {
    const fake = await begun();
    await fake.run('SAVEPOINT one', 'open');
    const { ended } = join('a');
    await fake.run('ROLLBACK TO one', 'open');
    assert.equal(await ended, 'rolled_back');
    const gate = fake.connection.sendsWithRows('COMMIT');
    assert.equal(gate, undefined);
    assert.deepEqual(fake.sent, []);
  });

  it('are written before a savepoint, which does not undo them', async () => {
    const fake = await begun();
    const { ended } = join('a');
    const savepoint = fake.run('SAVEPOINT one', 'open');
    await fake.answer();
    await savepoint;
    await fake.run('ROLLBACK TO one', 'open');
    assert.equal(fake.connection.sendsWithRows('COMMIT'), undefined);
    end(fake, 'committed');
    assert.equal(await ended, 'committed');
  });

  it('that are not taken with the COMMIT roll back, and what is sent behind it waits for that', async () => {
    const fake = await begun();
    const { ended } = join('a');
    const gate = ahead(fake);
    const behind = fake.connection.sends('BEGIN') ?? fake.connection.sends('SELECT 1');
    let isAdmitted = false;
    void behind?.then(() => {
      isAdmitted = true;
    });
    fake.status = 'aborted';
    const refused = assert.rejects(gate.refused(new Error('no')), { message: 'explained: no' });
    assert.deepEqual(fake.sent, ['ROLLBACK']);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isAdmitted, false);
    end(fake, 'rolled_back');
    await fake.answer();
    await refused;
    assert.equal(await ended, 'rolled_back');
    await behind;
  });

  it('that were committed past them are left out, and raise the alarm', async () => {
    const fake = await begun();
    const { ended } = join('a');
    end(fake, 'committed');
    assert.equal(await ended, 'left out');
    assert.equal(fake.ungated, 1);
  });

  it('are 50 at most: the call of the last one waits until the database has them', async () => {
    const fake = await begun();
    for (let count = 1; count < 50; count++) assert.equal(join(`${count}`).written, undefined);
    assert.deepEqual(fake.sent, []);
    const { written } = join('50');
    assert.equal(fake.sent.length, 50);
    await fake.answer();
    await written;
    assert.equal(join('51').written, undefined);
  });

  it('hold up nothing that is sent behind a COMMIT whose answer never comes', async () => {
    const fake = await begun();
    const { ended } = join('a');
    const gate = ahead(fake);
    const behind = fake.connection.sends('SELECT 1');
    assert.ok(behind instanceof Promise);
    gate.unanswered(new Error('the connection is gone'));
    await behind;
    fake.connection.isLost();
    assert.equal(await ended, 'unknown');
  });
});
