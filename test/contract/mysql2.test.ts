import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import mysql from 'mysql2';
import mysqlPromise from 'mysql2/promise';
import { createMysqlStore } from '../../src/adapters/mysql/mysql-store.ts';
import { mysql2Drivers } from '../../src/adapters/mysql/mysql2-driver.ts';
import { startOwnWork } from '../../src/ground/lifecycle.ts';
import { startMariadb } from '../support/mariadb.ts';
import { startMysql } from '../support/mysql.ts';
import { requiring } from '../support/requires.ts';
import { patchDriver } from './captured.ts';
import { type DriverUnderTest, type TestConnection, testDriver } from './driver.ts';
import { tellViews, testPrograms } from './programs.ts';
import { testUndone } from './undone.ts';
import { testUndoneAtRandom } from './undone-at-random.ts';

const servers = [
  { name: 'mariadb', title: 'MariaDB', start: startMariadb },
  { name: 'mysql', title: 'MySQL', start: startMysql },
] as const;

/** Of a connection with promises, its inner one has the socket. */
function cutOff(given: mysql.Connection | mysqlPromise.Connection): void {
  const inner = 'connection' in given ? given.connection : given;
  (inner as unknown as { stream: Socket }).stream.destroy();
}

type Options = Readonly<Record<string, unknown>>;
type Connect = (options: Options) => Promise<TestConnection>;
type Method = (text: string, done: (error: unknown) => void) => unknown;

function promised(call: (done: (error: unknown) => void) => unknown): Promise<void> {
  return new Promise((resolve, reject) => {
    call((error) => (error ? reject(error) : resolve()));
  });
}

const styles: Readonly<Record<string, Connect>> = {
  async 'with callbacks'(options) {
    const connection = mysql.createConnection(options).on('error', () => {});
    const query = connection.query.bind(connection) as Method;
    return {
      begin: () => promised((done) => connection.beginTransaction(done)),
      commit: () => promised((done) => connection.commit(done)),
      rollback: () => promised((done) => connection.rollback(done)),
      run: (text) => promised((done) => query(text, done)),
      callback: (text, done) => void query(text, done),
      close: () => promised((done) => connection.end(done)),
      id: () => connection.threadId,
      cutOff: () => cutOff(connection),
    };
  },
  async 'with promises'(options) {
    const connection = (await mysqlPromise.createConnection(options)).on('error', () => {});
    return {
      begin: () => connection.beginTransaction(),
      commit: () => connection.commit(),
      rollback: () => connection.rollback(),
      run: (text) => connection.query(text),
      close: () => connection.end(),
      id: () => connection.threadId,
      cutOff: () => cutOff(connection),
    };
  },
  async 'with execute()'(options) {
    const connection = (await mysqlPromise.createConnection(options)).on('error', () => {});
    // Not all statements can be prepared.
    const run = (text: string) =>
      /savepoint|rollback to|begin|start|;|and /i.test(text)
        ? connection.query(text)
        : connection.execute(text);
    return {
      begin: () => connection.beginTransaction(),
      commit: () => connection.execute('COMMIT'),
      rollback: () => connection.execute('ROLLBACK'),
      run,
      close: () => connection.end(),
      id: () => connection.threadId,
      cutOff: () => cutOff(connection),
    };
  },
  async 'from a pool'(options) {
    const pool = mysqlPromise.createPool({ ...options, connectionLimit: 1 });
    const connection = await pool.getConnection();
    return {
      begin: () => connection.beginTransaction(),
      commit: () => connection.commit(),
      rollback: () => connection.rollback(),
      run: (text) => connection.query(text),
      async close() {
        connection.release();
        await pool.end();
      },
      id: () => connection.threadId,
      cutOff: () => cutOff(connection),
    };
  },
  async 'with events'(options) {
    const connection = mysql.createConnection(options).on('error', () => {});
    const run = (text: string): Promise<void> =>
      new Promise((resolve, reject) => {
        const query = connection.query(text);
        query.setMaxListeners(20);
        let failure: unknown;
        query.once('error', (error) => {
          failure = error;
        });
        query.once('end', () => (failure === undefined ? resolve() : reject(failure)));
      });
    return {
      begin: () => run('BEGIN'),
      commit: () => run('COMMIT'),
      rollback: () => run('ROLLBACK'),
      run,
      close: () => promised((done) => connection.end(done)),
      id: () => connection.threadId,
      cutOff: () => cutOff(connection),
    };
  },
};

for (const { name, title, start } of servers) {
  requiring(name, `the driver mysql2 on ${title}`, function () {
    this.timeout(30_000);
    let uri: string;
    let observer: mysqlPromise.Connection;

    before(async () => {
      const [one, two] = mysql2Drivers;
      assert.ok(one !== undefined && two !== undefined);
      patchDriver(one, mysql);
      patchDriver(two, mysqlPromise);
      const database = await start();
      uri = (await database.freshDatabase()).replace(/^mariadb:/, 'mysql:');
      observer = await mysqlPromise.createConnection(uri);
      for (const table of ['orders', 'events'])
        await startOwnWork(() => observer.query(`CREATE TABLE ${table} (id VARCHAR(99) PRIMARY KEY)`));
    });
    before(async () => {
      for (const text of [
        'CREATE FUNCTION create_order(n VARCHAR(99)) RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN INSERT INTO orders (id) VALUES (n); RETURN 1; END',
        'CREATE FUNCTION place() RETURNS INT MODIFIES SQL DATA RETURN create_order(@shop_order)',
        'CREATE VIEW placed AS SELECT place() AS done',
        'CREATE VIEW placed_again AS SELECT done FROM placed',
      ])
        await startOwnWork(() => observer.query(text));
      await tellViews('mysql', createMysqlStore({ url: uri, table: 'none', initializeSchema: 'never' }));
    });
    after(() => observer?.end());

    for (const [style, connect] of Object.entries(styles)) {
      describe(style, () => {
        const driver: DriverUnderTest = {
          isSync: false,
          holdsRows: false,
          hasCallbacks: style === 'with callbacks',
          connect: () => connect({ uri, multipleStatements: true }),
          kill: (id) => startOwnWork(() => observer.query(`KILL ${id}`)),
          async ids(table) {
            const [rows] = await startOwnWork(() => observer.query(`SELECT id FROM ${table}`));
            return (rows as { id: string }[]).map(({ id }) => id);
          },
          spellings: {
            begin: [
              'begin',
              'BEGIN WORK',
              'START TRANSACTION READ WRITE',
              '/* a */ Begin',
              '-- it\nbegin',
              '# it\nbegin;',
            ],
            commit: [
              'commit',
              'COMMIT WORK',
              '/* a */ commit',
              '-- it\ncommit',
              'commit and no chain',
              'commit;',
            ],
            rollback: ['rollback', 'ROLLBACK WORK', '/* a */ rollback', '# no\nrollback'],
          },
          chain: 'COMMIT AND CHAIN',
        };
        testDriver(() => driver);
        if (style === 'with promises')
          describe('programs', () =>
            testPrograms(() => driver, {
              callOf: (id) => `SELECT create_order('${id}')`,
              viewOf: (id) => [`SET @shop_order = '${id}'`, 'SELECT * FROM placed_again'],
              locksUndone: true,
            }));
        if (style === 'with callbacks') {
          describe('what is undone', () => testUndone(() => driver));
          describe('at random', () => testUndoneAtRandom(() => driver, true));
        }
      });
    }
  });
}
