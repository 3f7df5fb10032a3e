import assert from 'node:assert/strict';
import pg from 'pg';
import { createPostgresStore } from '../../src/adapters/postgres/postgres-store.ts';
import { ddl } from '../../src/adapters/sql/schema.ts';
import type { SqlStoreOptions } from '../../src/adapters/sql/sql-store.ts';
import { insertColumns, rowStatements } from '../../src/outbox/insert-row.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import type { TestDatabase } from '../support/database.ts';
import { useLogger } from '../support/log.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { newTable, type OutboxStoreUnderTest, rowOf, testOutboxStore } from './outbox-store.ts';
import { testOutboxStrays } from './outbox-strays.ts';

const daysAhead = 3;
const dayMs = 86_400_000;
const weekMs = 7 * dayMs;

requiring('postgres', 'outbox store contract: postgres, a partition for each day', function () {
  this.timeout(20_000);
  let server: TestDatabase;
  let url: string;
  let table: string;
  let store: OutboxStore;
  let logged: string[];
  const opened: { close(deadlineMs: number): Promise<unknown> }[] = [];

  const open = (rest: Partial<SqlStoreOptions> = {}): OutboxStore => {
    const log = (message: string): void => void logged.push(message);
    useLogger({ info: log, warn: log, error: log });
    const made = createPostgresStore({
      ...{ url, table, initializeSchema: 'always', partitioned: true },
      ...rest,
    });
    opened.push(made);
    return made;
  };
  const query = (statement: string) => server.query(url, statement);
  const connect = async (): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    opened.push({ close: () => client.end() });
    return client;
  };
  const insertAs = (client: pg.Client) => {
    const { text, values } = rowStatements(table, 'postgres').insert(rowOf());
    return client.query(text, [...values]);
  };
  const suffixOf = (timeMs: number): string =>
    `p${new Date(timeMs).toISOString().slice(0, 10).replaceAll('-', '')}`;
  const partitions = async (): Promise<string[]> => {
    const found = await query(
      `SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = '${table}'::regclass`,
    );
    return found.map(({ name }) => String(name).slice(table.length + 1)).sort();
  };
  const places = async (): Promise<string[]> => {
    const found = await query(`SELECT tableoid::regclass::text AS name FROM ${table} ORDER BY id`);
    return found.map(({ name }) => String(name).slice(table.length + 1));
  };
  const nextDays = (): string[] =>
    Array.from({ length: daysAhead + 1 }, (_, ahead) => suffixOf(Date.now() + ahead * dayMs));
  /** A partition of long ago, with rows in it that have been PUBLISHED since then. */
  const longAgo = async (day: string, count: number): Promise<string> => {
    const suffix = `p${day.replaceAll('-', '')}`;
    await query(
      `CREATE TABLE ${table}_${suffix} PARTITION OF ${table} FOR VALUES FROM ('${day} 00:00:00+00') TO (timestamptz '${day} 00:00:00+00' + interval '1 day')`,
    );
    await store.insert(Array.from({ length: count }, () => rowOf({ topic: day })));
    const time = `timestamptz '${day} 12:00:00+00'`;
    await query(
      `UPDATE ${table} SET created_at = ${time}, published_at = ${time}, status = 'PUBLISHED' WHERE topic = '${day}'`,
    );
    return suffix;
  };

  before(async () => {
    server = await startPostgres();
    url = await server.freshDatabase();
  });
  beforeEach(async () => {
    table = newTable();
    logged = [];
    store = open();
    await store.prepare();
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((one) => one.close(1_000)));
  });

  const under = (): OutboxStoreUnderTest => ({
    dialect: 'postgres',
    url,
    open: (options) => createPostgresStore({ timeoutMs: 20_000, ...options, partitioned: true }),
    query,
  });
  testOutboxStore(under);
  describe('rows of somebody else', () => testOutboxStrays(under));

  it('rows that no relay would find are refused in a partition that is added later, on a table of an older svc, too', async () => {
    await query(`ALTER TABLE ${table} DROP CONSTRAINT ${table}_valid`);
    await query(`DELETE FROM ${table}_schema WHERE version = 2`);
    await store.insert([rowOf()]);
    await query(`UPDATE ${table} SET shard = 64`);
    await open().prepare();
    const tomorrow = `${table}_${suffixOf(Date.now() + dayMs)}`;
    await query(`DROP TABLE ${tomorrow}`);
    assert.equal(await store.partition(weekMs), true);
    const columns = `${insertColumns.join(', ')}, created_at`;
    const insertion = `INSERT INTO ${table} (${columns}) SELECT ${columns} + interval '1 day' FROM ${table}`;
    await assert.rejects(query(insertion), /_valid/);
    await query(`DELETE FROM ${table}`);
    await store.insert([rowOf()]);
    await query(insertion);
    assert.deepEqual(await places(), [suffixOf(Date.now()), suffixOf(Date.now() + dayMs)]);
  });

  it('is made with today, the next days, and one for all others', async () => {
    assert.deepEqual(await partitions(), ['default', ...nextDays()]);
    await store.insert([rowOf()]);
    assert.deepEqual(await places(), [suffixOf(Date.now())]);
  });

  it('a row of a day without a partition is stored, sent and cleaned up', async () => {
    await query(`DROP TABLE ${table}_${suffixOf(Date.now())}`);
    await store.insert([rowOf(), rowOf()]);
    assert.deepEqual(await places(), ['default', 'default']);
    assert.equal(await store.partition(weekMs), true);
    assert.deepEqual(await places(), ['default', 'default'], 'rows of a day stay where they are');
    const shards = await store.claim('one', 60_000);
    const found = await store.pending(shards, { upToId: 0, ids: [] }, 10);
    const ids = found.map(({ id }) => id);
    assert.deepEqual(await store.ack('one', ids, true), ids);
    assert.equal(await store.cleanup('PUBLISHED', -1_000, 10), 2);
    await store.partition(weekMs);
    await store.insert([rowOf()]);
    assert.deepEqual(await places(), [suffixOf(Date.now())], 'the day has its own again');
  });

  it('days ahead are made, by one of many, while transactions of the application are open', async () => {
    for (const suffix of nextDays().slice(1)) await query(`DROP TABLE ${table}_${suffix}`);
    const client = await connect();
    await client.query('BEGIN');
    await insertAs(client);
    await Promise.all(Array.from({ length: 4 }, () => open().partition(weekMs)));
    await store.partition(weekMs);
    await insertAs(client);
    await client.query('COMMIT');
    assert.deepEqual(await partitions(), ['default', ...nextDays()]);
    assert.equal(logged.filter((line) => line === 'the outbox added a partition').length, daysAhead);
    const [found] = await query(
      `SELECT count(*) AS indexes FROM pg_index WHERE indrelid = '${table}_${nextDays()[1]}'::regclass`,
    );
    assert.equal(Number(found?.indexes), 4);
  });

  it('a day that is published is dropped when its time has come, and one that is not stays', async () => {
    const days = {
      published: await longAgo('2020-01-01', 3),
      pending: await longAgo('2020-01-02', 2),
      failed: await longAgo('2020-01-03', 2),
      late: await longAgo('2020-01-04', 2),
      empty: await longAgo('2020-01-05', 0),
    };
    const oneOf = (day: string) => `id = (SELECT max(id) FROM ${table} WHERE topic = '${day}')`;
    await query(`UPDATE ${table} SET status = 'PENDING', published_at = NULL WHERE ${oneOf('2020-01-02')}`);
    await query(`UPDATE ${table} SET status = 'FAILED', published_at = NULL WHERE ${oneOf('2020-01-03')}`);
    await query(`UPDATE ${table} SET published_at = now() WHERE ${oneOf('2020-01-04')}`);
    await query(
      `CREATE TABLE theirs_${table} PARTITION OF ${table} FOR VALUES FROM ('2019-01-01') TO ('2019-01-02')`,
    );
    const before = await partitions();
    assert.equal(await store.partition(100 * 365 * dayMs), true);
    assert.deepEqual(await partitions(), before, 'nothing is as old as that');
    assert.equal(await store.partition(weekMs), true);
    const dropped = [days.published, days.empty];
    assert.deepEqual(
      await partitions(),
      before.filter((name) => !dropped.includes(name)),
    );
    const { total, pending, published, failed } = await store.statistics();
    assert.deepEqual([total, pending, published, failed], [6, 1, 4, 1]);
  });

  it('a transaction that is in the way of a day to be dropped a second time is named', async () => {
    await longAgo('2020-01-01', 1);
    const client = await connect();
    await client.query('BEGIN');
    await client.query(`SELECT count(*) FROM ${table}`);
    const pid = Number((await client.query('SELECT pg_backend_pid() AS pid')).rows[0]?.pid);
    await store.partition(weekMs);
    assert.doesNotMatch(logged.join('\n'), /holds/, 'that may be a short one');
    await store.partition(weekMs);
    const held = new RegExp(
      `waits for a lock in .*, which process ${pid} \\(.*idle in transaction for \\d+ s\\) holds`,
    );
    assert.match(logged.join('\n'), held);
    await client.query('ROLLBACK');
    await store.partition(weekMs);
    assert.equal((await partitions()).includes('p20200101'), false);
  });

  it('a row that is committed into an old day meanwhile is not dropped with it', async () => {
    const suffix = await longAgo('2020-01-01', 1);
    const client = await connect();
    await client.query('BEGIN');
    const columns = 'event_id, aggregate_type, aggregate_id, event_type, topic, record_key, headers, payload';
    await client.query(
      `INSERT INTO ${table} (${columns}, shard, occurred_at, created_at) VALUES ('late', 'a', 'b', 'c', 'd', 'e', '{}', '', 1, now(), timestamptz '2020-01-01 23:59:59+00')`,
    );
    const startMs = performance.now();
    await store.partition(weekMs);
    assert.ok(performance.now() - startMs < 2_000, 'nobody waits for long');
    await client.query('COMMIT');
    await store.partition(weekMs);
    assert.ok((await partitions()).includes(suffix));
    assert.equal(await store.countPending(), 1);
  });

  it('a user who does not own the table is told what to do, and only where there is something', async () => {
    const role = `relay_${newTable()}`;
    await query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
    for (const statement of ddl('postgres', table, { from: 1, grants: { relay: role } })
      .split(/;\n+/)
      .filter(Boolean))
      await query(statement);
    const theirs = Object.assign(new URL(url), { username: role, password: 'secret' }).href;
    const relay = open({ url: theirs, initializeSchema: 'never' });
    try {
      await relay.prepare();
      assert.equal(await relay.partition(weekMs), true);
      const suffix = await longAgo('2020-01-01', 1);
      await assert.rejects(relay.partition(weekMs), {
        code: 'SVC_OUTBOX_NOT_ALLOWED',
        message: /Make it their owner, or run "npx --no svc outbox migrate" once a day as the owner/,
      });
      assert.ok((await partitions()).includes(suffix));
    } finally {
      await query(`DROP OWNED BY ${role}`);
      await query(`DROP ROLE ${role}`);
    }
  });

  it('as text it can be run twice; an old table that is none is told', async () => {
    table = newTable();
    const statements = ddl('postgres', table, { partitionedFrom: Date.now() }).split(/;\n+/).filter(Boolean);
    for (const statement of [...statements, ...statements]) await query(statement);
    await open({ initializeSchema: 'never' }).prepare();
    assert.deepEqual(await partitions(), ['default', ...nextDays()]);
    table = newTable();
    const plain = open({ partitioned: false });
    await plain.prepare();
    assert.equal(await plain.partition(weekMs), false);
    await query(`DELETE FROM ${table}_schema`);
    await assert.rejects(open().prepare(), { code: 'SVC_OUTBOX_SCHEMA_VERSION' });
  });
});
