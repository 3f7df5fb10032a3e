import assert from 'node:assert/strict';
import * as nodeSqlite from 'node:sqlite';
import pg from 'pg';
import { pgDriver } from '../../src/adapters/postgres/pg-driver.ts';
import { sqliteDrivers } from '../../src/adapters/sqlite/sqlite-driver.ts';
import { rowStatements } from '../../src/outbox/insert-row.ts';
import { createOutboxJoin } from '../../src/outbox/join.ts';
import type { OutboxRow } from '../../src/outbox/outbox-row.ts';
import { type RunningService, runningService } from '../../src/publish/api/publish.ts';
import {
  assertNothingPublished,
  assertNothingStored,
  assertRolledBack,
  assertStored,
  clear,
  outboxEvents,
  type StoredEvent,
  waitForStored,
} from '../../src/testing.ts';
import { currentScope, runInScope, Scope } from '../../src/transaction/transaction.ts';
import { outboxRow } from '../cli/outbox-folder.ts';
import { patchDriver } from '../contract/captured.ts';
import { clockOfEach } from '../support/fake-time.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';

const table = `CREATE TABLE events (
  event_id text, aggregate_type text, aggregate_id text UNIQUE, event_type text, topic text,
  record_key text, headers text, payload BYTES, shard integer, occurred_at TIME)`;

let nextId = 1;
/** One finished event, as the pipeline hands it to the outbox. */
function rowOf(aggregateId: string, payload: unknown = { id: aggregateId }): OutboxRow {
  const eventId = String(nextId++);
  const eventType = 'ORDER_PLACED';
  return outboxRow({
    ...{ eventId, eventType, aggregateId, topic: 'orders', key: aggregateId },
    ...{ headers: { eventType }, occurredAt: 0 },
    payload: Buffer.from(JSON.stringify({ eventId, eventType, severity: 'INFO', payload })),
  });
}

function joinOf(autocommit?: (row: OutboxRow) => Promise<void>) {
  return createOutboxJoin({
    insert: (dialect, row) => rowStatements('events', dialect).insert(row),
    autocommit,
    onStored() {},
    onUnconfirmed() {},
  });
}

/** Calls what a captured function does, and stores its event. */
function captured<R>(id: string, work: () => R): R {
  const scope = new Scope(currentScope());
  const store = () => joinOf().store(rowOf(id), scope).written;
  const result = runInScope(scope, work);
  if (result instanceof Promise) return result.then(store) as R;
  store();
  return result;
}

const states = (): [string, string][] =>
  outboxEvents<{ id: string }>().map(({ payload, state }) => [payload.id, state]);

/** As where svc runs: without it there is nothing to see, and all that asks fails. */
function runHere(): void {
  before(() => {
    runningService.current = { brokerClient: 'memory' } as RunningService;
  });
  after(() => {
    runningService.current = undefined;
  });
}

