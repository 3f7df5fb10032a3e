import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { schemaVersion } from '../../src/adapters/sql/schema.ts';
import { rowStatements } from '../../src/outbox/insert-row.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { openOutboxStore } from '../../src/start/adapters.ts';
import { outboxRow } from '../cli/outbox-folder.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';
import { runSvc } from '../support/run-svc.ts';

requiring('postgres', 'svc outbox ddl on PostgreSQL', function () {
  this.timeout(60_000);
  const table = 'events.svc_outbox';
  const suffix = randomBytes(4).toString('hex');
  const roles = { app: `app_${suffix}`, relay: `relay-${suffix}` };
  let admin: pg.Client;
  let url: string;
  const urlOf = (user: string): string =>
    Object.assign(new URL(url), { username: user, password: 'secret' }).href;
  const ddl = (...args: string[]) =>
    runSvc(['outbox', 'ddl', '--dialect', 'postgres', '--table', table, ...args], { cwd: '/' });
  const denied = (work: Promise<unknown>) => assert.rejects(work, { code: '42501' });

  async function as<T>(user: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client({ connectionString: urlOf(user) });
    await client.connect();
    try {
      return await work(client);
    } finally {
      await client.end();
    }
  }

  before(async () => {
    url = await (await startPostgres()).freshDatabase();
    admin = new pg.Client({ connectionString: url });
    await admin.connect();
    for (const role of Object.values(roles))
      await admin.query(`CREATE ROLE "${role}" LOGIN PASSWORD 'secret'`);
    await admin.query('CREATE SCHEMA events');
    const { code, stdout, stderr } = await ddl('--role', `app=${roles.app},relay=${roles.relay}`);
    assert.equal(code, 0, stderr);
    await admin.query(stdout);
    // Whoever updates svc runs it once more.
    await admin.query(stdout);
  });
  after(async () => {
    for (const role of Object.values(roles)) {
      await admin.query(`DROP OWNED BY "${role}"`);
      await admin.query(`DROP ROLE "${role}"`);
    }
    await admin.end();
  });

  it('the application may insert, and nothing else', async () => {
    const { text, values } = rowStatements(table, 'postgres').insert(
      outboxRow({ eventId: 'by-the-application' }),
    );
    await as(roles.app, async (client) => {
      await client.query(text, [...values]);
      for (const sql of [
        `SELECT 1 FROM ${table}`,
        `UPDATE ${table} SET status = 'FAILED'`,
        `DELETE FROM ${table}`,
        `TRUNCATE ${table}`,
        `SELECT 1 FROM ${table}_shard`,
        `UPDATE ${table}_shard SET owner = 'me'`,
        `SELECT 1 FROM ${table}_relay`,
        `SELECT 1 FROM ${table}_schema`,
        'CREATE TABLE events.mine (id int)',
      ])
        await denied(client.query(sql));
    });
  });

  it('the relay may do its work, without the right to make tables', async () => {
    const store: OutboxStore = openOutboxStore({
      url: urlOf(roles.relay),
      table,
      initializeSchema: 'never',
    });
    try {
      await store.prepare();
      await store.insert([outboxRow({ eventId: '2' }), outboxRow({ eventId: '3' })]);
      const shards = await store.claim('one', 10_000);
      assert.equal(shards.length, 64);
      const [first, second, third] = await store.pending(shards, { upToId: 0, ids: [] }, 10);
      assert.equal(first?.eventId, 'by-the-application');
      assert.deepEqual(await store.ack('one', [first?.id as number], true), [first?.id]);
      const failure = { retryCount: 4, lastError: 'TOO_LARGE', retryInMs: null };
      await store.fail('one', [{ id: second?.id as number, ...failure }]);
      const { total, pending, published, failed } = await store.statistics();
      assert.deepEqual([total, pending, published, failed], [3, 1, 1, 1]);
      assert.equal(await store.retry({}), 1);
      assert.equal(await store.discard({ ids: [third?.id as number] }), 1);
      assert.equal(await store.cleanup('PUBLISHED', -60_000, 10), 1);
      assert.equal(await store.countPending(), 1);
      await store.release('one');
    } finally {
      await store.close(1_000);
    }
    await denied(as(roles.relay, (client) => client.query('CREATE TABLE events.mine (id int)')));
    await denied(as(roles.relay, (client) => client.query(`DROP TABLE ${table}`)));
  });

  it('the table is vacuumed early, as the relay needs it', async () => {
    const { rows } = await admin.query(`SELECT reloptions FROM pg_class WHERE oid = '${table}'::regclass`);
    assert.ok(rows[0].reloptions.includes('autovacuum_vacuum_scale_factor=0.01'));
  });

  it('--partitioned is a table with a partition for each day, which migrate keeps up', async () => {
    const env = { SVC_OUTBOX_ENABLED: 'true', SVC_OUTBOX_DATASOURCE_URL: url };
    const migrate = (name: string, ...args: string[]) =>
      runSvc(['outbox', 'migrate', ...args], { cwd: '/tmp', env: { ...env, SVC_OUTBOX_TABLE: name } });
    const kindOf = async (name: string) =>
      (await admin.query(`SELECT relkind FROM pg_class WHERE oid = to_regclass('${name}')`)).rows[0]?.relkind;
    const { stdout } = await runSvc(
      ['outbox', 'ddl', '--dialect', 'postgres', '--table', 'events.by_text', '--partitioned'],
      { cwd: '/' },
    );
    await admin.query(stdout);
    await admin.query(stdout);
    assert.equal(await kindOf('events.by_text'), 'p');
    const { code, stderr } = await migrate('by_command', '--partitioned');
    assert.equal(code, 0, stderr);
    assert.equal(await kindOf('by_command'), 'p');
    const ahead = new Date(Date.now() + 2 * 86_400_000).toISOString().slice(0, 10).replaceAll('-', '');
    await admin.query(`DROP TABLE by_command_p${ahead}`);
    assert.deepEqual(JSON.parse((await migrate('by_command', '--json')).stdout), {
      ...{ table: 'by_command', changed: true, partitioned: true },
    });
    assert.equal(await kindOf(`by_command_p${ahead}`), 'r');
    const plain = await migrate('by_command_plain');
    assert.equal(plain.code, 0, plain.stderr);
    const refused = await migrate('by_command_plain', '--partitioned');
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /by_command_plain already exists without partitions, and stays so/);
  });

  it('--from prints what a version lacks', async () => {
    const last = String(schemaVersion);
    assert.match(
      (await ddl('--from', '1')).stdout,
      /^DO .* ADD CONSTRAINT "svc_outbox_valid" CHECK .* NOT VALID/,
    );
    assert.equal((await ddl('--from', last)).stdout, '');
    assert.match((await ddl('--from', last, '--role', 'app=a')).stdout, /^GRANT USAGE/);
  });

  it('without --role there are no grants', async () => {
    assert.doesNotMatch((await ddl()).stdout, /GRANT/);
    const { stdout } = await ddl('--role', `app=${roles.app}`);
    assert.equal(stdout.match(/GRANT/g)?.length, 2);
  });

  it('check says what a user lacks, and migrate makes nothing that is there', async () => {
    const run = (command: string, user: string) =>
      runSvc(['outbox', command, '--json'], {
        cwd: '/tmp',
        env: {
          SVC_OUTBOX_ENABLED: 'true',
          SVC_OUTBOX_TABLE: table,
          SVC_OUTBOX_DATASOURCE_URL: urlOf(user),
        },
      });
    const ofRelay = await run('check', roles.relay);
    assert.equal(ofRelay.code, 0, ofRelay.stderr + ofRelay.stdout);
    const ofApp = await run('check', roles.app);
    assert.equal(ofApp.code, 1);
    assert.equal(JSON.parse(ofApp.stdout).code, 'SVC_OUTBOX_NOT_ALLOWED');
    assert.ok(!ofApp.stdout.includes('secret'));
    const migrated = await run('migrate', roles.relay);
    assert.deepEqual([migrated.code, JSON.parse(migrated.stdout).changed], [0, false]);
    await admin.query(`INSERT INTO ${table}_schema (version) VALUES (99)`);
    const newer = await run('check', roles.relay);
    assert.equal(newer.code, 0);
    assert.match(newer.stderr, /from a newer svc, but this version can use them/);
    await admin.query(`DELETE FROM ${table}_schema`);
    const older = await run('check', roles.relay);
    assert.equal(older.code, 1);
    const { code, problem } = JSON.parse(older.stdout);
    assert.equal(code, 'SVC_OUTBOX_SCHEMA_VERSION');
    assert.match(
      problem,
      new RegExp(
        `has version 0, older than this svc needs \\(${schemaVersion}\\): run what "npx --no svc outbox ddl" prints`,
      ),
    );
  });
});
