import assert from 'node:assert/strict';
import { symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { newTable } from '../contract/outbox-store.ts';
import { runApp, writeFiles } from '../e2e/support/run-app.ts';
import type { TestDatabase } from '../support/database.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';

const root = resolve(import.meta.dirname, '../..');
const table = 'svc_outbox_events';

/** Each order in a transaction of its own, on a connection of its own; `wait` for what svc does meanwhile. */
const application = {
  'orders.mjs': `export async function place(client, id, aggregate) {
    await client.query('INSERT INTO orders (id) VALUES ($1)', [id]);
    return { id, aggregate, key: id === 'longKey' ? 'x'.repeat(70_000) : id };
  }`,
  'main.mjs': `import pg from 'pg';
  import { place } from './orders.mjs';
  const bad = { none: null, empty: '', long: 'x'.repeat(70_000) };
  for (const id of process.argv.slice(2)) {
    if (id === 'wait') { await new Promise((done) => setTimeout(done, 2_600)); continue; }
    const client = new pg.Client({ connectionString: process.env.APP_URL });
    await client.connect();
    let end = 'committed';
    try {
      await client.query('BEGIN');
      // What the application swallows must not be committed either.
      await place(client, id, id in bad ? bad[id] : id).catch((error) => { end = error.code; });
      await client.query('COMMIT');
    } catch (error) {
      end = error.code;
      await client.query('ROLLBACK').catch(() => {});
    }
    console.log(JSON.stringify([id, end]));
    await client.end();
  }`,
};

requiring(
  'postgres',
  'an event that cannot be stored fails its call, and nothing of it is committed',
  function () {
    this.timeout(60_000);
    let server: TestDatabase;
    let url: string;
    let folder: string;
    let store: OutboxStore;

    const query = (statement: string) => server.query(url, statement);
    const ids = async (at = url): Promise<string[]> =>
      (await server.query(at, 'SELECT id FROM orders ORDER BY id')).map(({ id }) => String(id));
    const events = async (): Promise<string[]> =>
      (await store.read({}, 0, 100)).map((row) => row.aggregateId);

    async function run(appUrl: string, ...calls: string[]) {
      const config = {
        svc: {
          broker: { client: 'file', topic: 'orders' },
          outbox: { enabled: true, datasource: { url }, 'publisher-enabled': false },
          targets: [
            {
              ...{ module: './orders.mjs', function: 'place', eventType: 'ORDERED', payload: '#result.id' },
              key: '#result.key',
              outbox: { aggregateType: 'Order', aggregateId: '#result.aggregate' },
            },
          ],
        },
      };
      writeFiles(folder, { ...application, 'package.json': '{}', 'svc.config.json': JSON.stringify(config) });
      const args = ['--import', join(root, 'dist/register.mjs'), 'main.mjs', ...calls];
      const { stdout, stderr } = await runApp({
        ...{ node: process.execPath, cwd: folder, args },
        env: { APP_URL: appUrl, SVC_SHUTDOWN_TIMEOUT_MS: '1000' },
      });
      const ends: Record<string, string> = {};
      for (const line of stdout.trim().split('\n').filter(Boolean)) {
        const [id, end] = JSON.parse(line) as [string, string];
        ends[id] = end;
      }
      return { ends, stderr };
    }

    before(async () => {
      server = await startPostgres();
    });
    beforeEach(async () => {
      url = await server.freshDatabase();
      await query('CREATE TABLE orders (id text PRIMARY KEY)');
      store = openOutboxStore({ url, table, initializeSchema: 'always' });
      await store.prepare();
      folder = temporaryFolder('refused');
      symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
    });
    afterEach(async () => {
      await store.close(1_000);
    });

    it('an aggregate id that is null, empty or too long', async () => {
      const { ends } = await run(url, 'none', 'empty', 'long', 'good');
      const code = 'SVC_OUTBOX_AGGREGATE_ID';
      assert.deepEqual(ends, { none: code, empty: code, long: code, good: 'committed' });
      assert.deepEqual([await ids(), await events()], [['good'], ['good']]);
    });

    it('a record key that is too long', async () => {
      const { ends } = await run(url, 'longKey', 'good');
      assert.deepEqual(ends, { longKey: 'SVC_OUTBOX_TOO_LONG', good: 'committed' });
      assert.deepEqual([await ids(), await events()], [['good'], ['good']]);
    });

    it("the application's user may not insert into the table", async () => {
      const role = `app_${newTable()}`;
      await query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
      await query(`GRANT INSERT ON orders TO ${role}`);
      try {
        const theirs = Object.assign(new URL(url), { username: role, password: 'secret' }).href;
        const refused = await run(theirs, 'first', 'second');
        assert.deepEqual(refused.ends, { first: 'SVC_OUTBOX_INSERT', second: 'SVC_OUTBOX_INSERT' });
        await query(`GRANT INSERT ON ${table} TO ${role}`);
        assert.deepEqual((await run(theirs, 'third')).ends, { third: 'committed' });
        assert.deepEqual([await ids(), await events()], [['third'], ['third']]);
      } finally {
        await query(`DROP OWNED BY ${role}`);
        await query(`DROP ROLE ${role}`);
      }
    });

    it('a table of an older version refuses; one of a newer version takes it', async () => {
      await query(`INSERT INTO ${table}_schema (version) VALUES (99)`);
      await query(`ALTER TABLE ${table} ADD COLUMN later integer NOT NULL DEFAULT 1`);
      assert.deepEqual((await run(url, 'newer')).ends, { newer: 'committed' });
      await query(`DELETE FROM ${table}_schema`);
      await query(`ALTER TABLE ${table} DROP COLUMN record_key`);
      assert.deepEqual((await run(url, 'older')).ends, { older: 'SVC_OUTBOX_INSERT' });
      assert.deepEqual(await ids(), ['newer']);
    });

    it('a database that is not that of svc.outbox.datasource.url, once the first events were not seen there', async () => {
      const other = await server.freshDatabase();
      await server.query(other, 'CREATE TABLE orders (id text PRIMARY KEY)');
      const inOther = openOutboxStore({ url: other, table, initializeSchema: 'always' });
      try {
        await inOther.prepare();
        const { ends, stderr } = await run(other, 'first', 'second', 'wait', 'third');
        const code = 'SVC_OUTBOX_OTHER_DATABASE';
        assert.deepEqual(ends, { first: 'committed', second: 'committed', third: code });
        assert.match(stderr, /another table svc_outbox_events than that of svc\.outbox\.datasource\.url/);
        assert.deepEqual(await ids(other), ['first', 'second']);
        assert.equal(await inOther.countPending(), 2, 'what was committed before waits there');
      } finally {
        await inOther.close(1_000);
      }
    });

    it('the right database is not suspected', async () => {
      const { ends, stderr } = await run(url, 'first', 'second', 'wait', 'third');
      assert.deepEqual(ends, { first: 'committed', second: 'committed', third: 'committed' });
      assert.doesNotMatch(stderr, /another table|error/);
    });
  },
);
