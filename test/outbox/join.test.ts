import assert from 'node:assert/strict';
import { SvcError } from '../../src/ground/errors.ts';
import { rowStatements } from '../../src/outbox/insert-row.ts';
import { createOutboxJoin } from '../../src/outbox/join.ts';
import type { TransactionEnd } from '../../src/transaction/driver.ts';
import { runInScope, Scope } from '../../src/transaction/transaction.ts';
import { outboxRow } from '../cli/outbox-folder.ts';
import { fakeConnection, loseConnections } from '../transaction/fake-session.ts';

describe('a row that is deleted in the transaction that writes it', () => {
  afterEach(loseConnections);

  async function stored() {
    const fake = fakeConnection('mysql');
    const join = createOutboxJoin({
      insert: () => ({ text: 'INSERT', values: [] }),
      erase: () => ({ text: 'DELETE', values: [] }),
      autocommit: undefined,
      onStored() {},
      onUnconfirmed() {},
    });
    const scope = new Scope(undefined);
    await runInScope(scope, async () => {
      await fake.run('BEGIN', 'open');
      await fake.run('INSERT INTO orders VALUES (1)', 'open');
    });
    const storing = join.store(outboxRow(), scope);
    return { fake, storing };
  }

  it('is deleted right behind its INSERT, and COMMIT waits for both', async () => {
    const { fake, storing } = await stored();
    assert.deepEqual(fake.sent, ['INSERT', 'DELETE']);
    let isWritten = false;
    void storing.written?.then(() => {
      isWritten = true;
    });
    const committed = fake.connection.sends('COMMIT');
    await fake.answer();
    assert.equal(isWritten, false);
    await fake.answer();
    assert.equal(isWritten, true);
    await committed;
    fake.connection.answered('none', 'committed');
    assert.equal(await storing.outcome, 'outbox');
  });

  it('a DELETE that is refused rolls back, and the call fails', async () => {
    const { fake, storing } = await stored();
    const refused = assert.rejects(async () => storing.written, { code: 'SVC_OUTBOX_INSERT' });
    await fake.answer();
    await fake.answer(Object.assign(new Error('no such column'), { code: 'ER_BAD_FIELD_ERROR' }));
    await refused;
    const committed = assert.rejects(async () => fake.connection.sends('COMMIT'), {
      code: 'SVC_OUTBOX_INSERT',
    });
    await fake.answer();
    await committed;
    assert.deepEqual(fake.sent, ['INSERT', 'DELETE', 'ROLLBACK']);
  });

  it('is found by the id that the database has just given, and by nobody else under it', () => {
    assert.deepEqual(rowStatements('app.events', 'mysql').erase?.(outboxRow({ eventId: '7' })), {
      text: 'DELETE FROM `app`.`events` WHERE id = @@last_insert_id AND event_id = ? AND debezium_topic IS NOT NULL',
      values: ['7'],
    });
    for (const dialect of ['postgres', 'sqlite'] as const)
      assert.equal(rowStatements('events', dialect).erase, undefined);
  });
});

