import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { executorOf, transactionsOf } from '../../../src/outbox/api/executor.ts';
import { watchDriver } from '../../../src/outbox/api/functions.ts';
import type { Connections, DriverPatch } from '../../../src/transaction/driver.ts';

const nothing = [
  undefined,
  null,
  7,
  'postgres',
  {},
  () => {},
  { query() {} },
  new Map(),
  Object.create(null),
];

describe('executors of the outbox', () => {
  for (const given of nothing)
    it(`refuses ${typeof given} ${given && Object.keys(given)}, and says what it takes`, () => {
      assert.throws(() => executorOf(given), {
        code: 'SVC_OUTBOX_EXECUTOR',
        message: /QueryRunner of TypeORM/,
      });
    });

  it('says of a pool that it is one', () => {
    assert.throws(() => executorOf(new pg.Pool()), {
      code: 'SVC_OUTBOX_EXECUTOR',
      message: /it is a pool/,
    });
  });

  it('takes a port with one of the three dialects', () => {
    const execute = (): void => {};
    assert.equal(executorOf({ dialect: 'mysql', execute }).dialect, 'mysql');
    assert.throws(() => executorOf({ dialect: 'oracle', execute }), { code: 'SVC_OUTBOX_EXECUTOR' });
  });

  it('hands parameters to a port as they are, and what it throws back', async () => {
    const sent: unknown[] = [];
    const execute = (sql: string, params: unknown[]): void => {
      sent.push(sql, params);
      throw new Error('no');
    };
    await assert.rejects(
      async () => executorOf({ dialect: 'sqlite', execute }).execute('SELECT ?', [1]),
      /^Error: no$/,
    );
    assert.deepEqual(sent, ['SELECT ?', [1]]);
  });

  it('a handle that is in no transaction says so', () => {
    using handle = new DatabaseSync(':memory:');
    assert.equal(executorOf(handle).isOutside, true);
    handle.exec('BEGIN');
    assert.equal(executorOf(handle).isOutside, false);
  });
});

describe('data sources of the outbox', () => {
  for (const given of nothing)
    it(`refuses ${typeof given} ${given && Object.keys(given)}, and says what it takes`, () => {
      assert.throws(() => transactionsOf(given), {
        code: 'SVC_OUTBOX_DATA_SOURCE',
        message: /database object of Knex/,
      });
    });

  it('a transaction that PostgreSQL rolls back in place of its COMMIT fails', async () => {
    const sent: string[] = [];
    const client = {
      connectionParameters: {},
      async query(sql: string) {
        sent.push(sql);
        return { command: 'ROLLBACK' };
      },
    };
    await assert.rejects(
      transactionsOf(client)(async () => 7),
      { code: 'SVC_OUTBOX_ROLLED_BACK' },
    );
    assert.deepEqual(sent, ['BEGIN', 'COMMIT', 'ROLLBACK']);
  });

  it('a client that cannot be rolled back does not go back into its pool, and the first error is told', async () => {
    const released: unknown[] = [];
    const client = {
      connectionParameters: {},
      async query(sql: string) {
        if (sql === 'ROLLBACK') throw new Error('gone');
      },
      release: (isBroken: unknown) => released.push(isBroken),
    };
    const pool = { totalCount: 1, query() {}, connect: async () => client };
    await assert.rejects(
      transactionsOf(pool)(async () => {
        throw new Error('first');
      }),
      /^Error: first$/,
    );
    assert.deepEqual(released, [true]);
  });
});

describe('outbox.watch', () => {
  const connections = {} as Connections;
  const watched: unknown[] = [];
  const driver: DriverPatch = { specifier: 'pg', patch: (exports) => watched.push(exports) };

  it('knows a driver by what it exports, also as the default of a namespace', () => {
    watchDriver(pg, [driver], connections);
    watchDriver({ default: pg }, [driver], connections);
    assert.deepEqual(watched, [pg, pg]);
  });

  for (const given of nothing)
    it(`refuses ${typeof given} ${given && Object.keys(given)}`, () => {
      assert.throws(() => watchDriver(given, [driver], connections), { code: 'SVC_OUTBOX_DRIVER' });
    });

  it('says why a driver cannot be followed', () => {
    const patch = (): never => {
      throw new Error('too old');
    };
    const failing: DriverPatch = { specifier: 'pg', patch };
    assert.throws(() => watchDriver(pg, [failing], connections), {
      code: 'SVC_OUTBOX_DRIVER',
      message: /too old/,
    });
  });
});
