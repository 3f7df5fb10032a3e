import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import type BetterSqlite3 from 'better-sqlite3';
import type mysql from 'mysql2';
import type mysqlPromise from 'mysql2/promise';
import type pg from 'pg';
import type postgres from 'postgres';
import type { TransactionOf } from '../../../src/outbox/api/executor.ts';
import { outbox } from '../../../src/outbox/api/outbox.ts';
import { checkEvent, type OutboxEvent } from '../../../src/outbox/api/outbox-event.ts';

const event: OutboxEvent = {
  eventType: 'ORDERED',
  aggregateType: 'Order',
  aggregateId: 7,
  payload: { id: 7 },
};

describe('outbox without a running svc', () => {
  it('runs work in a transaction all the same', async () => {
    using handle = new DatabaseSync(':memory:');
    handle.exec('CREATE TABLE orders (id TEXT)');
    const insert = async (id: string) => void handle.exec(`INSERT INTO orders VALUES ('${id}')`);
    const given = await outbox.runInTransaction(handle, async (one) => {
      await insert('kept');
      return one === handle;
    });
    const failing = outbox.runInTransaction(handle, async () => {
      await insert('dropped');
      throw new Error('no');
    });
    await assert.rejects(failing, /^Error: no$/);
    assert.equal(given, true);
    assert.deepEqual(
      handle
        .prepare('SELECT id FROM orders')
        .all()
        .map(({ id }) => id),
      ['kept'],
    );
  });

  it('withTransaction is the work itself, current says no, watch does nothing', async () => {
    assert.equal(await outbox.withTransaction({}, () => 7), 7);
    await assert.rejects(
      outbox.withTransaction({}, () => {
        throw new Error('no');
      }),
      /^Error: no$/,
    );
    assert.deepEqual(outbox.current(), { joined: false, via: null, dialect: null, open: 0 });
    outbox.watch({});
  });

  it('save fails: its event would be lost', async () => {
    await assert.rejects(outbox.save({}, event), { code: 'SVC_OUTBOX_NOT_RUNNING' });
  });
});

describe('an event for outbox.save', () => {
  const mistakeOf = (given: unknown) => checkEvent(given).mistake?.message;

  it('has the aggregate id as key, where none is given', () => {
    assert.equal(checkEvent(event).key, '7');
    assert.equal(checkEvent({ ...event, key: 8n }).key, '8');
    assert.equal(checkEvent(event).mistake, undefined);
  });

  it('needs its type and its aggregate', () => {
    for (const name of ['eventType', 'aggregateType', 'aggregateId'])
      assert.equal(mistakeOf({ ...event, [name]: undefined }), `outbox.save(): ${name} is required`);
    assert.match(mistakeOf({ ...event, aggregateId: '' }) ?? '', /aggregateId must be/);
  });

  it('names a wrong or unknown field, and no value', () => {
    const secret = 'john@example.com';
    for (const wrong of [
      { topic: secret },
      { severity: secret },
      { aggregateID: secret },
      { key: { secret } },
    ]) {
      const message = mistakeOf({ ...event, ...wrong });
      assert.match(message ?? '', new RegExp(Object.keys(wrong)[0] ?? ''));
      assert.doesNotMatch(message ?? '', /john/);
    }
    for (const none of [undefined, null, 7, 'text', []]) assert.ok(mistakeOf(none));
  });

  it('says nothing of what a hostile object throws', () => {
    const hostile = new Proxy(event, {
      ownKeys() {
        throw new Error('john@example.com');
      },
    });
    assert.match(mistakeOf(hostile) ?? '', /cannot be read/);
  });
});

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;

describe('types of outbox.runInTransaction', () => {
  it('hands over what the driver calls it', () => {
    const all: [
      Same<TransactionOf<pg.Pool>, pg.PoolClient>,
      Same<TransactionOf<mysqlPromise.Pool>, mysqlPromise.PoolConnection>,
      Same<TransactionOf<mysql.Pool>, mysql.PoolConnection>,
      Same<TransactionOf<DatabaseSync>, DatabaseSync>,
      Same<TransactionOf<BetterSqlite3.Database>, BetterSqlite3.Database>,
      Same<TransactionOf<postgres.Sql>, postgres.TransactionSql>,
    ] = [true, true, true, true, true, true];
    assert.ok(all.every(Boolean));
  });
});
