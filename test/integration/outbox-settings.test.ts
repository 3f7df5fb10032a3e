import assert from 'node:assert/strict';
import { rmSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { debezium } from '../../src/adapters/debezium/connector.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { runApp, writeFiles } from '../e2e/support/run-app.ts';
import type { OwnDatabase, TestDatabase } from '../support/database.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startMariadb } from '../support/mariadb.ts';
import { startMysql } from '../support/mysql.ts';
import { startOwnPostgres, startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';

const root = resolve(import.meta.dirname, '../..');
const table = 'svc_outbox_events';
const readiness = '/actuator/health/readiness';

/** `place` within a transaction of the driver, and what the management server says; each answer is a line. */
const application = {
  'pg.mjs': `import pg from 'pg';
  export async function open() {
    const client = new pg.Client({ connectionString: process.env.APP_URL });
    await client.connect();
    return { run: (sql) => client.query(sql), end: () => client.end() };
  }`,
  'mysql2.mjs': `import mysql from 'mysql2/promise';
  export async function open() {
    const connection = await mysql.createConnection(process.env.APP_URL.replace(/^mariadb:/, 'mysql:'));
    return { run: (sql) => connection.query(sql), end: () => connection.end() };
  }`,
  'orders.mjs': `export async function place(db, id) {
    await db.run(\`INSERT INTO orders (id) VALUES ('\${id}')\`);
    return { id };
  }`,
  'main.mjs': `import { place } from './orders.mjs';
  const { open } = await import(process.env.APP_DRIVER);
  const port = Number(process.env.MANAGEMENT_SERVER_PORT);
  for (const step of process.argv.slice(2)) {
    if (/^\\d+$/.test(step)) { await new Promise((done) => setTimeout(done, Number(step))); continue; }
    if (step.startsWith('/')) {
      const answer = await fetch(\`http://127.0.0.1:\${port}\${step}\`);
      console.log(JSON.stringify([step, answer.status, await answer.json()]));
      continue;
    }
    const db = await open();
    let end = 'committed';
    try {
      await db.run('BEGIN');
      await place(db, step);
      await db.run('COMMIT');
    } catch (error) {
      end = error.code;
      await db.run('ROLLBACK').catch(() => {});
    }
    await db.end();
    console.log(JSON.stringify([step, end]));
  }`,
};

interface Scene {
  readonly server: TestDatabase;
  readonly url: string;
  readonly folder: string;
  /** `port`: of the management server. */
  run(outbox: object, ...steps: string[]): Promise<{ told: Map<string, unknown[]>; stderr: string }>;
  remove(): void;
}

let port = 20_464 + (process.pid % 10_000);

async function sceneOn(server: TestDatabase): Promise<Scene> {
  const url = await server.freshDatabase();
  await server.query(url, 'CREATE TABLE orders (id varchar(40) PRIMARY KEY)');
  const folder = temporaryFolder('settings');
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction');
  return {
    ...{ server, url, folder },
    async run(outbox, ...steps) {
      const svc = {
        broker: { client: 'file', topic: 'orders' },
        outbox: { enabled: true, datasource: { url }, ...outbox },
        targets: [
          {
            ...{ module: './orders.mjs', function: 'place', eventType: 'ORDERED', payload: '#result.id' },
            outbox: { aggregateType: 'Order', aggregateId: '#result.id' },
          },
        ],
      };
      writeFiles(folder, {
        ...application,
        'package.json': '{}',
        'svc.config.json': JSON.stringify({ svc }),
      });
      const { stdout, stderr } = await runApp({
        ...{ node: process.execPath, cwd: folder },
        args: ['--import', join(root, 'dist/register.mjs'), 'main.mjs', ...steps],
        env: {
          ...{ APP_URL: url, APP_DRIVER: url.startsWith('postgres') ? './pg.mjs' : './mysql2.mjs' },
          ...{ MANAGEMENT_SERVER_PORT: String(++port), SVC_SHUTDOWN_TIMEOUT_MS: '2000' },
        },
      });
      const lines = stdout.trim().split('\n').filter(Boolean);
      return {
        told: new Map(lines.map((line) => JSON.parse(line)).map(([step, ...rest]) => [step, rest])),
        stderr,
      };
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function ordersIn({ server, url }: Scene): Promise<string[]> {
  return (await server.query(url, 'SELECT id FROM orders ORDER BY id')).map(({ id }) => String(id));
}

for (const [needs, start] of [
  ['postgres', startPostgres],
  ['mariadb', startMariadb],
  ['mysql', startMysql],
] as const)
  requiring(needs, `initialize-schema: always on a fresh ${needs}`, function () {
    this.timeout(60_000);
    let scene: Scene;
    let store: OutboxStore;
    before(async () => {
      scene = await sceneOn(await start());
      store = openOutboxStore({ url: scene.url, table, initializeSchema: 'never' });
    });
    after(async () => {
      await store.close(1_000);
      scene.remove();
    });

    it('the first transactions wait for the tables', async () => {
      const always = { 'initialize-schema': 'always', 'publisher-enabled': false };
      const { told, stderr } = await scene.run(always, 'first', 'second', '300', readiness);
      assert.deepEqual(told.get('first'), ['committed'], stderr);
      assert.deepEqual(told.get('second'), ['committed'], stderr);
      assert.deepEqual(told.get(readiness), [200, { status: 'UP' }]);
      assert.equal(await store.countPending(), 2);
    });
  });

requiring('postgres', 'tables that cannot be made yet', function () {
  this.timeout(60_000);

  it('hold the first transaction for max-wait, and readiness is DOWN until they are there', async () => {
    const scene = await sceneOn(await startPostgres());
    const { server, url } = scene;
    try {
      // As another process does that makes them, for a while.
      const { default: pg } = await import('pg');
      const other = new pg.Client({ connectionString: url });
      await other.connect();
      await other.query('BEGIN; CREATE TABLE svc_outbox_events_schema (version integer)');
      const rolledBack = new Promise((done) => setTimeout(done, 4_000)).then(() => other.query('ROLLBACK'));
      const always = { 'initialize-schema': 'always', 'publisher-enabled': false };
      const { told, stderr } = await scene.run(
        always,
        'early',
        '300',
        readiness,
        '4500',
        'later',
        `${readiness}?`,
      );
      await rolledBack;
      await other.end();
      assert.deepEqual(told.get('early'), ['SVC_OUTBOX_INSERT'], stderr);
      assert.deepEqual(told.get(readiness), [503, { status: 'DOWN' }]);
      assert.deepEqual(told.get('later'), ['committed'], stderr);
      assert.deepEqual(told.get(`${readiness}?`), [200, { status: 'UP' }]);
      assert.deepEqual(await ordersIn(scene), ['later']);
      assert.equal((await server.query(url, `SELECT id FROM ${table}`)).length, 1);
    } finally {
      scene.remove();
    }
  });
});

requiring('own-postgres', 'a table that is set up for other settings', function () {
  this.timeout(60_000);
  const code = 'SVC_OUTBOX_CONTRADICTION';
  const health = '/actuator/health/svc';
  const erasing = { 'publisher-enabled': false, 'retention-days': 0 };
  let server: OwnDatabase;
  let scene: Scene;

  before(async () => {
    server = await startOwnPostgres();
  });
  after(() => server?.stop());
  beforeEach(async () => {
    scene = await sceneOn(server);
    const store = openOutboxStore({ url: scene.url, table, initializeSchema: 'always' });
    await store.prepare();
    await store.close(1_000);
  });
  afterEach(() => scene.remove());

  const query = (sql: string) => server.query(scene.url, sql);
  const sql = async (erases: boolean): Promise<void> => {
    const printed = { dialect: 'postgres', table, headers: [], publication: 'svc_outbox', erases } as const;
    await query(debezium.sql(printed));
  };
  const check = (outbox: Record<string, string> = {}) =>
    runSvc(['outbox', 'check'], {
      cwd: '/tmp',
      env: { SVC_OUTBOX_ENABLED: 'true', SVC_OUTBOX_DATASOURCE_URL: scene.url, ...outbox },
    });

  for (const [what, outbox, env] of [
    ['the relay', {}, {}],
    ['a relay that deletes at once', { 'retention-days': 0 }, { SVC_OUTBOX_RETENTION_DAYS: '0' }],
    ['svc relay', { 'publisher-enabled': false }, { SVC_OUTBOX_PUBLISHER_ENABLED: 'false' }],
  ] as const)
    it(`back from Debezium to ${what}: the trigger that erases rows is told, and calls fail before an event is lost`, async () => {
      await sql(true);
      const { told, stderr } = await scene.run(outbox, 'first', 'second', '300', health);
      assert.deepEqual([told.get('first'), told.get('second')], [[code], [code]], stderr);
      assert.deepEqual(await ordersIn(scene), []);
      assert.match(stderr, /error: outbox: a trigger of the table svc_outbox_events deletes each row/);
      const [status, body] = told.get(health) as [number, { details: { outbox: { error: string } } }];
      assert.equal(status, 503);
      assert.match(
        body.details.outbox.error,
        /Run DROP TRIGGER "svc_outbox_events_erase" ON "svc_outbox_events"/,
      );
      const checked = await check(env);
      assert.equal(checked.code, 1);
      assert.match(checked.stdout, /error: a trigger of the table/);
      const relay = await runSvc(['relay'], {
        cwd: scene.folder,
        env: {
          ...env,
          SVC_OUTBOX_RETENTION_DAYS: '7',
          SVC_BROKER_CLIENT: 'file',
          MANAGEMENT_SERVER_PORT: '0',
        },
      });
      assert.equal(relay.code, 1, relay.stderr);
      assert.match(relay.stderr, new RegExp(`a trigger of the table .*code="${code}"`));
      await query('DROP TRIGGER "svc_outbox_events_erase" ON "svc_outbox_events"');
      assert.equal((await check(env)).code, 0);
      assert.deepEqual((await scene.run(outbox, 'third')).told.get('third'), ['committed']);
    });

  it('a process goes on by itself once the trigger is gone', async () => {
    await sql(true);
    const running = scene.run({ 'publisher-enabled': false }, 'first', '7000', 'second', health);
    await new Promise((done) => setTimeout(done, 2_500));
    await sql(false);
    const { told, stderr } = await running;
    assert.deepEqual([told.get('first'), told.get('second')], [[code], ['committed']], stderr);
    assert.equal((told.get(health) as [number])[0], 200);
    assert.equal((await query(`SELECT id FROM ${table}`)).length, 1);
  });

  it('Debezium that erases rows without a slot for any connector: calls fail; with one they do not', async () => {
    await sql(true);
    const env = { SVC_OUTBOX_PUBLISHER_ENABLED: 'false', SVC_OUTBOX_RETENTION_DAYS: '0' };
    assert.deepEqual((await scene.run(erasing, 'first')).told.get('first'), [code]);
    assert.match((await check(env)).stdout, /error: .* its database has no logical replication slot/);
    await query(`SELECT pg_create_logical_replication_slot('of_a_connector', 'pgoutput')`);
    try {
      const { told, stderr } = await scene.run(erasing, 'second', '300', health);
      assert.deepEqual(told.get('second'), ['committed'], stderr);
      const [status, body] = told.get(health) as [number, { details: { outbox: { warning: string } } }];
      assert.equal(status, 200);
      assert.match(body.details.outbox.warning, /no connector reads the log of its database/);
      const checked = await check(env);
      assert.equal(checked.code, 0);
      assert.match(checked.stdout, /^warning: no relay of svc_outbox_events runs/m);
      await sql(false);
      assert.match(
        (await check(env)).stdout,
        /^warning: .* keeps its rows: run the output of "npx --no svc outbox debezium --sql"/m,
      );
    } finally {
      await query(`SELECT pg_drop_replication_slot('of_a_connector')`);
    }
  });

  it('rows that wait for more than a minute while no relay of this table runs', async () => {
    const quiet = await scene.run({ 'publisher-enabled': false }, 'first', '200', health);
    assert.doesNotMatch(quiet.stderr, /no relay/);
    await query(`UPDATE ${table} SET created_at = created_at - interval '61 seconds'`);
    const { told, stderr } = await scene.run({ 'publisher-enabled': false }, 'second', '200', health);
    assert.deepEqual(told.get('second'), ['committed']);
    assert.match(stderr, /warn: outbox: rows of svc_outbox_events wait for 1 min, but no relay of it runs/);
    const [status, body] = told.get(health) as [number, { details: { outbox: { warning: string } } }];
    assert.equal(status, 200);
    assert.match(body.details.outbox.warning, /no relay of it runs/);
    assert.match((await check()).stdout, /2 events pending\nwarning: rows of svc_outbox_events wait/);
  });

  it('the publication of a table in partitions tells of the table itself, which the connector looks for', async () => {
    await query(`DROP TABLE ${['', '_shard', '_relay', '_schema'].map((suffix) => table + suffix).join()}`);
    const store = openOutboxStore({ url: scene.url, table, initializeSchema: 'always', partitioned: true });
    await store.prepare();
    await store.close(1_000);
    await sql(true);
    await query(`SELECT pg_create_logical_replication_slot('partitions', 'pgoutput')`);
    try {
      assert.deepEqual((await scene.run(erasing, 'first')).told.get('first'), ['committed']);
      assert.deepEqual(await query(`SELECT id FROM ${table}`), []);
      // The one that each INSERT is said to be into: an I, and the id of its table.
      const changes = await query(
        `SELECT encode(substring(data FROM 2 FOR 4), 'hex') AS into_id, to_hex('${table}'::regclass::oid::bigint) AS table_id
         FROM pg_logical_slot_peek_binary_changes('partitions', NULL, NULL, 'proto_version', '1', 'publication_names', 'svc_outbox')
         WHERE get_byte(data, 0) = ascii('I')`,
      );
      assert.deepEqual(
        changes.map(({ into_id }) => into_id),
        changes.map(({ table_id }) => String(table_id).padStart(8, '0')),
      );
      assert.equal(changes.length, 1);
    } finally {
      await query(`SELECT pg_drop_replication_slot('partitions')`);
    }
  });
});
