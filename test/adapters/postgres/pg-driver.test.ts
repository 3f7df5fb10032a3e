import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import pg from 'pg';
import { pgDriver } from '../../../src/adapters/postgres/pg-driver.ts';
import { startOwnWork } from '../../../src/ground/lifecycle.ts';
import { type Captures, patchDriver } from '../../contract/captured.ts';
import { requiring } from '../../support/requires.ts';
import { usePg } from './pg-under-test.ts';

/** A copy of the driver that nothing has changed yet. */
function anotherPg(): typeof pg {
  const require = createRequire(import.meta.url);
  const isOfPg = (path: string): boolean => /[/\\]node_modules[/\\]pg[/\\]/.test(path);
  const kept = Object.entries(require.cache).filter(([path]) => isOfPg(path));
  for (const [path] of kept) delete require.cache[path];
  const other = require('pg') as typeof pg;
  for (const path of Object.keys(require.cache)) if (isOfPg(path)) delete require.cache[path];
  for (const [path, found] of kept) require.cache[path] = found;
  return other;
}

requiring('postgres', 'pg', function () {
  this.timeout(30_000);
  const tested = usePg();
  const { outside, connect, ids, write } = tested;
  let captures: Captures;

  before(async () => {
    await outside('CREATE TABLE lines (id text REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)');
    await outside('CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$');
  });
  beforeEach(() => {
    captures = tested.captures;
  });

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

  it('a transaction that is aborted takes no events, and its COMMIT says what PostgreSQL makes of it', async () => {
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

  it('a BEGIN that fails has begun nothing', async () => {
    const client = await connect();
    await assert.rejects(client.query('BEGIN ISOLATION LEVEL NO_SUCH'));
    await assert.rejects(write(client, 'a'), { code: 'SVC_OUTBOX_NO_TRANSACTION' });
    await client.query('SELECT 1');
    assert.deepEqual([await ids('orders'), await captures.ends()], [['a'], { a: 'refused' }]);
  });

  it('a COMMIT with a time limit of its own keeps to it', async () => {
    const client = await connect();
    await outside(
      'CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$',
    );
    await outside(
      'CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()',
    );
    try {
      await client.query('BEGIN');
      await write(client, 'a');
      const limited = { text: 'COMMIT', query_timeout: 100 } as pg.QueryConfig;
      await assert.rejects(client.query(limited), /Query read timeout/);
      assert.deepEqual(await captures.ends(), { a: 'outbox' });
    } finally {
      await outside('DROP TRIGGER slow ON orders');
    }
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

  it('a client of pg-native is left as it is, with the reason', () => {
    const Query: unknown = createRequire(import.meta.url)('pg/lib/native/query');
    const query = (): void => {};
    // The package itself has to be compiled.
    const Client = Object.assign(function Client() {}, { Query, prototype: { query } });
    assert.throws(() => patchDriver(pgDriver, { Client }), /pg-native: unset NODE_PG_FORCE_NATIVE/);
    assert.equal(Client.prototype.query, query);
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
    const pool = new pg.Pool({ connectionString: tested.url, max: 1 });
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

  describe('a row that goes with the COMMIT', () => {
    const prepared = async (client: pg.Client): Promise<number> => {
      const text = "SELECT count(*)::int AS count FROM pg_prepared_statements WHERE name LIKE 'svc%'";
      const { rows } = await startOwnWork(() => client.query<{ count: number }>(text));
      return rows[0]?.count ?? -1;
    };
    const transact = async (client: pg.Client, id: string): Promise<pg.QueryResult> => {
      await client.query('BEGIN');
      await write(client, id);
      return client.query('COMMIT');
    };

    it('leaves the result of the COMMIT as it is', async () => {
      const client = await connect();
      await client.query('BEGIN');
      const plain = await client.query('COMMIT');
      const joined = await transact(client, 'a');
      const told = ({ command, rowCount, rows, fields, oid }: pg.QueryResult) => ({
        ...{ command, rowCount, rows, fields, oid },
      });
      assert.ok(joined instanceof pg.Result);
      assert.deepEqual(told(joined), told(plain));
      assert.deepEqual(await captures.ends(), { a: 'outbox' });
    });

    it('fails the next statement instead, where there is one and the row is not taken', async () => {
      const client = await connect();
      await outside("INSERT INTO events VALUES ('a')");
      await client.query('BEGIN');
      await write(client, 'a');
      await assert.rejects(client.query('SELECT 1'), { code: 'SVC_OUTBOX_INSERT' });
      await assert.rejects(client.query('COMMIT'), { code: 'SVC_OUTBOX_INSERT' });
      assert.deepEqual(await captures.ends(), { a: 'rolled_back' });
      assert.deepEqual(await ids('orders'), []);
      await transact(client, 'b');
      assert.deepEqual(await ids('events'), ['a', 'b']);
    });

    it('is not sent behind a statement that has failed, nor is that failure another one', async () => {
      const client = await connect();
      await client.query('BEGIN');
      await write(client, 'a');
      const failing = assert.rejects(client.query('SELECT no_such_column'), { code: '42703' });
      const commit = client.query('COMMIT');
      await failing;
      assert.equal((await commit).command, 'ROLLBACK');
      assert.deepEqual(await captures.ends(), { a: 'rolled_back' });
    });

    it('is of one prepared statement on a connection that leads to its backend', async () => {
      const client = await connect();
      await transact(client, 'a');
      assert.equal(await prepared(client), 0, 'the first asks who is there');
      for (const id of ['b', 'c']) await transact(client, id);
      assert.equal(await prepared(client), 1);
      assert.deepEqual(await ids('events'), ['a', 'b', 'c']);
    });

    it('is of none behind a pooler, which tells a process id of its own', async () => {
      const client = await connect();
      (client as unknown as { processID: number }).processID += 1;
      for (const id of ['a', 'b', 'c']) await transact(client, id);
      assert.equal(await prepared(client), 0);
      assert.deepEqual(await ids('events'), ['a', 'b', 'c']);
    });

    for (const text of ['DEALLOCATE ALL', 'DISCARD ALL', '/* a pool */ deallocate all'])
      it(`is prepared again after ${text}`, async () => {
        const client = await connect();
        for (const id of ['a', 'b']) await transact(client, id);
        await client.query(text);
        assert.equal(await prepared(client), 0);
        await transact(client, 'c');
        assert.equal(await prepared(client), 1);
        assert.deepEqual(await ids('events'), ['a', 'b', 'c']);
      });

    it('is prepared again where its first one was not taken', async () => {
      const client = await connect();
      await transact(client, 'a');
      await assert.rejects(transact(client, 'a'), { code: '23505' });
      await client.query('ROLLBACK');
      await outside("INSERT INTO events VALUES ('b')");
      await assert.rejects(transact(client, 'b'), { code: 'SVC_OUTBOX_INSERT' });
      for (const id of ['c', 'd']) await transact(client, id);
      assert.deepEqual(await ids('events'), ['a', 'b', 'c', 'd']);
    });

    it('is not prepared any more where the statement was taken away behind the back of svc', async () => {
      const client = await connect();
      for (const id of ['a', 'b']) await transact(client, id);
      await client.query('DO $$ BEGIN DEALLOCATE ALL; END $$');
      await assert.rejects(transact(client, 'c'), { code: 'SVC_OUTBOX_INSERT' });
      for (const id of ['d', 'e']) await transact(client, id);
      assert.equal(await prepared(client), 0);
      assert.deepEqual(await ids('events'), ['a', 'b', 'd', 'e']);
    });

    it('keeps what is sent behind it back until it is clear what became of it', async () => {
      const client = await connect();
      await outside("INSERT INTO events VALUES ('a')");
      await client.query('BEGIN');
      await write(client, 'a');
      const commit = assert.rejects(client.query('COMMIT'), { code: 'SVC_OUTBOX_INSERT' });
      const behind = client.query("INSERT INTO orders VALUES ('behind')");
      await commit;
      await behind;
      assert.deepEqual(await ids('orders'), ['behind']);
    });

    it('is not lost where a patch below that of svc hands a copy of the query on', async () => {
      const other = anotherPg();
      const { prototype } = other.Client as unknown as {
        prototype: { query: (...args: unknown[]) => unknown };
      };
      const { query } = prototype;
      let copied = 0;
      // As `@opentelemetry/instrumentation-pg` with `addSqlCommenterCommentToQueries`.
      prototype.query = function (this: unknown, given: unknown, ...rest: unknown[]) {
        if (typeof given !== 'object' || given === null) return Reflect.apply(query, this, [given, ...rest]);
        copied++;
        return Reflect.apply(query, this, [{ ...given }, ...rest]);
      };
      patchDriver(pgDriver, other);
      const client = await connect({}, other.Client);
      assert.equal((await transact(client, 'a')).command, 'COMMIT');
      assert.equal(copied, 1);
      await outside("INSERT INTO events VALUES ('b')");
      await assert.rejects(transact(client, 'b'), { code: 'SVC_OUTBOX_INSERT' });
      assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'rolled_back' });
    });

    it('does without it on a client that sends queries in a pipeline', async () => {
      const client = await connect({ pipeline: true });
      await transact(client, 'a');
      assert.deepEqual(await ids('events'), ['a']);
    });

    it('leaves a COMMIT that took longer than the client waits to its end', async () => {
      const client = await connect({ query_timeout: 300 });
      await outside(
        'CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$',
      );
      await outside('CREATE TRIGGER slow BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION slow()');
      try {
        await assert.rejects(transact(client, 'a'), /Query read timeout/);
        assert.deepEqual(await captures.ends(), { a: 'outbox' });
      } finally {
        await outside('DROP TRIGGER slow ON events');
      }
      assert.deepEqual(await ids('events'), ['a']);
    });
  });
});
