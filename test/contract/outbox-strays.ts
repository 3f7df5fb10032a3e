import assert from 'node:assert/strict';
import { migrations } from '../../src/adapters/sql/schema.ts';
import type { SqlStoreOptions } from '../../src/adapters/sql/sql-store.ts';
import { dialects } from '../../src/adapters/sql/statement.ts';
import { besideTable, quoteName, quoteTable } from '../../src/outbox/insert-row.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { newTable, type OutboxStoreUnderTest, rowOf } from './outbox-store.ts';

interface Written {
  readonly id?: string;
  readonly shard?: number;
  readonly status?: string;
  readonly headers?: string;
  readonly topic?: string;
  readonly retryCount?: number;
}

const none = { upToId: 0, ids: [] };

/** What a table takes, and a store makes of it, that somebody else than svc writes into it. Call it inside a `describe`. */
export function testOutboxStrays(get: () => OutboxStoreUnderTest): void {
  const opened: OutboxStore[] = [];
  let table: string;
  const open = (rest: Partial<SqlStoreOptions> = {}): OutboxStore => {
    const made = get().open({ url: get().url, table, initializeSchema: 'always', ...rest });
    opened.push(made);
    return made;
  };
  const named = (): string => quoteTable(get().dialect, table);
  const insert = ({ id, shard = 0, status, headers = '{}', topic = 'orders', retryCount = 0 }: Written) => {
    const { dialect } = get();
    const given = [...(id === undefined ? [] : ['id']), ...(status === undefined ? [] : ['status'])];
    const values = [...(id === undefined ? [] : [id]), ...(status === undefined ? [] : [`'${status}'`])];
    const columns = ['event_id', 'aggregate_type', 'aggregate_id', 'event_type', 'topic', 'record_key'];
    const all = [...columns, 'headers', 'payload', 'shard', 'occurred_at', 'retry_count', ...given].join(
      ', ',
    );
    const own = dialect === 'postgres' && id !== undefined ? ' OVERRIDING SYSTEM VALUE' : '';
    const texts = `'e', 'Order', 'a', 'T', '${topic}', 'a', '${headers}', '{}'`;
    const rest = [shard, dialects[dialect].now, retryCount, ...values].join(', ');
    return get().query(`INSERT INTO ${named()} (${all})${own} VALUES (${texts}, ${rest})`);
  };
  /** As the tables of version 1 were. */
  const makeOlder = async (): Promise<void> => {
    await open({ migrations: migrations.slice(0, 1) }).prepare();
    const { dialect } = get();
    if (dialect === 'sqlite') return;
    const guard = quoteName(dialect, besideTable(table, '_valid'));
    await get().query(`ALTER TABLE ${named()} DROP CONSTRAINT ${guard}`);
  };
  const strays: readonly Written[] = [
    ...[{ shard: -1 }, { shard: 64 }, { status: 'SENT' }, { status: 'pending' }],
    ...[{ id: '-5' }, { id: '9007199254740992' }, { id: '9007199254740993' }],
  ];
  /** MySQL and MariaDB have no constraint over it. */
  const isEnforced = ({ id }: Written): boolean => id === undefined || get().dialect !== 'mysql';

  beforeEach(() => {
    table = newTable();
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((one) => one.close(1_000)));
  });

  it('rows that no relay would find are refused, or told where the database cannot do that; the nearest to them are taken', async () => {
    const store = open();
    await store.prepare();
    assert.equal(await store.missingGuard(), undefined);
    for (const good of [{ id: '1' }, { shard: 63, id: '2' }, { status: 'FAILED', id: '9007199254740991' }])
      await insert(good);
    await store.checkRows();
    let count = 0;
    for (const stray of strays)
      if (isEnforced(stray)) await assert.rejects(insert(stray), JSON.stringify(stray));
      else {
        await insert(stray);
        count++;
      }
    if (count > 0) await assert.rejects(store.checkRows(), { code: 'SVC_OUTBOX_STRAY_ROWS' });
    else await store.checkRows();
    for (const change of ['shard = 64', `status = 'SENT'`])
      await assert.rejects(get().query(`UPDATE ${named()} SET ${change} WHERE id = 1`), change);
  });

  it('a table of version 1 that holds some is brought to the next version, tells of them, and takes no more', async () => {
    await makeOlder();
    for (const stray of strays) await insert(stray);
    const store = open();
    await store.prepare();
    await assert.rejects(store.checkRows(), {
      code: 'SVC_OUTBOX_STRAY_ROWS',
      message: new RegExp(`${table} .* has ${strays.length} rows that no relay finds`),
    });
    const guard = await store.missingGuard();
    // Where its own limit is beyond the numbers of JavaScript, so are all that follow.
    if (get().dialect === 'mysql') {
      assert.match(String(guard), /^ALTER TABLE .* ADD CONSTRAINT/);
      await get().query(`DELETE FROM ${named()}`);
      await get().query(`ALTER TABLE ${named()} AUTO_INCREMENT = 1`);
      await get().query(String(guard));
    }
    assert.equal(await store.missingGuard(), undefined);
    for (const stray of strays.filter(isEnforced)) await assert.rejects(insert(stray), JSON.stringify(stray));
    await get().query(`DELETE FROM ${named()}`);
    await store.checkRows();
  });

  it('they are never read, and hold up no other row', async () => {
    await makeOlder();
    const store = open({ migrations: migrations.slice(0, 1), initializeSchema: 'never' });
    const row = rowOf();
    await store.insert([row]);
    for (const stray of strays) await insert(stray);
    const shards = await store.claim('one', 60_000);
    const eventIds = async (ids: readonly number[]) =>
      (await store.pending(shards, { ...none, ids }, 10)).map(({ eventId }) => eventId);
    assert.deepEqual(await eventIds([]), [row.eventId]);
    assert.deepEqual(await eventIds([2 ** 53, 2 ** 53 + 2]), [row.eventId]);
    const [found] = await store.read({ statuses: ['PENDING'], topic: 'orders' }, 0, 10);
    const id = found?.id as number;
    assert.deepEqual(await store.ack('one', [id, 2 ** 53], true), [id]);
    assert.deepEqual(await store.ack('one', [2 ** 53], true), []);
    assert.equal(await store.lastId(), 5, 'the highest of those that can be told apart');
  });

  it('what is no record is read with the reason, and can be set aside', async () => {
    const store = open();
    await store.prepare();
    for (const headers of ['{"a":1}', '{"a":null}', '{"a":{"b":1}}', '["a"]', 'null', 'no JSON', ''])
      await insert({ headers });
    await insert({ topic: 'no topic' });
    await insert({ headers: '{"a":1}', retryCount: 2_147_483_647 });
    await insert({ headers: '{"a":"b"}' });
    const shards = await store.claim('one', 60_000);
    const rows = await store.pending(shards, none, 100);
    assert.equal(rows.length, 10);
    assert.ok(rows.slice(0, 9).every(({ fault }) => fault !== undefined));
    const [last] = rows.slice(-1);
    assert.deepEqual([last?.fault, last?.headers, String(last?.payload)], [undefined, { a: 'b' }, '{}']);
    const failures = rows.map(({ id, retryCount }) => ({ id, retryCount: retryCount + 1 }));
    await store.fail(
      'one',
      failures.map((failure) => ({ ...failure, lastError: 'no record', retryInMs: null })),
    );
    assert.equal((await store.statistics()).failed, 10);
  });
}
