import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import BetterSqlite3 from 'better-sqlite3';
import { drizzle } from 'drizzle-orm/node-postgres';
import mysql from 'mysql2/promise';
import pg from 'pg';
import postgres from 'postgres';
import { createInbox, type Inbox, inboxTable } from '../../src/consume/inbox.ts';
import { SvcError } from '../../src/ground/errors.ts';
import { temporaryFolder } from '../support/folders.ts';
import { startMariadb } from '../support/mariadb.ts';
import { startMysql } from '../support/mysql.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';

/** What the application has, and how a test writes with a transaction of it and reads all. */
interface Scene {
  readonly pool: object;
  write(tx: unknown, sql: string): unknown;
  read(sql: string): Promise<readonly Record<string, unknown>[]>;
  end(): unknown;
}

const folder = temporaryFolder('inbox');
let files = 0;

async function withPg(): Promise<Scene> {
  const pool = new pg.Pool({ connectionString: await (await startPostgres()).freshDatabase() });
  return {
    pool,
    write: (tx, sql) => (tx as pg.Client).query(sql),
    read: async (sql) => (await pool.query(sql)).rows,
    end: () => pool.end(),
  };
}

async function withMysql(start: typeof startMysql): Promise<Scene> {
  const pool = mysql.createPool({
    uri: (await (await start()).freshDatabase()).replace('mariadb:', 'mysql:'),
  });
  return {
    pool,
    write: (tx, sql) => (tx as mysql.Connection).query(sql),
    read: async (sql) => (await pool.query(sql))[0] as Record<string, unknown>[],
    end: () => pool.end(),
  };
}

function withSqlite(open: (path: string) => DatabaseSync | BetterSqlite3.Database): Scene {
  const handle = open(`${folder}/${++files}.db`);
  return {
    pool: handle,
    write: (tx, sql) => (tx as DatabaseSync).exec(sql),
    read: async (sql) => handle.prepare(sql).all() as Record<string, unknown>[],
    end: () => handle.close(),
  };
}

describe('inbox', function () {
  this.timeout(30_000);
  requiring('postgres', 'in PostgreSQL', () => {
    describe('with a pool of pg', () => holds(withPg));
    describe('with a single client of pg', () =>
      holds(async () => {
        const { read, write, end } = await withPg();
        const name = (await read('SELECT current_database() AS name'))[0]?.name;
        const url = Object.assign(new URL((await startPostgres()).url), { pathname: `/${name}` }).href;
        const client = new pg.Client({ connectionString: url });
        await client.connect();
        return { pool: client, read, write, end: () => Promise.all([client.end(), end()]) };
      }));
    describe('with postgres.js', () =>
      holds(async () => {
        const sql = postgres(await (await startPostgres()).freshDatabase(), { onnotice: () => {} });
        return {
          pool: sql,
          write: (tx, text) => (tx as postgres.Sql).unsafe(text),
          read: async (text) => [...(await sql.unsafe(text))],
          end: () => sql.end(),
        };
      }));
    describe('with Drizzle', () =>
      holds(async () => {
        const { pool, read, end } = await withPg();
        const database = drizzle(pool as pg.Pool);
        return { pool: database, write: (tx, sql) => (tx as typeof database).execute(sql), read, end };
      }));
  });
  requiring('mysql', 'in MySQL', () => holds(() => withMysql(startMysql)));
  requiring('mariadb', 'in MariaDB', () => holds(() => withMysql(startMariadb)));
  describe('in SQLite, with node:sqlite', () =>
    holds(async () => withSqlite((path) => new DatabaseSync(path))));
  describe('in SQLite, with better-sqlite3', () =>
    holds(async () => withSqlite((path) => new BetterSqlite3(path))));

  it('takes a store of the application that has its two methods', async () => {
    const seen = new Set<string>();
    const store = {
      transaction: async <R>(work: (tx: string) => Promise<R>) => work('tx'),
      insert: async (_: string, { consumer, eventId }: { consumer: string; eventId: string }) =>
        seen.size < seen.add(`${consumer} ${eventId}`).size,
    };
    const inbox = createInbox({ store, consumer: 'billing' });
    assert.deepEqual(await inbox.once({ eventId: '1' }, (tx) => `${tx} 1`), {
      handled: true,
      result: 'tx 1',
    });
    assert.deepEqual(await inbox.once({ eventId: '1' }, () => assert.fail()), { handled: false });
  });

  it('refuses what is no consumer, no table, and no event', async () => {
    const pool = new DatabaseSync(':memory:');
    const refused = { code: 'SVC_CONSUME_OPTIONS' };
    assert.throws(() => createInbox({ pool, consumer: 'a b' }), refused);
    assert.throws(() => createInbox({ pool, consumer: 'a', table: 'x;y' }), refused);
    assert.throws(() => createInbox({ pool, consumer: 'a', retentionDays: 0 }), refused);
    const inbox = createInbox({ pool, consumer: 'a' });
    for (const eventId of ['', 'x ', 'ä', 'x'.repeat(256), undefined, 7])
      await assert.rejects(
        inbox.once({ eventId } as never, () => {}),
        { code: 'SVC_CONSUME_NOT_AN_EVENT' },
      );
  });
});

