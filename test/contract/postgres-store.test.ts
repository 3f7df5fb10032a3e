import assert from 'node:assert/strict';
import pg from 'pg';
import { createPostgresStore } from '../../src/adapters/postgres/postgres-store.ts';
import { startOwnPostgres, startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { testOutboxMigrations } from './outbox-migrations.ts';
import { testOutboxSchema } from './outbox-schema.ts';
import { type OutboxStoreUnderTest, rowOf, testOutboxStore } from './outbox-store.ts';
import { testOutboxStrays } from './outbox-strays.ts';
import { type ServerUnderTest, testServerStore } from './server-store.ts';

requiring('postgres', 'outbox store contract: postgres', function () {
  this.timeout(20_000);
  let under: OutboxStoreUnderTest;

  before(async () => {
    const server = await startPostgres();
    const url = await server.freshDatabase();
    under = {
      dialect: 'postgres',
      url,
      open: createPostgresStore,
      query: (statement) => server.query(url, statement),
    };
  });

  testOutboxStore(() => under);
  describe('schema', () => testOutboxSchema(() => under));
  describe('rows of somebody else', () => testOutboxStrays(() => under));
  describe('migrations', () => testOutboxMigrations(() => under));
});

requiring('own-postgres', 'outbox store on a server that can be hurt: postgres', function () {
  this.timeout(30_000);
  let under: ServerUnderTest;

  before(async () => {
    const server = await startOwnPostgres();
    // Passwords are looked at, but for the user of the tests.
    const [row] = await server.query(server.url, `SELECT current_setting('hba_file') AS file`);
    const rules = 'host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256';
    await server.query(
      server.url,
      `COPY (SELECT unnest(string_to_array('${rules}', E'\\n'))) TO '${row?.file}'`,
    );
    await server.query(server.url, 'SELECT pg_reload_conf()');
    under = {
      dialect: 'postgres',
      server,
      open: createPostgresStore,
      async connect(url) {
        const client = new pg.Client(url);
        client.on('error', () => {});
        await client.connect();
        return {
          query: (statement, values = []) => client.query(statement, [...values]),
          close: () => client.end(),
        };
      },
      makeUser: (name, password) => [`CREATE ROLE ${name} LOGIN PASSWORD '${password}'`],
      lockTable: (table) => `LOCK TABLE ${table}`,
      namesTableLocks: true,
      setReadOnly: (url, isReadOnly) =>
        `ALTER DATABASE "${new URL(url).pathname.slice(1)}" SET default_transaction_read_only = ${isReadOnly ? 'on' : 'off'}`,
      connectionsOfSvc: `SELECT count(*) AS found FROM pg_stat_activity WHERE application_name = 'svc-outbox'`,
      makeSchema: (name) => `CREATE SCHEMA ${name}`,
      store: { file: 'postgres/postgres-store.ts', name: 'createPostgresStore' },
    };
  });

  testServerStore(() => under);

  it('waits for what an operator looks for longer than for what a relay does', async () => {
    const url = await under.server.freshDatabase();
    const store = createPostgresStore({ url, table: 'searched', initializeSchema: 'always', timeoutMs: 400 });
    const other = await under.connect(url);
    try {
      await store.prepare();
      await store.insert([rowOf()]);
      await other.query('BEGIN');
      await other.query('LOCK TABLE searched');
      const found = store.read({ topic: rowOf().topic }, 0, 1);
      await assert.rejects(store.countPending(), { code: 'SVC_OUTBOX_UNREACHABLE' });
      await other.query('COMMIT');
      assert.equal((await found).length, 1);
    } finally {
      await Promise.all([other.close(), store.close(500)]);
    }
  });

  it('reads the same whatever the settings of its user are', async () => {
    const { server } = under;
    const url = await server.freshDatabase();
    const database = new URL(url).pathname.slice(1);
    const settings = {
      bytea_output: 'escape',
      client_encoding: 'LATIN1',
      datestyle: 'German, DMY',
      default_transaction_isolation: 'serializable',
      extra_float_digits: '-15',
      intervalstyle: 'sql_standard',
      standard_conforming_strings: 'off',
      timezone: 'Asia/Kathmandu',
    };
    for (const [name, value] of Object.entries(settings))
      await server.query(server.url, `ALTER DATABASE "${database}" SET ${name} = '${value}'`);
    const store = createPostgresStore({ url, table: 'settled', initializeSchema: 'always' });
    try {
      await store.prepare();
      const payload = Buffer.from([...Array(256).keys(), ...Buffer.from('\\x41\\\\101漢')]);
      for (const row of [
        rowOf({ payload }),
        rowOf({ payload: Buffer.from('\\x4') }),
        rowOf({ payload: Buffer.alloc(0) }),
      ]) {
        await store.insert([{ ...row, aggregateId: "ä漢\\'" }]);
        const found = (await store.read({ aggregateId: "ä漢\\'" }, (await store.lastId()) - 1, 1))[0];
        assert.deepEqual(found?.payload, row.payload);
        assert.equal(found?.occurredAt, row.occurredAt);
      }
    } finally {
      await store.close(500);
    }
  });

  it('reads the same whatever an application has made of types', async () => {
    const { getTypeParser, setTypeParser, builtins } = pg.types;
    const oids = [builtins.INT8, builtins.TEXT, builtins.BYTEA, builtins.INT4];
    const before = oids.map((oid) => getTypeParser(oid));
    const url = await under.server.freshDatabase();
    const store = createPostgresStore({ url, table: 'hostile', initializeSchema: 'always' });
    try {
      for (const oid of oids) setTypeParser(oid, () => 'hostile' as never);
      await store.prepare();
      const row = rowOf();
      await store.insert([row]);
      const [found] = await store.read({}, 0, 10);
      assert.deepEqual([found?.id, found?.topic, found?.payload], [1, row.topic, row.payload]);
    } finally {
      for (const [index, oid] of oids.entries()) setTypeParser(oid, before[index] as never);
      await store.close(1_000);
    }
  });
});
