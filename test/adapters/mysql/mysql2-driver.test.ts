import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import mysql from 'mysql2';
import mysqlPromise from 'mysql2/promise';
import { mysql2Drivers } from '../../../src/adapters/mysql/mysql2-driver.ts';
import { startOwnWork } from '../../../src/ground/lifecycle.ts';
import { alarms, Captures, patchDriver } from '../../contract/captured.ts';
import { startMariadb } from '../../support/mariadb.ts';
import { startMysql } from '../../support/mysql.ts';
import { requiring } from '../../support/requires.ts';

function coreOf(connection: mysqlPromise.Connection): { readonly stream: Socket } {
  return (connection as unknown as { connection: { readonly stream: Socket } }).connection;
}

const onlyMariadb = [
  'BEGIN NOT ATOMIC COMMIT; END',
  "EXECUTE IMMEDIATE 'COMMIT'",
  'SET STATEMENT max_statement_time = 1 FOR COMMIT',
  'BACKUP LOCK orders',
];

const servers = [
  { name: 'mariadb', title: 'MariaDB', start: startMariadb },
  { name: 'mysql', title: 'MySQL', start: startMysql },
] as const;

for (const { name, title, start } of servers) {
  requiring(name, `mysql2 on ${title}`, function () {
    this.timeout(30_000);
    let uri: string;
    let observer: mysqlPromise.Connection;
    let captures: Captures;
    let alarmsBefore: number;
    const opened: mysqlPromise.Connection[] = [];

    before(async () => {
      const [one, two] = mysql2Drivers;
      assert.ok(one !== undefined && two !== undefined);
      patchDriver(one, mysql);
      patchDriver(two, mysqlPromise);
      uri = (await (await start()).freshDatabase()).replace(/^mariadb:/, 'mysql:');
      observer = await mysqlPromise.createConnection(uri);
      for (const table of ['orders', 'events'])
        await outside(`CREATE TABLE ${table} (id VARCHAR(99) PRIMARY KEY)`);
      await outside('CREATE TABLE counts (id INT PRIMARY KEY, n INT)');
      await outside('CREATE PROCEDURE commits() COMMIT');
    });
    after(() => observer?.end());
    beforeEach(async () => {
      captures = new Captures();
      alarmsBefore = alarms.ungated;
      for (const table of ['orders', 'events', 'counts']) await outside(`DELETE FROM ${table}`);
      await outside('INSERT INTO counts VALUES (1, 0), (2, 0)');
    });
    afterEach(async () => {
      for (const connection of opened.splice(0)) connection.destroy();
    });

    const outside = (text: string) => startOwnWork(() => observer.query(text));
    const ids = async (table: string): Promise<string[]> => {
      const [rows] = await outside(`SELECT id FROM ${table} ORDER BY id`);
      return (rows as { id: string }[]).map(({ id }) => id);
    };
    const connect = async (options: object = {}): Promise<mysqlPromise.Connection> => {
      const connection = await mysqlPromise.createConnection({ uri, ...options });
      // What is left of it is what the tests ask for.
      connection.on('error', () => {});
      opened.push(connection);
      return connection;
    };
    const order = (connection: mysqlPromise.Connection, id: string) =>
      connection.execute('INSERT INTO orders (id) VALUES (?)', [id]);
    const write = (connection: mysqlPromise.Connection, id: string) =>
      captures.call(id, async () => void (await order(connection, id)));
    const holds = async (orders: string[], events: string[]) =>
      assert.deepEqual({ orders: await ids('orders'), events: await ids('events') }, { orders, events });
    const noAlarm = () => assert.equal(alarms.ungated, alarmsBefore);

    describe('a transaction that ended with an error', () => {
      /** One of two is the victim of a deadlock, and has caught its error. */
      async function deadlock(): Promise<{ victim: mysqlPromise.Connection; id: string; other: string }> {
        const both = [await connect(), await connect()] as const;
        const count = (at: number, row: number) =>
          both[at]?.query('UPDATE counts SET n = n + 1 WHERE id = ?', [row]);
        for (const [at, connection] of both.entries()) {
          await connection.beginTransaction();
          await write(connection, `of-${at}`);
          await count(at, at + 1);
        }
        const results = await Promise.allSettled([count(0, 2), count(1, 1)]);
        const at = results.findIndex(({ status }) => status === 'rejected');
        const { reason } = results[at] as PromiseRejectedResult;
        assert.equal(reason.errno, 1213);
        await both[1 - at]?.commit();
        return { victim: both[at] as mysqlPromise.Connection, id: `of-${at}`, other: `of-${1 - at}` };
      }

      it('has no events after a deadlock, and its COMMIT commits nothing', async () => {
        const { victim, id, other } = await deadlock();
        await victim.commit();
        await holds([other], [other]);
        assert.deepEqual(await captures.ends(), { [id]: 'rolled_back', [other]: 'outbox' });
      });

      it('takes no event after a deadlock, not even outside of a transaction', async () => {
        const { victim, other } = await deadlock();
        await assert.rejects(
          captures.call('late', () => Promise.resolve()),
          { code: 'SVC_OUTBOX_NO_TRANSACTION' },
        );
        const later = write(victim, 'later');
        if (name === 'mysql') {
          // The application's own write was not in a transaction any more.
          await assert.rejects(later, { code: 'SVC_OUTBOX_NO_TRANSACTION' });
          await victim.rollback();
          await holds(['later', other], [other]);
          return;
        }
        await later;
        await holds([other], [other]);
        await victim.commit();
        await holds(['later', other], ['later', other]);
        assert.equal((await captures.ends()).later, 'outbox');
      });

      it('can be begun again without a ROLLBACK', async () => {
        const { victim, id, other } = await deadlock();
        await victim.beginTransaction();
        await write(victim, 'again');
        await victim.commit();
        await holds(['again', other], ['again', other]);
        assert.deepEqual(await captures.ends(), { [id]: 'rolled_back', [other]: 'outbox', again: 'outbox' });
        noAlarm();
      });

      it('goes on after a lock that was waited for in vain', async () => {
        const [one, two] = [await connect(), await connect()];
        await one.beginTransaction();
        await one.query('UPDATE counts SET n = 1 WHERE id = 1');
        await two.query('SET innodb_lock_wait_timeout = 1');
        await two.beginTransaction();
        await write(two, 'a');
        await assert.rejects(two.query('UPDATE counts SET n = 2 WHERE id = 1'), { errno: 1205 });
        await write(two, 'b');
        await two.commit();
        await one.rollback();
        await holds(['a', 'b'], ['a', 'b']);
        assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'outbox' });
      });

      it('goes on after a row that was refused', async () => {
        const connection = await connect();
        await connection.beginTransaction();
        await write(connection, 'a');
        await assert.rejects(order(connection, 'a'), { errno: 1062 });
        await captures.call('b', () => Promise.resolve());
        await connection.commit();
        await holds(['a'], ['a', 'b']);
        noAlarm();
      });
    });

    describe('autocommit = 0', () => {
      it('the first query begins a transaction, and COMMIT ends it', async () => {
        const connection = await connect();
        await connection.query('SET autocommit = 0');
        for (const id of ['a', 'b']) {
          await write(connection, id);
          // The first event is that of a function that has ended: this one is inside as it sends something itself.
          await captures.call(`${id}-inside`, async () => void (await connection.query('SELECT 1')));
          assert.equal((await ids('events')).includes(id), false);
          await connection.commit();
        }
        await write(connection, 'c');
        await connection.rollback();
        await holds(['a', 'b'], ['a', 'a-inside', 'b', 'b-inside']);
        assert.equal((await captures.ends()).c, 'rolled_back');
        noAlarm();
      });

      it('a function that commits has its event in its own transaction', async () => {
        const connection = await connect();
        await connection.query('SET autocommit = 0');
        await captures.call('a', async () => {
          await connection.query('SELECT 1');
          await order(connection, 'a');
          await connection.commit();
        });
        await holds(['a'], ['a']);
        await outside("INSERT INTO events VALUES ('b')");
        const call = captures.call('b', async () => {
          await order(connection, 'b');
          await connection.query('SET autocommit = 1');
        });
        await assert.rejects(call, { code: 'SVC_OUTBOX_INSERT' });
        await holds(['a'], ['a', 'b']);
        noAlarm();
      });

      it('switched on again, commits, and then there is no transaction', async () => {
        const connection = await connect();
        await connection.query('SET autocommit = 0');
        await write(connection, 'a');
        await connection.query('SET autocommit = 1');
        await assert.rejects(write(connection, 'b'), { code: 'SVC_OUTBOX_NO_TRANSACTION' });
        await holds(['a', 'b'], ['a']);
        noAlarm();
      });
    });

    describe('a statement that commits', () => {
      const statements = [
        'CREATE TABLE made (id INT)',
        'ALTER TABLE made ADD COLUMN more INT',
        'RENAME TABLE made TO made2',
        'TRUNCATE TABLE made2',
        'DROP TABLE made2',
        'LOCK TABLES orders WRITE, events WRITE',
        'ANALYZE TABLE orders',
        'FLUSH TABLES',
        'BEGIN',
        'START TRANSACTION',
      ];

      it('is held until the events are written', async () => {
        for (const [index, text] of statements.entries()) {
          const [connection, id] = [await connect(), `own-${index}`];
          await captures.call(id, async () => {
            await connection.beginTransaction();
            await order(connection, id);
            await connection.query(text);
          });
          connection.destroy();
          await sleep(20);
          assert.ok((await ids('events')).includes(id), text);
        }
        noAlarm();
      });

      it('is not sent where an event was not taken', async () => {
        await outside("INSERT INTO events VALUES ('taken')");
        for (const text of ['CREATE TABLE never (id INT)', 'BEGIN']) {
          const connection = await connect();
          await connection.beginTransaction();
          await order(connection, 'a');
          await assert.rejects(captures.call('taken', () => Promise.resolve()));
          await assert.rejects(connection.query(text), { code: 'SVC_OUTBOX_INSERT' });
          await connection.beginTransaction();
          await write(connection, `after ${text}`);
          await connection.commit();
        }
        await holds(
          ['after BEGIN', 'after CREATE TABLE never (id INT)'],
          ['after BEGIN', 'after CREATE TABLE never (id INT)', 'taken'],
        );
        await assert.rejects(outside('SELECT * FROM never'));
      });

      it('commits although it fails itself', async () => {
        const connection = await connect();
        await connection.beginTransaction();
        await write(connection, 'a');
        await assert.rejects(connection.query('CREATE TABLE orders (id INT)'), { errno: 1050 });
        await assert.rejects(write(connection, 'b'));
        assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'refused' });
        await holds(['a', 'b'], ['a']);
      });

      it('a temporary table does not', async () => {
        const connection = await connect();
        await connection.beginTransaction();
        await write(connection, 'a');
        await connection.query('CREATE TEMPORARY TABLE temporary_one (id INT)');
        await write(connection, 'b');
        await connection.rollback();
        await holds([], []);
      });

      it('in a procedure is seen afterwards, and the alarm is raised for an event that is missing', async () => {
        const connection = await connect();
        const call = captures.call('a', async () => {
          await connection.beginTransaction();
          await order(connection, 'a');
          await connection.query('CALL commits()');
        });
        await assert.rejects(call, { code: 'SVC_OUTBOX_COMMITTED' });
        assert.equal(alarms.ungated, alarmsBefore + 1);
        await holds(['a'], []);
      });
    });

    it('knows statements of transactions however they are written', async () => {
      const wrong: Record<string, unknown> = {};
      const check = async (text: string, expected: unknown, work: () => Promise<unknown>) => {
        captures = new Captures();
        for (const table of ['orders', 'events']) await outside(`DELETE FROM ${table}`);
        const error: unknown = await work().then(
          () => undefined,
          ({ code, message }) => code ?? message,
        );
        for (const connection of opened.splice(0)) connection.destroy();
        const found = [await ids('orders'), await ids('events'), await captures.ends()];
        if (error !== undefined || !isDeepStrictEqual(found, expected)) wrong[text] = error ?? found;
      };
      const several = { multipleStatements: true };
      for (const text of [
        '/* a /* b */ COMMIT',
        '/*!50000 COMMIT */',
        'COMMIT/* a */AND NO CHAIN',
        'COMMIT -- a',
        '# a\nCOMMIT',
        'SELECT 2--1; COMMIT',
        '/*!50000 TRUNCATE TABLE counts */',
        'CREATE/* TEMPORARY */TABLE IF NOT EXISTS counts (id INT)',
        'SELECT 1; COMMIT; BEGIN',
        'COMMIT AND CHAIN; ROLLBACK',
        'START TRANSACTION',
        name === 'mysql' ? 'SET DEFAULT ROLE NONE TO root@localhost' : 'SET DEFAULT ROLE NONE',
        ...(name === 'mysql' ? [] : onlyMariadb),
      ])
        await check(text, [['a'], ['a'], { a: 'outbox' }], async () => {
          const connection = await connect(several);
          await captures.call('a', async () => {
            await connection.query('BEGIN');
            await order(connection, 'a');
            await connection.query(text);
          });
          await connection.query('ROLLBACK');
        });
      for (const text of [
        'SET @@autocommit = @was',
        'SET `autocommit` = 1',
        "SET NAMES utf8mb4, autocommit='ON'",
      ])
        await check(text, [['a'], ['a'], { a: 'outbox' }], async () => {
          const connection = await connect(several);
          await connection.query('SET @was = @@autocommit; SET autocommit = 0');
          await captures.call('a', async () => {
            await order(connection, 'a');
            await connection.query(text);
          });
        });
      for (const text of ['ROLLBACK; BEGIN', '/*! ROLLBACK */', 'ROLLBACK/* a */AND CHAIN', 'XX; ROLLBACK'])
        await check(text, [['b'], ['b'], { a: 'rolled_back', b: 'outbox' }], async () => {
          const connection = await connect(several);
          await connection.query('BEGIN');
          await write(connection, 'a');
          await connection.query(text.replace('XX', 'SELECT 1'));
          await connection.query('BEGIN');
          await write(connection, 'b');
          await connection.query('COMMIT');
        });
      for (const [set, back] of [
        ['SAVEPOINT `One`', 'ROLLBACK TO one'],
        ['SAVEPOINT é', 'ROLLBACK TO SAVEPOINT é'],
        ['SAVEPOINT/* a */b', 'ROLLBACK /* a */ TO/* b */b'],
        ['SAVEPOINT a', '/*!50000 ROLLBACK TO a */'],
      ] as const)
        await check(
          back,
          [['a', 'c'], ['a', 'c'], { a: 'outbox', b: 'rolled_back', c: 'outbox' }],
          async () => {
            const connection = await connect();
            await connection.query('BEGIN');
            await write(connection, 'a');
            await connection.query(set);
            await write(connection, 'b');
            await connection.query(back);
            await write(connection, 'c');
            await connection.query('COMMIT');
          },
        );
      assert.deepEqual(wrong, {});
      noAlarm();
    });

    it('a savepoint takes the place of an earlier one of its name', async () => {
      const connection = await connect();
      await connection.query('BEGIN');
      await connection.query('SAVEPOINT one');
      await write(connection, 'a');
      await connection.query('SAVEPOINT one');
      await connection.query('RELEASE SAVEPOINT one');
      await assert.rejects(connection.query('ROLLBACK TO one'), { code: 'ER_SP_DOES_NOT_EXIST' });
      await connection.query('COMMIT');
      await holds(['a'], ['a']);
      assert.deepEqual(await captures.ends(), { a: 'outbox' });
    });

    it('XA: the events are written before XA END, and their end is not known after XA PREPARE', async () => {
      const connection = await connect();
      await captures.call('a', async () => {
        await connection.query("XA START 'one'");
        await order(connection, 'a');
        await connection.query("XA END 'one'");
        await connection.query("XA COMMIT 'one' ONE PHASE");
      });
      await captures.call('b', async () => {
        await connection.query("XA START 'two'");
        await order(connection, 'b');
        await connection.query("XA END 'two'");
        await connection.query("XA PREPARE 'two'");
      });
      await connection.query("XA COMMIT 'two'");
      await captures.call('c', async () => {
        await connection.query("XA START 'three'");
        await order(connection, 'c');
        await connection.query("XA END 'three'");
        await connection.query("XA ROLLBACK 'three'");
      });
      await holds(['a', 'b'], ['a', 'b']);
      assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'outbox', c: 'rolled_back' });
      noAlarm();
    });

    describe('the connection', () => {
      it('lost, takes its transaction with it', async () => {
        const connection = await connect();
        await connection.beginTransaction();
        await write(connection, 'a');
        await outside(`KILL ${connection.threadId}`);
        assert.deepEqual(await captures.ends(), { a: 'rolled_back' });
        await assert.rejects(captures.call('b', () => Promise.resolve()));
        await assert.rejects(connection.commit());
        await holds([], []);
      });

      it('lost while its COMMIT is on its way, leaves it unknown', async () => {
        const connection = await connect();
        await connection.beginTransaction();
        await write(connection, 'a');
        const commit = connection.commit();
        coreOf(connection).stream.destroy();
        // The server may take it, and the next test is to find nothing of that.
        await Promise.all([Promise.race([commit.catch(() => {}), sleep(200)]), sleep(200)]);
        assert.deepEqual(await captures.ends(), { a: 'outbox' });
        assert.equal(captures.unconfirmed, 1);
      });

      const losses: [string, (connection: mysqlPromise.Connection) => void][] = [
        ['closed', (connection) => connection.destroy()],
        ['cut off', (connection) => void coreOf(connection).stream.destroy()],
        ['reset', (connection) => void coreOf(connection).stream.destroy(new Error('ECONNRESET'))],
      ];
      for (const [how, lose] of losses)
        it(`${how} while a COMMIT waits, fails it`, async () => {
          const connection = await connect();
          await connection.beginTransaction();
          captures.call('a', () => void order(connection, 'a').catch(() => {}));
          const commit = assert.rejects(connection.commit());
          lose(connection);
          await commit;
          await sleep(50);
          await holds([], []);
        });

      it('ends orderly behind a COMMIT that waits', async () => {
        const connection = await connect();
        await connection.beginTransaction();
        captures.call('a', () => void order(connection, 'a'));
        await Promise.all([connection.commit(), connection.end()]);
        await holds(['a'], ['a']);
      });

      it('reset or given to another user, has rolled back', async () => {
        const connection = await connect();
        for (const [id, reset] of [
          ['a', () => connection.changeUser({ user: 'root' })],
          ['b', () => connection.reset()],
        ] as const) {
          await connection.beginTransaction();
          await write(connection, id);
          await reset();
          assert.equal((await captures.ends())[id], 'rolled_back');
        }
        await connection.changeUser({ database: new URL(uri).pathname.slice(1) });
        await connection.beginTransaction();
        await write(connection, 'c');
        await connection.commit();
        await holds(['c'], ['c']);
      });
    });

    it('a statement that the application has prepared is followed by its text', async () => {
      const connection = await connect();
      const insert = await connection.prepare('INSERT INTO orders (id) VALUES (?)');
      await assert.rejects(
        captures.call('outside', async () => void (await insert.execute(['outside']))),
        { code: 'SVC_OUTBOX_NO_TRANSACTION' },
      );
      const commit = await connection.prepare('COMMIT');
      await captures.call('a', async () => {
        await connection.beginTransaction();
        await insert.execute(['a']);
        await commit.execute([]);
      });
      await holds(['a', 'outside'], ['a']);
    });

    it('rows of a query can be streamed while its transaction goes on', async () => {
      const connection = mysql.createConnection({ uri });
      opened.push(connection.promise() as unknown as mysqlPromise.Connection);
      connection.query('BEGIN');
      captures.call('a', () => void connection.query("INSERT INTO orders VALUES ('a')"));
      const commit = connection.query('COMMIT');
      assert.equal(commit.setMaxListeners(100), commit);
      const rows: unknown[] = [];
      for await (const row of connection.query('SELECT id FROM events').stream()) rows.push(row);
      assert.deepEqual(rows, [{ id: 'a' }]);
      await holds(['a'], ['a']);
    });

    it('rows of a query can be read one by one by functions that have events', async () => {
      const connection = mysql.createConnection({ uri });
      opened.push(connection.promise() as unknown as mysqlPromise.Connection);
      connection.query('BEGIN');
      const text =
        'WITH RECURSIVE n AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM n WHERE id < 200) SELECT * FROM n';
      for await (const { id } of connection.query(text).stream({ highWaterMark: 2 }))
        await captures.call(`event ${id}`, () => Promise.resolve());
      await connection.promise().query('COMMIT');
      assert.equal((await ids('events')).length, 200);
    });

    it('a connection of a pool is handed out where it was asked for', async () => {
      const pool = mysql.createPool({ uri, connectionLimit: 1 });
      const get = (): Promise<mysql.PoolConnection> =>
        new Promise((resolve, reject) => {
          pool.getConnection((error, connection) => (error ? reject(error) : resolve(connection)));
        });
      const holder = await get();
      const asked = captures.call(
        'a',
        () =>
          new Promise<void>((resolve, reject) => {
            pool.getConnection((_error, connection) => {
              const then = (next: () => void) => (error: unknown) => (error ? reject(error) : next());
              const commit = then(() =>
                connection.commit(
                  then(() => {
                    connection.release();
                    resolve();
                  }),
                ),
              );
              const insert = then(() => connection.query("INSERT INTO orders VALUES ('a')", commit));
              connection.beginTransaction(insert);
            });
          }),
      );
      await captures.call('ignored', async () => holder.release()).catch(() => {});
      await asked;
      await holds(['a'], ['a']);
      await new Promise((resolve) => pool.end(resolve));
    });

    it('a query of the pool is outside of transactions', async () => {
      const pool = mysqlPromise.createPool({ uri });
      const connection = await pool.getConnection();
      await connection.beginTransaction();
      await order(connection, 'inside');
      const call = captures.call('a', async () => void (await pool.query("INSERT INTO orders VALUES ('a')")));
      await assert.rejects(call, { code: 'SVC_OUTBOX_NO_TRANSACTION' });
      await connection.rollback();
      connection.release();
      await holds(['a'], []);
      await pool.end();
    });

    it('a time limit of a COMMIT does not hide its answer', async () => {
      const connection = await connect();
      await connection.beginTransaction();
      await write(connection, 'a');
      await outside('FLUSH TABLES WITH READ LOCK');
      const commit = connection.query({ sql: 'COMMIT', timeout: 100 });
      await assert.rejects(commit, { code: 'PROTOCOL_SEQUENCE_TIMEOUT' });
      await outside('UNLOCK TABLES');
      assert.deepEqual(await captures.ends(), { a: 'outbox' });
      await holds(['a'], ['a']);
    });

    it('does its own work without the settings of the connection for texts', async () => {
      const connection = await connect({
        namedPlaceholders: true,
        queryFormat: () => 'SELECT no_such_thing',
      });
      await connection.execute('SET @a = 1');
      await startOwnWork(() => connection.execute('SET @b = 1'));
      await connection.execute('SET autocommit = 0');
      await captures.call('a', async () => void (await order(connection, 'a')));
      await connection.execute('COMMIT');
      await holds(['a'], ['a']);
    });

    it('leaves a connection free when its transaction is over', async () => {
      const connection = await connect();
      await connection.beginTransaction();
      await write(connection, 'a');
      await connection.commit();
      const closed = once(coreOf(connection).stream, 'close');
      await connection.end();
      await closed;
    });
  });
}
