import assert from 'node:assert/strict';
import { ddl, migrations } from '../../src/adapters/sql/schema.ts';
import type { SqlStoreOptions } from '../../src/adapters/sql/sql-store.ts';
import { longestOutboxText } from '../../src/ground/event-fields.ts';
import { quoteTable } from '../../src/outbox/insert-row.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { newTable, type OutboxStoreUnderTest, rowOf } from './outbox-store.ts';

/** What `prepare` promises for each value of `svc.outbox.initialize-schema`. Call it inside a `describe`. */
export function testOutboxSchema(get: () => OutboxStoreUnderTest): void {
  const opened: OutboxStore[] = [];
  let table: string;
  const open = (initializeSchema: SqlStoreOptions['initializeSchema']): OutboxStore => {
    const made = get().open({ url: get().url, table, initializeSchema });
    opened.push(made);
    return made;
  };
  const named = (suffix = ''): string => quoteTable(get().dialect, table, suffix);

  beforeEach(() => {
    table = newTable();
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((one) => one.close(1_000)));
  });

  it('always: makes the tables where there are none, and leaves them alone where they are', async () => {
    await open('always').prepare();
    await open('always').insert([rowOf()]);
    await open('always').prepare();
    assert.equal(await open('never').countPending(), 1);
    await open('never').prepare();
    await open('embedded').prepare();
  });

  it('always: eight at once make them once', async () => {
    await Promise.all(Array.from({ length: 8 }, () => open('always').prepare()));
    const versions = await get().query(`SELECT version FROM ${named('_schema')}`);
    assert.deepEqual(
      versions.map(({ version }) => Number(version)),
      migrations.map(({ version }) => version),
    );
    const [shards] = await get().query(`SELECT COUNT(*) AS found FROM ${named('_shard')}`);
    assert.equal(Number(shards?.found), 64);
  });

  it('never: a table that is missing is told, with what to do, and not made', async () => {
    const error = {
      code: 'SVC_OUTBOX_TABLE_MISSING',
      message: new RegExp(`${table}.*npx --no svc outbox ddl`),
    };
    await assert.rejects(open('never').prepare(), error);
    await assert.rejects(get().query(`SELECT 1 FROM ${named()}`));
    await assert.rejects(open('never').insert([rowOf()]), { code: 'SVC_OUTBOX_TABLE_MISSING' });
    await assert.rejects(open('never').countPending(), { code: 'SVC_OUTBOX_TABLE_MISSING' });
  });

  it('embedded: makes them in SQLite only', async () => {
    if (get().dialect === 'sqlite') await open('embedded').prepare();
    else await assert.rejects(open('embedded').prepare(), { code: 'SVC_OUTBOX_TABLE_MISSING' });
  });

  it('one of the tables is missing', async () => {
    await open('always').prepare();
    await get().query(`DROP TABLE ${named('_shard')}`);
    await assert.rejects(open('never').prepare(), { code: 'SVC_OUTBOX_TABLE_MISSING' });
    await assert.rejects(open('always').prepare(), { code: 'SVC_OUTBOX_TABLE_MISSING' });
  });

  it('an older version is told, and with always brought up to this one', async () => {
    await open('always').prepare();
    await get().query(`DELETE FROM ${named('_schema')}`);
    await assert.rejects(open('never').prepare(), {
      code: 'SVC_OUTBOX_SCHEMA_VERSION',
      message: /has version 0, older/,
    });
    await open('always').prepare();
    await open('never').prepare();
  });

  it('a newer version is used as long as its tables answer, and told where they do not', async () => {
    await open('always').prepare();
    await get().query(`INSERT INTO ${named('_schema')} (version) VALUES (99)`);
    await open('never').prepare();
    await open('always').prepare();
    await get().query(`ALTER TABLE ${named()} RENAME COLUMN last_error TO latest_error`);
    for (const choice of ['always', 'embedded', 'never'] as const)
      await assert.rejects(open(choice).prepare(), {
        code: 'SVC_OUTBOX_SCHEMA_VERSION',
        message: /has version 99, newer .* can use: update svc/,
      });
  });

  it('another table of that name is told and left alone', async () => {
    await get().query(`CREATE TABLE ${named()} (id integer, note varchar(20))`);
    await assert.rejects(open('never').prepare(), { code: 'SVC_OUTBOX_TABLE_MISSING' });
    await assert.rejects(open('always').prepare(), { code: 'SVC_OUTBOX_SCHEMA_VERSION' });
    assert.deepEqual(await get().query(`SELECT note FROM ${named()}`), []);
  });

  it('the text of the tables makes the same as svc, and can be run twice', async () => {
    const statements = ddl(get().dialect, table).split(/;\n+/).filter(Boolean);
    for (const statement of [...statements, ...statements]) await get().query(statement);
    const store = open('never');
    await store.prepare();
    await store.insert([rowOf()]);
    assert.equal((await store.claim('one', 1_000)).length, 64);
  });

  it('a name of 63 characters has tables and indexes of its own', async () => {
    table = `o${table}`.padEnd(63, 'x');
    await open('always').prepare();
    table = `${table.slice(0, 62)}y`;
    await assert.rejects(open('never').prepare(), { code: 'SVC_OUTBOX_TABLE_MISSING' });
    await open('always').prepare();
    assert.equal((await open('never').claim('one', 1_000)).length, 64);
  });

  it('takes the longest texts that svc lets through', async () => {
    const store = open('always');
    await store.prepare();
    const row = rowOf({
      aggregateType: 'é'.repeat(longestOutboxText / 2),
      aggregateId: 'x'.repeat(longestOutboxText),
      key: 'k'.repeat(longestOutboxText),
      eventType: 't'.repeat(longestOutboxText),
      topic: 'o'.repeat(longestOutboxText),
    });
    await store.insert([row]);
    const [found] = await store.read({}, 0, 1);
    for (const name of ['aggregateType', 'aggregateId', 'key', 'eventType', 'topic'] as const)
      assert.ok(found?.[name] === row[name], name);
    assert.equal(await store.holds(row.eventId, await store.lastId()), false);
    assert.equal(await store.holds(row.eventId, (await store.lastId()) - 1), true);
  });

  it('refuses what is no name of a table', () => {
    for (const name of ['', 'a b', 'a;b', '1a', 'a.b.c', `a'`, 'a"', 'a`', 'ä', '.a', 'a.', 'a'.repeat(64)])
      assert.throws(() => get().open({ url: get().url, table: name, initializeSchema: 'never' }), {
        code: 'SVC_OUTBOX_URL',
      });
  });
}