for (const [dialect, manner] of [
  ['postgres', 'holds'],
  ['mysql', 'async'],
] as const)
  describe(`a row that is not to be written yet (${dialect})`, () => {
    afterEach(loseConnections);

    async function waiting() {
      const ready = Promise.withResolvers<void>();
      const fake = fakeConnection(dialect, manner);
      const join = createOutboxJoin({
        insert: () => ({ text: 'INSERT', values: [] }),
        ready: () => ready.promise,
        autocommit: undefined,
        onStored() {},
        onUnconfirmed() {},
      });
      const scope = new Scope(undefined);
      await runInScope(scope, async () => {
        await fake.run('BEGIN', 'open');
        await fake.run('INSERT INTO orders VALUES (1)', 'open');
      });
      return { fake, ready, storing: join.store(outboxRow(), scope) };
    }
    const turn = () => new Promise((resolve) => setImmediate(resolve));

    it('goes before all that the application sends after it', async () => {
      const { fake, ready, storing } = await waiting();
      let isAdmitted = false;
      const next = Promise.resolve(fake.connection.sends('ROLLBACK TO a')).then(() => {
        isAdmitted = true;
      });
      await turn();
      assert.deepEqual([fake.sent, isAdmitted], [[], false]);
      ready.resolve();
      await turn();
      assert.deepEqual([fake.sent, isAdmitted], [['INSERT'], false]);
      await fake.answer();
      await Promise.all([next, storing.written]);
      assert.equal(isAdmitted, true);
    });

    it('is not written where it would be lost: the call and the COMMIT fail with the reason', async () => {
      const { fake, ready, storing } = await waiting();
      const code = 'SVC_OUTBOX_CONTRADICTION';
      const refused = assert.rejects(async () => storing.written, { code });
      ready.reject(new SvcError(code, 'it contradicts'));
      await refused;
      const committed = assert.rejects(async () => fake.connection.sends('COMMIT'), { code });
      await turn();
      await fake.answer();
      await committed;
      assert.deepEqual(fake.sent, ['ROLLBACK']);
      assert.equal(await storing.outcome, 'rolled_back');
    });
  });

describe('a call that outlives the COMMIT of its transaction', () => {
  afterEach(loseConnections);

  /** `sent`: the COMMIT has no answer when the call ends. */
  const ends: readonly [string, 'sent' | 'answered', TransactionEnd][] = [
    ['is told that it was committed', 'answered', 'committed'],
    ['is told that it was committed, when that is answered', 'sent', 'committed'],
    ['is told that nobody knows', 'answered', 'unknown'],
    ['is told that nobody knows, when the connection is lost', 'sent', 'unknown'],
    ['has nothing to tell of where it is rolled back', 'answered', 'rolled_back'],
    ['has nothing to tell of where it is rolled back in the end', 'sent', 'rolled_back'],
  ];
  const texts = {
    committed: /was committed before the call ended\. Its writes are stored/,
    unknown: /got no answer\. Its writes may be stored/,
    rolled_back: /^no error$/,
  };

  for (const mayStoreAlone of [false, true]) {
    for (const [title, when, end] of ends) {
      it(`${title}${mayStoreAlone ? ', and may be stored by itself' : ''}`, async () => {
        const alone: string[] = [];
        const fake = fakeConnection('postgres', 'holds');
        const join = createOutboxJoin({
          insert: () => ({ text: 'INSERT', values: [] }),
          autocommit: mayStoreAlone ? async ({ eventId }) => void alone.push(eventId) : undefined,
          onStored() {},
          onUnconfirmed() {},
        });
        const scope = new Scope(undefined);
        await fake.run('BEGIN', 'open');
        await runInScope(scope, () => fake.run('INSERT INTO orders VALUES (1)', 'open'));
        await fake.connection.sends('COMMIT');
        const answer = (): void => {
          fake.status = 'none';
          if (end === 'unknown') fake.connection.isLost();
          else fake.connection.answered('none', end);
        };
        const stored = async (): Promise<string> => {
          const { written, outcome } = join.store(outboxRow({ eventId: 'late' }), scope);
          const told = outcome.catch(({ code }) => code);
          if (when === 'sent') answer();
          const error = await Promise.resolve(written).then(
            () => 'no error',
            ({ message }: Error) => message,
          );
          assert.match(error, mayStoreAlone && end === 'committed' ? /^no error$/ : texts[end]);
          return told;
        };
        if (when === 'answered') answer();
        const told = await stored().catch((error: { code?: string; message: string }) => {
          assert.match(error.message, texts[end]);
          return error.code;
        });
        const isStored = mayStoreAlone && end === 'committed';
        assert.deepEqual(alone, isStored ? ['late'] : []);
        const refused = isStored ? 'outbox' : 'SVC_OUTBOX_COMMITTED';
        assert.equal(told, end === 'rolled_back' ? 'rolled_back' : refused);
        assert.equal(join.pending(), 0);
      });
    }
  }
});