describe('svc/testing: the outbox', () => {
  runHere();
  let database: nodeSqlite.DatabaseSync;
  before(() => patchDriver(sqliteDrivers.nodeSqlite, nodeSqlite));
  beforeEach(() => {
    clear();
    nextId = 1;
    database = new nodeSqlite.DatabaseSync(':memory:');
    database.exec(table.replace('BYTES', 'BLOB').replace('TIME', 'INTEGER'));
    database.exec('CREATE TABLE orders (id TEXT)');
  });
  afterEach(() => database.close());

  const order = (id: string): void =>
    captured(id, () => void database.prepare('INSERT INTO orders VALUES (?)').run(id));
  function within(end: string, ...ids: string[]): void {
    database.exec('BEGIN');
    for (const id of ids) order(id);
    database.exec(end);
  }

  it('knows of each event what became of its transaction, in the same turn', () => {
    database.exec('BEGIN');
    order('a');
    assert.deepEqual(states(), [['a', 'open']]);
    assertStored({ aggregateId: 'a', state: 'open' });
    assert.throws(() => assertStored({ aggregateId: 'a' }), /an event was not committed/);
    database.exec('COMMIT');
    const event: StoredEvent<{ id: string }> = assertStored({
      eventType: 'ORDER_PLACED',
      payload: { id: 'a' },
    });
    assert.deepEqual(
      [
        event.eventId,
        event.aggregateType,
        event.aggregateId,
        event.topic,
        event.key,
        event.headers,
        event.state,
      ],
      ['1', 'Order', 'a', 'orders', 'a', { eventType: 'ORDER_PLACED' }, 'committed'],
    );
    within('ROLLBACK', 'b');
    assert.equal(assertRolledBack({ aggregateId: 'b' }).payload.id, 'b');
    assert.throws(() => assertRolledBack({ aggregateId: 'a' }), { code: 'ERR_ASSERTION' });
    assert.throws(() => assertStored({ aggregateId: 'b' }), { code: 'ERR_ASSERTION' });
    assert.deepEqual(states(), [
      ['a', 'committed'],
      ['b', 'rolled_back'],
    ]);
    assertNothingPublished();
  });

  it('an event goes with its savepoint, and the others stay', () => {
    database.exec('BEGIN');
    order('a');
    database.exec('SAVEPOINT inner');
    order('b');
    database.exec('ROLLBACK TO inner');
    assert.deepEqual(states(), [
      ['a', 'open'],
      ['b', 'rolled_back'],
    ]);
    database.exec('COMMIT');
    assertStored({ aggregateId: 'a' });
    assertRolledBack({ aggregateId: 'b' });
  });

  it('an event that the database refuses is rolled back with its transaction', () => {
    within('COMMIT', 'a');
    database.exec('BEGIN');
    assert.throws(() => order('a'), { code: 'SVC_OUTBOX_INSERT' });
    assert.throws(() => database.exec('COMMIT'));
    assert.deepEqual(states(), [
      ['a', 'committed'],
      ['a', 'rolled_back'],
    ]);
  });

  it('an event stored by itself is there when it is written', async () => {
    await joinOf(async () => {}).store(rowOf('a'), undefined).written;
    assertStored({ aggregateId: 'a' });
    const refused = joinOf(() => Promise.reject(new Error('refused'))).store(rowOf('b'), undefined);
    await assert.rejects(refused.written ?? Promise.resolve());
    assertRolledBack({ aggregateId: 'b' });
  });

  it('finds by aggregate, topic, type and payload', () => {
    within('COMMIT', 'a');
    for (const match of [
      {},
      { aggregateType: 'Order' },
      { topic: 'orders', aggregateId: 'a' },
      { eventType: 'ORDER_PLACED', payload: { id: 'a' }, state: 'committed' as const },
    ])
      assertStored(match);
    for (const match of [
      { aggregateType: 'Product' },
      { aggregateId: 'b' },
      { topic: 'payments' },
      { eventType: 'ORDER_PAID' },
      { payload: { id: 'b' } },
      { state: 'rolled_back' as const },
    ]) {
      assert.throws(() => assertStored(match), { code: 'ERR_ASSERTION' }, JSON.stringify(match));
      assert.deepEqual(outboxEvents(match), []);
      assertNothingStored(match);
    }
  });

  it('lists what there was instead, and no value of a payload', () => {
    within('COMMIT', 'a');
    within('ROLLBACK', 'b');
    assert.throws(
      () => assertStored({ eventType: 'ORDER_PLACED', aggregateId: 'c', payload: { id: 'secret' } }),
      {
        message:
          'ORDER_PLACED with the expected payload was not committed. Stored:\n' +
          '  orders: ORDER_PLACED 1, committed (differs at aggregateId, payload.id)\n' +
          '  orders: ORDER_PLACED 2, rolled back (differs at aggregateId, payload.id)',
      },
    );
  });

  it('asserts that nothing was stored: what was rolled back is nothing', () => {
    assertNothingStored();
    within('ROLLBACK', 'a');
    assertNothingStored();
    database.exec('BEGIN');
    order('b');
    assert.throws(() => assertNothingStored(), /^AssertionError.*: no event was expected\. Stored:/);
    database.exec('COMMIT');
    assert.throws(
      () => assertNothingStored({ eventType: 'ORDER_PLACED', topic: 'orders' }),
      /ORDER_PLACED was not to be stored in topic "orders"\. Stored:/,
    );
    assertNothingStored({ aggregateId: 'a' });
    clear();
    assertNothingStored();
    assert.deepEqual(outboxEvents(), []);
  });

  describe('waitForStored', () => {
    const clock = clockOfEach();

    it('resolves with the COMMIT of the last of them', async () => {
      within('COMMIT', 'a');
      const waiting = waitForStored({ eventType: 'ORDER_PLACED', count: 2 });
      within('ROLLBACK', 'b');
      database.exec('BEGIN');
      order('c');
      assert.equal(clock.countTimers(), 1);
      database.exec('COMMIT');
      assert.equal(clock.countTimers(), 0);
      assert.deepEqual(
        (await waiting).map(({ aggregateId }) => aggregateId),
        ['a', 'c'],
      );
    });

    it('rejects in time with what there was', async () => {
      within('ROLLBACK', 'a');
      const waiting = assert.rejects(waitForStored({ timeoutMs: 100 }), {
        code: 'ERR_ASSERTION',
        message: 'an event: 0 of 1 committed within 100 ms. Stored:\n  orders: ORDER_PLACED 1, rolled back',
      });
      await clock.tickAsync(100);
      await waiting;
    });
  });
});

requiring('postgres', 'svc/testing: the outbox on PostgreSQL', function () {
  this.timeout(30_000);
  runHere();
  let client: pg.Client;

  before(async () => {
    patchDriver(pgDriver, pg);
    client = new pg.Client({ connectionString: await (await startPostgres()).freshDatabase() });
    await client.connect();
    await client.query(table.replace('BYTES', 'bytea').replace('TIME', 'timestamptz'));
  });
  after(() => client?.end());
  beforeEach(() => clear());

  const order = (id: string): Promise<void> =>
    captured(id, async () => void (await client.query('CREATE TEMP TABLE IF NOT EXISTS orders (id text)')));

  it('an event is open, then committed when the COMMIT resolves, or rolled back', async () => {
    await client.query('BEGIN');
    await order('a');
    assertStored({ aggregateId: 'a', state: 'open' });
    const stored = waitForStored();
    await client.query('COMMIT');
    assertStored({ aggregateId: 'a' });
    assert.equal((await stored).length, 1);
    await client.query('BEGIN');
    await order('b');
    await client.query('SAVEPOINT nested');
    await order('c');
    await client.query('ROLLBACK TO nested');
    assert.deepEqual(states(), [
      ['a', 'committed'],
      ['b', 'open'],
      ['c', 'rolled_back'],
    ]);
    await client.query('ROLLBACK');
    assertRolledBack({ aggregateId: 'b' });
  });
});
