import assert from 'node:assert/strict';
import { join } from 'node:path';
import * as nodeSqlite from 'node:sqlite';
import BetterSqlite3 from 'better-sqlite3';
import { sqliteDrivers } from '../../../src/adapters/sqlite/sqlite-driver.ts';
import { runOwnWork } from '../../../src/ground/lifecycle.ts';
import { createConnections } from '../../../src/transaction/connection.ts';
import { currentScope } from '../../../src/transaction/transaction.ts';
import { Captures, patchDriver } from '../../contract/captured.ts';
import { temporaryFolder } from '../../support/folders.ts';

const tables = 'CREATE TABLE orders (id TEXT PRIMARY KEY); CREATE TABLE events (id TEXT PRIMARY KEY)';

type Tag = (parts: TemplateStringsArray, ...values: readonly string[]) => unknown;
const texts = (parts: TemplateStringsArray, ...values: string[]) => [parts, ...values] as const;

interface Readable {
  prepare(text: string): { all(): unknown[] };
}

function idsIn(handle: Readable, table: string): string[] {
  const rows = runOwnWork(() => handle.prepare(`SELECT id FROM ${table} ORDER BY id`).all());
  return (rows as { id: string }[]).map(({ id }) => id);
}

describe('better-sqlite3', () => {
  let captures: Captures;
  let database: BetterSqlite3.Database;

  before(() => patchDriver(sqliteDrivers.betterSqlite3, BetterSqlite3));
  beforeEach(() => {
    captures = new Captures();
    database = new BetterSqlite3(':memory:');
    runOwnWork(() => database.exec(tables));
  });
  afterEach(() => void database.close());

  const order = (id: string) => database.prepare('INSERT INTO orders (id) VALUES (?)').run(id);
  it('takes the ROLLBACK that follows a refused COMMIT, and none after it', () => {
    runOwnWork(() => database.exec("INSERT INTO events (id) VALUES ('a')"));
    for (const rollBack of [() => database.exec('ROLLBACK'), () => database.prepare('ROLLBACK').run()]) {
      database.exec('BEGIN');
      assert.throws(() => captures.call('a', () => order('a')));
      assert.throws(() => database.exec('COMMIT'), { code: 'SVC_OUTBOX_INSERT' });
      assert.equal(database.inTransaction, false);
      rollBack();
      assert.equal(database.inTransaction, false);
      assert.throws(rollBack, /no transaction is active/);
    }
    assert.deepEqual(idsIn(database, 'orders'), []);
  });

  const variants = ['default', 'deferred', 'immediate', 'exclusive'] as const;

  for (const variant of variants) {
    describe(`transaction(), ${variant}`, () => {
      const run = (work: () => unknown): unknown => {
        const made = database.transaction(work) as unknown as Record<string, () => unknown>;
        return (made[variant] as () => unknown)();
      };

      it('has the events of functions that are called in it', async () => {
        run(() => captures.call('a', () => order('a')));
        assert.deepEqual([idsIn(database, 'orders'), idsIn(database, 'events')], [['a'], ['a']]);
        assert.deepEqual(await captures.ends(), { a: 'outbox' });
      });

      it('has the event of the function that calls it', async () => {
        const result = captures.call('a', () => run(() => [order('a').changes, 'result']));
        assert.deepEqual(result, [1, 'result']);
        assert.deepEqual(idsIn(database, 'events'), ['a']);
        assert.deepEqual(await captures.ends(), { a: 'outbox' });
      });

      it('is rolled back where the event is not taken', async () => {
        runOwnWork(() => database.exec("INSERT INTO events (id) VALUES ('a')"));
        const call = () => captures.call('a', () => run(() => order('a')));
        assert.throws(call, { code: 'SVC_OUTBOX_INSERT' });
        assert.deepEqual(idsIn(database, 'orders'), []);
        assert.equal(database.inTransaction, false);
        assert.deepEqual(await captures.ends(), { a: 'refused' });
      });

      it('takes its events with it where its callback throws', async () => {
        const own = new Error('of the application');
        const call = () =>
          run(() => {
            captures.call('a', () => order('a'));
            throw own;
          });
        assert.throws(call, (error) => error === own);
        assert.deepEqual([idsIn(database, 'orders'), idsIn(database, 'events')], [[], []]);
        assert.deepEqual(await captures.ends(), { a: 'rolled_back' });
      });

      it('nested, is a savepoint', async () => {
        const inner = (id: string, fails: boolean) => () => {
          captures.call(id, () => order(id));
          if (fails) throw new Error(id);
        };
        run(() => {
          run(inner('a', false));
          assert.throws(() => run(inner('b', true)), /b/);
          run(() => {
            run(inner('c', false));
            assert.throws(() => run(inner('d', true)), /d/);
          });
        });
        assert.deepEqual(
          [idsIn(database, 'orders'), idsIn(database, 'events')],
          [
            ['a', 'c'],
            ['a', 'c'],
          ],
        );
        const ends = { a: 'outbox', b: 'rolled_back', c: 'outbox', d: 'rolled_back' };
        assert.deepEqual(await captures.ends(), ends);
      });

      it('an event of a nested one that is not taken is forgiven with it', () => {
        runOwnWork(() => database.exec("INSERT INTO events (id) VALUES ('b')"));
        run(() => {
          captures.call('a', () => order('a'));
          assert.throws(() => run(() => captures.call('b', () => order('b'))), { code: 'SVC_OUTBOX_INSERT' });
        });
        assert.deepEqual([idsIn(database, 'orders'), idsIn(database, 'events')], [['a'], ['a', 'b']]);
      });
    });
  }

  it('keeps the shape of what transaction() returns, and its refusals', () => {
    const work = database.transaction(function (this: unknown, ...args: unknown[]) {
      return [this, ...args];
    });
    assert.equal((work as unknown as { database: unknown }).database, database);
    const { deferred, immediate, exclusive } = work as unknown as Record<string, Record<string, unknown>>;
    assert.equal(deferred?.default, work);
    assert.equal(exclusive?.immediate, immediate);
    const self = {};
    assert.deepEqual(work.call(self, 1, 2), [self, 1, 2]);
    assert.throws(() => database.transaction('no' as never), /function/);
    assert.throws(() => database.transaction(async () => {})(), /promise/);
    assert.equal(database.inTransaction, false);
  });

  it('tells what the callback returned before the COMMIT', () => {
    const seen: unknown[] = [];
    captures.call('a', () => {
      const scope = currentScope();
      const publish = scope?.beforeCommit;
      if (scope !== undefined)
        scope.beforeCommit = (result) => {
          seen.push(result?.value);
          return publish?.(result);
        };
      database.transaction(() => {
        database.transaction(() => 'inner')();
        order('a');
        return 'outer';
      })();
    });
    assert.deepEqual(seen, ['outer']);
    assert.deepEqual(idsIn(database, 'events'), ['a']);
  });

  it('leaves no scope behind', () => {
    const before = currentScope();
    database.transaction(() => order('a'))();
    assert.equal(currentScope(), before);
  });

  it('hears of INSERT … RETURNING through get, all and iterate', () => {
    const insert = database.prepare('INSERT INTO orders (id) VALUES (?) RETURNING id');
    database.exec('BEGIN');
    captures.call('a', () => insert.get('a'));
    captures.call('b', () => insert.all('b'));
    captures.call('c', () => [...insert.iterate('c')]);
    database.exec('COMMIT');
    assert.deepEqual(idsIn(database, 'events'), ['a', 'b', 'c']);
  });

  it('a handle that is closed takes its transaction with it', async () => {
    database.exec('BEGIN');
    captures.call('a', () => order('a'));
    database.close();
    assert.deepEqual(await captures.ends(), { a: 'rolled_back' });
  });
});

