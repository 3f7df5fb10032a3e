import assert from 'node:assert/strict';
import { SvcError } from '../../src/ground/errors.ts';
import { createOutboxJoin } from '../../src/outbox/join.ts';
import { Connection } from '../../src/transaction/connection.ts';
import { runInScope, Scope } from '../../src/transaction/transaction.ts';
import { outboxRow } from '../cli/outbox-folder.ts';

const errorWith = (fields: object, message = 'value 4711 is wrong'): Error =>
  Object.assign(new Error(message), fields);

/** What the application hears when its database refuses the row with this reason. */
async function heardAfter(reason: unknown): Promise<unknown> {
  const connection = new Connection(
    () => ({ dialect: 'postgres', status: () => 'open', run: () => Promise.reject(reason) }),
    () => {},
  );
  const join = createOutboxJoin({
    insert: () => ({ text: 'INSERT', values: [] }),
    autocommit: undefined,
    onStored() {},
    onUnconfirmed() {},
  });
  const scope = new Scope(undefined);
  await runInScope(scope, async () => {
    for (const text of ['BEGIN', 'INSERT INTO orders VALUES (1)']) {
      await connection.sends(text);
      connection.answered('open', undefined);
    }
  });
  const heard = await Promise.resolve(join.store(outboxRow(), scope).written).then(
    () => assert.fail('the row is stored'),
    (error: unknown) => error,
  );
  connection.isLost();
  return heard;
}

describe('the error of a row that the database did not take', () => {
  for (const [what, error] of [
    ['serialization in PostgreSQL', errorWith({ code: '40001' })],
    ['deadlock in MySQL', errorWith({ code: 'ER_LOCK_DEADLOCK', sqlState: '40001' })],
    ['a server that shuts down', errorWith({ code: '57P01' })],
    ['a connection exception', errorWith({ code: '08006' })],
    ['a socket that was reset', errorWith({ code: 'ECONNRESET' })],
    ['a lost connection in MySQL', errorWith({ code: 'PROTOCOL_CONNECTION_LOST' })],
    ['a lost connection in PostgreSQL', errorWith({}, 'Connection terminated unexpectedly')],
  ] as const)
    it(`is the driver's own, which the application tries again after: ${what}`, async () => {
      assert.equal(await heardAfter(error), error);
    });

  it("is the driver's own without the parameters that PostgreSQL can be told to say", async () => {
    const error = errorWith(
      { code: '40P01', where: "unnamed portal with parameters: $1 = '4711'" },
      'deadlock',
    );
    assert.equal(await heardAfter(error), error);
    assert.deepEqual({ ...error }, { code: '40P01' });
  });

  for (const [what, error] of [
    ['a missing table', errorWith({ code: '42P01', detail: 'Failing row contains (4711)' })],
    ['a name of MySQL', errorWith({ code: 'ER_NO_SUCH_TABLE', sqlState: '42S02' })],
    ['a code of Node', errorWith({ code: 'ERR_SQLITE_ERROR' })],
    ['a code that is none', errorWith({ code: '4711 is a value' })],
    ['no code', errorWith({})],
    ['no error', undefined],
  ] as const)
    it(`is one of svc, without a value, for ${what}`, async () => {
      const made = await heardAfter(error);
      assert.ok(made instanceof SvcError);
      assert.equal(made.code, 'SVC_OUTBOX_INSERT');
      assert.doesNotMatch(JSON.stringify([made.message, made.stack, { ...made }]), /4711/);
    });

  it('is what svc says already', async () => {
    const known = new SvcError('SVC_OUTBOX_NO_TRANSACTION', 'none');
    assert.equal(await heardAfter(known), known);
  });
});