function holds(open: () => Promise<Scene>): void {
  let scene: Scene;
  let inbox: Inbox;

  before(async () => {
    scene = await open();
    inbox = createInbox({ pool: scene.pool, consumer: 'billing' });
  });
  after(() => scene?.end());

  const eventsOf = async (eventId: string) =>
    scene.read(`SELECT consumer, event_id FROM svc_inbox_events WHERE event_id = '${eventId}'`);
  const billsOf = async (id: string) => (await scene.read(`SELECT id FROM bills WHERE id = '${id}'`)).length;
  const bill = (id: string) => (tx: unknown) => scene.write(tx, `INSERT INTO bills (id) VALUES ('${id}')`);

  it('says that its table is missing, makes it, several at once, and uses it', async () => {
    const missing = (error: unknown) =>
      error instanceof SvcError &&
      error.code === 'SVC_CONSUME_TABLE_MISSING' &&
      /svc inbox ddl/.test(error.message);
    await assert.rejects(
      inbox.once({ eventId: '0' }, () => assert.fail()),
      missing,
    );
    await assert.rejects(inbox.check(), missing);
    await Promise.all([inbox.migrate(), inbox.migrate(), inbox.migrate()]);
    await inbox.migrate();
    await inbox.check();
    await scene.read('SELECT 1 AS one');
    await inbox.once({ eventId: 'make' }, (tx) => scene.write(tx, 'CREATE TABLE bills (id varchar(50))'));
  });

  it('handles an event once, and gives what the handler gave', async () => {
    const work = async (tx: unknown) => {
      await bill('once')(tx);
      return 42;
    };
    assert.deepEqual(await inbox.once({ eventId: 'once' }, work), { handled: true, result: 42 });
    assert.deepEqual(await inbox.once({ eventId: 'once' }, work), { handled: false });
    assert.equal(await billsOf('once'), 1);
    assert.deepEqual(
      (await eventsOf('once')).map((row) => ({ ...row })),
      [{ consumer: 'billing', event_id: 'once' }],
    );
  });

  it('handles it for each consumer', async () => {
    const other = createInbox({ pool: scene.pool, consumer: 'shipping' });
    assert.equal((await inbox.once({ eventId: 'both' }, bill('both'))).handled, true);
    assert.equal((await other.once({ eventId: 'both' }, bill('both'))).handled, true);
    assert.equal(await billsOf('both'), 2);
  });

  it('records nothing where the handler fails, whose error comes as it is, and takes the event again', async () => {
    const wrong = new Error('no');
    const work = async (tx: unknown) => {
      await bill('wrong')(tx);
      throw wrong;
    };
    await assert.rejects(inbox.once({ eventId: 'wrong' }, work), (error) => error === wrong);
    assert.deepEqual([await billsOf('wrong'), await eventsOf('wrong')], [0, []]);
    assert.equal((await inbox.once({ eventId: 'wrong' }, bill('wrong'))).handled, true);
  });

  it('records nothing where a handler goes on after a statement with which the database gives its transaction up', async () => {
    const work = async (tx: unknown) => {
      await bill('after')(tx);
      await (async () => scene.write(tx, 'SELECT no_such_column FROM bills'))().catch(() => {});
    };
    const first = inbox.once({ eventId: 'after' }, work);
    if (inboxDdlOf(scene) === 'postgres') await assert.rejects(first);
    else assert.equal((await first).handled, true);
    assert.equal(await billsOf('after'), (await eventsOf('after')).length);
    await inbox.once({ eventId: 'after' }, bill('after'));
    assert.deepEqual([await billsOf('after'), (await eventsOf('after')).length], [1, 1]);
  });

  it('records nothing where a handler rolls back itself', async () => {
    const work = async (tx: unknown) => {
      await bill('back')(tx);
      await scene.write(tx, 'ROLLBACK');
    };
    await assert.rejects(inbox.once({ eventId: 'back' }, work));
    assert.deepEqual([await billsOf('back'), await eventsOf('back')], [0, []]);
    assert.equal((await inbox.once({ eventId: 'back' }, bill('back'))).handled, true);
  });

  it('a handler that commits itself has handled its event, and not where it fails after that', async () => {
    const work = (fails: boolean) => async (tx: unknown) => {
      await bill('own')(tx);
      await scene.write(tx, 'COMMIT');
      if (fails) throw new Error('after its COMMIT');
    };
    await assert.rejects(inbox.once({ eventId: 'own' }, work(true)), /after its COMMIT/);
    assert.deepEqual(await eventsOf('own'), []);
    await settled(inbox.once({ eventId: 'own' }, work(false)));
    assert.equal((await eventsOf('own')).length, 1);
    assert.deepEqual(await inbox.once({ eventId: 'own' }, () => assert.fail()), { handled: false });
  });

  it('of several at the same time one handles it', async () => {
    const slow = async (tx: unknown) => {
      await bill('race')(tx);
      await new Promise((resolve) => setTimeout(resolve, 100));
    };
    const ends = await Promise.all(Array.from({ length: 5 }, () => inbox.once({ eventId: 'race' }, slow)));
    assert.equal(ends.filter(({ handled }) => handled).length, 1);
    assert.equal(await billsOf('race'), 1);
  });

  it('where the first of several fails, another handles it', async () => {
    let runs = 0;
    const work = async (tx: unknown) => {
      const isFirst = ++runs === 1;
      await new Promise((resolve) => setTimeout(resolve, 100));
      if (isFirst) throw new Error('first');
      await bill('second')(tx);
    };
    const ends = await Promise.allSettled([1, 2].map(() => inbox.once({ eventId: 'second' }, work)));
    assert.deepEqual(ends.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
    assert.equal(await billsOf('second'), 1);
  });

  it('tells texts apart that a collation takes for equal', async () => {
    for (const eventId of ['case', 'CASE', ' case'])
      assert.equal((await inbox.once({ eventId }, () => {})).handled, true, eventId);
  });

  it('forgets what is older than its retention, of its own consumer', async () => {
    const dialect = inboxDdlOf(scene);
    const past = { postgres: "now() - interval '31 days'", mysql: 'UTC_TIMESTAMP(3) - INTERVAL 31 DAY' };
    const old = dialect === 'sqlite' ? String(Date.now() - 31 * 86_400_000) : past[dialect];
    await inbox.once({ eventId: 'fill' }, async (tx) => {
      for (const consumer of ['billing', 'shipping'])
        await scene.write(
          tx,
          `INSERT INTO svc_inbox_events (consumer, event_id, handled_at) VALUES ('${consumer}', 'old', ${old})`,
        );
    });
    assert.equal(await inbox.cleanup(), 1);
    assert.deepEqual(
      (await eventsOf('old')).map(({ consumer }) => consumer),
      ['shipping'],
    );
    assert.equal((await eventsOf('once')).length, 1);
    assert.equal(await inbox.cleanup(), 0);
  });
}

/** Some libraries say of the second COMMIT that there is no transaction. */
async function settled(work: Promise<unknown>): Promise<void> {
  await work.catch(() => {});
}

function inboxDdlOf({ pool }: Scene): 'postgres' | 'mysql' | 'sqlite' {
  assert.match(inboxTable.ddl('postgres', 'svc_inbox_events').join(), /timestamptz/);
  if ('exec' in pool && 'prepare' in pool) return 'sqlite';
  return 'getConnection' in pool ? 'mysql' : 'postgres';
}
