import assert from 'node:assert/strict';
import pg from 'pg';
import { pgDriver } from '../../../src/adapters/postgres/pg-driver.ts';
import { startOwnWork } from '../../../src/ground/lifecycle.ts';
import { alarms, Captures, patchDriver } from '../../contract/captured.ts';
import { startPostgres } from '../../support/postgres.ts';
import { requiring } from '../../support/requires.ts';

requiring('postgres', 'pg', function () {
  this.timeout(30_000);
  let url: string;
  let observer: pg.Client;
  let captures: Captures;
  let alarmsBefore: number;
  const opened: pg.Client[] = [];

  before(async () => {
    patchDriver(pgDriver, pg);
    url = await (await startPostgres()).freshDatabase();
    observer = new pg.Client({ connectionString: url });
    await observer.connect();
    await outside('CREATE TABLE orders (id text PRIMARY KEY); CREATE TABLE events (id text PRIMARY KEY)');
    await outside('CREATE TABLE lines (id text REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)');
    await outside('CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$');
  });
  after(() => observer?.end());
  beforeEach(async () => {
    captures = new Captures();
    alarmsBefore = alarms.ungated;
    await outside('DELETE FROM lines; DELETE FROM orders; DELETE FROM events');
  });
  afterEach(async () => {
    for (const client of opened.splice(0)) await client.end().catch(() => {});
    assert.equal(alarms.ungated, alarmsBefore);
  });

  const outside = (text: string) => startOwnWork(() => observer.query<{ id: string }>(text));
  const connect = async (): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: url });
    client.on('error', () => {});
    await client.connect();
    opened.push(client);
    return client;
  };
  const ids = async (table: string): Promise<string[]> =>
    (await outside(`SELECT id FROM ${table} ORDER BY id`)).rows.map(({ id }) => id);
  const write = (client: pg.Client, id: string) =>
    captures.call(id, async () => void (await client.query('INSERT INTO orders VALUES ($1)', [id])));

  it('a COMMIT that the database refuses has rolled its events back', async () => {
    const client = await connect();
    await client.query('BEGIN');
    await write(client, 'a');
    await client.query("INSERT INTO lines VALUES ('nothing')");
    await assert.rejects(client.query('COMMIT'), { code: '23503' });
    assert.deepEqual(await captures.ends(), { a: 'rolled_back' });
    assert.equal(captures.unconfirmed, 0);
    assert.deepEqual(await ids('events'), []);
  });

  it('a COMMIT that loses against another transaction has rolled its events back', async () => {
    const [one, two] = [await connect(), await connect()];
    for (const [client, id] of [
      [one, 'a'],
      [two, 'b'],
    ] as const) {
      await client.query('BEGIN ISOLATION LEVEL SERIALIZABLE');
      await client.query('SELECT count(*) FROM orders');
      await write(client, id);
    }
    await one.query('COMMIT');
    await assert.rejects(two.query('COMMIT'), { code: '40001' });
    assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'rolled_back' });
    assert.deepEqual(await ids('events'), ['a']);
  });

  it('a transaction that is doomed takes no events, and its COMMIT says what PostgreSQL makes of it', async () => {
    const client = await connect();
    await client.query('BEGIN');
    await write(client, 'a');
    await assert.rejects(client.query('SELECT no_such_column'));
    await captures.call('b', () => Promise.resolve());
    assert.equal((await client.query('COMMIT')).command, 'ROLLBACK');
    assert.deepEqual(await captures.ends(), { a: 'rolled_back', b: 'rolled_back' });
    assert.deepEqual(await ids('events'), []);
  });

  it('a connection that is lost takes its transaction with it', async () => {
    const client = await connect();
    await client.query('BEGIN');
    await write(client, 'a');
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    await outside(`SELECT pg_terminate_backend(${rows[0]?.pid})`);
    assert.deepEqual(await captures.ends(), { a: 'rolled_back' });
    await assert.rejects(captures.call('b', () => Promise.resolve()));
  });

  it('a connection that is lost while its COMMIT is on its way leaves it unknown', async () => {
    const client = await connect();
    await client.query('BEGIN');
    await write(client, 'in flight');
    const commit = assert.rejects(client.query('COMMIT'));
    const { connection } = client as unknown as { connection: { stream: { destroy(): void } } };
    connection.stream.destroy();
    await commit;
    assert.deepEqual(await captures.ends(), { 'in flight': 'outbox' });
    assert.equal(captures.unconfirmed, 1);
  });

  it('a transaction that is prepared for another one to commit is unknown', async () => {
    const client = await connect();
    await client.query('BEGIN');
    await write(client, 'prepared');
    try {
      await client.query("PREPARE TRANSACTION 'one'");
    } catch {
      // Servers as they come refuse that.
      assert.deepEqual(await captures.ends(), { prepared: 'rolled_back' });
      return;
    }
    await client.query("COMMIT PREPARED 'one'");
    assert.deepEqual(await captures.ends(), { prepared: 'outbox' });
    assert.equal(captures.unconfirmed, 1);
  });

  it('several statements in one text are held as a whole, strings and comments apart', async () => {
    const client = await connect();
    await captures.call('a', async () => {
      await client.query("BEGIN; INSERT INTO orders VALUES ('a;\\'); -- ; ROLLBACK;");
      await client.query("SELECT 'it''s; ROLLBACK', $$; ROLLBACK;$$, '{\"a\":1}'::json #> '{a}'; COMMIT");
    });
    assert.ok((await ids('events')).includes('a'));
    assert.deepEqual(await captures.ends(), { a: 'outbox' });
  });

  it('a whole transaction in one text cannot have an event in it', async () => {
    const client = await connect();
    const call = captures.call('a', async () => {
      await client.query("BEGIN; INSERT INTO orders VALUES ('a'); COMMIT");
    });
    await assert.rejects(call, { code: 'SVC_OUTBOX_NO_TRANSACTION' });
  });

  it('functions side by side in one transaction each have their event', async () => {
    const client = await connect();
    await client.query('BEGIN');
    const all = ['a', 'b', 'c', 'd'];
    await Promise.all(all.map((id) => write(client, id)));
    await client.query('COMMIT');
    assert.deepEqual((await ids('events')).slice(0, 4), all);
  });

  it('a client of a pool is handed out where it was asked for, and so are callbacks of a query', async () => {
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    const holder = await pool.connect();
    const asked = captures.call(
      'a',
      () =>
        new Promise<void>((resolve, reject) => {
          pool.connect((failure, client, release) => {
            if (failure !== undefined || client === undefined) return reject(failure);
            const then = (next: () => void) => (error: unknown) => (error ? reject(error) : next());
            const done = then(() => {
              release();
              resolve();
            });
            const commit = then(() => client.query('COMMIT', done));
            const insert = then(() => client.query("INSERT INTO orders VALUES ('a')", commit));
            client.query('BEGIN', insert);
          });
        }),
    );
    await captures.call('ignored', async () => holder.release()).catch(() => {});
    await asked;
    assert.ok((await ids('events')).includes('a'));
    await pool.end();
  });
});