describe('node:sqlite', () => {
  let captures: Captures;
  let database: nodeSqlite.DatabaseSync;
  let folder: string;

  before(async () => {
    patchDriver(sqliteDrivers.nodeSqlite, nodeSqlite);
    folder = temporaryFolder('sqlite');
  });
  beforeEach(() => {
    captures = new Captures();
    database = new nodeSqlite.DatabaseSync(':memory:');
    runOwnWork(() => database.exec(tables));
  });
  afterEach(() => {
    if (database.isOpen) database.close();
  });

  const order = (id: string) => database.prepare('INSERT INTO orders (id) VALUES (?)').run(id);

  it('says which Node it needs where the database does not tell about transactions', () => {
    class Old {
      [Symbol.dispose](): void {}
    }
    const patch = () =>
      sqliteDrivers.nodeSqlite.patch(
        { DatabaseSync: Old, StatementSync: class {} },
        createConnections(() => {}),
      );
    assert.throws(patch, /before Node 22\.16.*better-sqlite3/);
  });

  it('a savepoint outside a transaction is one, and its outermost RELEASE commits', async () => {
    database.exec('SAVEPOINT one');
    captures.call('a', () => order('a'));
    database.exec('SAVEPOINT one');
    captures.call('b', () => order('b'));
    database.exec('ROLLBACK TO one; RELEASE one');
    assert.equal(database.isTransaction, true);
    runOwnWork(() => database.exec("INSERT INTO events (id) VALUES ('c')"));
    assert.throws(() => captures.call('c', () => order('c')), { code: 'SVC_OUTBOX_INSERT' });
    assert.throws(() => database.exec('RELEASE one'), { code: 'SVC_OUTBOX_INSERT' });
    assert.deepEqual([idsIn(database, 'orders'), idsIn(database, 'events')], [[], []]);
    assert.deepEqual(await captures.ends(), { a: 'rolled_back', b: 'rolled_back', c: 'refused' });
  });

  it('a COMMIT that finds the database locked leaves its transaction open, and can be tried again', async () => {
    const path = join(folder, 'locked.db');
    const [one, two] = [new nodeSqlite.DatabaseSync(path, { timeout: 0 }), new nodeSqlite.DatabaseSync(path)];
    runOwnWork(() => one.exec(tables));
    one.exec('BEGIN');
    captures.call('a', () => one.exec("INSERT INTO orders (id) VALUES ('a')"));
    two.exec('BEGIN');
    two.prepare('SELECT * FROM orders').all();
    assert.throws(() => one.exec('COMMIT'), /locked/);
    captures.call('b', () => one.exec("INSERT INTO orders (id) VALUES ('b')"));
    two.exec('COMMIT');
    one.exec('COMMIT');
    assert.deepEqual(await captures.ends(), { a: 'outbox', b: 'outbox' });
    assert.deepEqual(idsIn(one, 'events'), ['a', 'b']);
    one.close();
    two.close();
  });

  it('a BEGIN that fails has begun nothing', () => {
    const path = join(folder, 'busy.db');
    const [one, two] = [new nodeSqlite.DatabaseSync(path, { timeout: 0 }), new nodeSqlite.DatabaseSync(path)];
    runOwnWork(() => one.exec(tables));
    two.exec('BEGIN IMMEDIATE');
    captures.call('outside', () => {
      assert.throws(() => one.exec('BEGIN IMMEDIATE'), /locked/);
      assert.deepEqual(currentScope()?.open(), []);
      two.exec('ROLLBACK');
      one.exec('BEGIN IMMEDIATE');
      one.exec("INSERT INTO orders (id) VALUES ('a')");
      one.exec('COMMIT');
    });
    assert.deepEqual(idsIn(one, 'events'), ['outside']);
    one.close();
    two.close();
  });

  it('an error that ends the transaction ends it for its events', async () => {
    database.exec('BEGIN');
    captures.call('a', () => order('a'));
    assert.throws(() => database.exec("INSERT OR ROLLBACK INTO orders (id) VALUES ('a')"));
    assert.deepEqual(await captures.ends(), { a: 'rolled_back' });
    assert.throws(() => captures.call('b', () => order('b')), { code: 'SVC_OUTBOX_NO_TRANSACTION' });
  });

  it('a failed constraint of the COMMIT leaves its transaction open', async () => {
    runOwnWork(() =>
      database.exec('CREATE TABLE lines (id TEXT REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)'),
    );
    database.exec('BEGIN');
    captures.call('a', () => database.exec("INSERT INTO lines (id) VALUES ('b')"));
    assert.throws(() => database.exec('COMMIT'), /FOREIGN KEY/);
    database.exec('ROLLBACK');
    assert.deepEqual(await captures.ends(), { a: 'rolled_back' });
  });

  it('hears of templates', () => {
    const { createTagStore } = database as unknown as { createTagStore?: () => Record<string, Tag> };
    const sql = createTagStore?.call(database);
    assert.ok(sql, 'this Node has template statements');
    const { run, get } = sql as { run: Tag; get: Tag };
    const id = 'a';
    run.call(sql, ...texts`BEGIN`);
    captures.call(id, () => run.call(sql, ...texts`INSERT INTO orders (id) VALUES (${id})`));
    captures.call('b', () => get.call(sql, ...texts`INSERT INTO orders (id) VALUES (${'b'}) RETURNING id`));
    run.call(sql, ...texts`COMMIT`);
    assert.deepEqual(idsIn(database, 'events'), ['a', 'b']);
  });

  it('a text with a whole transaction cannot have an event in it', () => {
    const text = "BEGIN; INSERT INTO orders (id) VALUES ('a'); COMMIT";
    assert.throws(() => captures.call('a', () => database.exec(text)), { code: 'SVC_OUTBOX_NO_TRANSACTION' });
  });

  it('a handle that is closed takes its transaction with it', async () => {
    database.exec('BEGIN');
    captures.call('a', () => order('a'));
    database.close();
    assert.deepEqual(await captures.ends(), { a: 'rolled_back' });
  });
});
