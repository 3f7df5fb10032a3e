import assert from 'node:assert/strict';
import { eraseStatement, eraseValues } from '../../src/outbox/erase-row.ts';
import { createOutboxJoin } from '../../src/outbox/join.ts';
import { runInScope, Scope } from '../../src/transaction/scope.ts';
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
    assert.equal(
      eraseStatement('app.events', 'mysql'),
      'DELETE FROM `app`.`events` WHERE id = @@last_insert_id AND event_id = ? AND debezium_topic IS NOT NULL',
    );
    assert.deepEqual(eraseValues(outboxRow({ eventId: '7' })), ['7']);
    assert.deepEqual(
      [eraseStatement('events', 'postgres'), eraseStatement('events', 'sqlite')],
      [undefined, undefined],
    );
  });
});
