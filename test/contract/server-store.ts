import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { ddl } from '../../src/adapters/sql/schema.ts';
import type { SqlStoreOptions } from '../../src/adapters/sql/sql-store.ts';
import { dialects } from '../../src/adapters/sql/statement.ts';
import { quoteTable, rowStatements, type SqlValue } from '../../src/outbox/insert-row.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { collectLines } from '../outbox/relay/relay-under-test.ts';
import type { OwnDatabase } from '../support/database.ts';
import { useLogger } from '../support/log.ts';
import { startSilentServer } from '../support/silent-server.ts';
import { until } from '../support/until.ts';
import { newTable, rowOf } from './outbox-store.ts';

/** A connection of the application. */
export interface Client {
  query(statement: string, values?: readonly SqlValue[]): Promise<unknown>;
  close(): Promise<void>;
}

/** Takes the lock of an operation, as another instance does. */
function lockStatement(dialect: ServerUnderTest['dialect'], name: string): string {
  const first = dialects[dialect].locks?.lock(name, 0).next();
  assert.ok(first !== undefined && !first.done);
  const { sql, values } = first.value;
  return values.reduce<string>(
    (text, value) => text.replace('?', () => (typeof value === 'number' ? String(value) : `'${value}'`)),
    sql,
  );
}

/** What the suite needs to know of a server that can be hurt. */
export interface ServerUnderTest {
  readonly dialect: 'postgres' | 'mysql';
  readonly server: OwnDatabase;
  open(options: SqlStoreOptions): OutboxStore;
  connect(url: string): Promise<Client>;
  /** Makes a user who may sign in with that password, and nothing else. */
  makeUser(name: string, password: string): readonly string[];
  /** Keeps others from all rows of a table, within a transaction. */
  lockTable(table: string): string;
  /** Tells who uses a table that waits to be altered. */
  readonly namesTableLocks: boolean;
  /** Makes sessions read-only that begin from now on, or none any more. */
  setReadOnly(url: string, isReadOnly: boolean): string;
  /** How many connections svc has, as the server sees it. */
  readonly connectionsOfSvc: string;
  /** Makes a place for tables, and where it is told. */
  makeSchema(name: string): string;
  readonly store: { readonly file: string; readonly name: string };
}

/** What a store does on a server that refuses, hangs and dies. Call it inside a `describe`. */
export function testServerStore(get: () => ServerUnderTest): void {
  const opened: (OutboxStore | Client)[] = [];
  let table: string;
  let url: string;

  const open = (rest: Partial<SqlStoreOptions> = {}): OutboxStore => {
    const made = get().open({ url, table, initializeSchema: 'always', timeoutMs: 3_000, ...rest });
    opened.push(made);
    return made;
  };
  const connect = async (at = url): Promise<Client> => {
    const client = await get().connect(at);
    opened.push(client);
    return client;
  };
  const query = (statement: string) => get().server.query(url, statement);
  const insertAs = (client: Client, rest: Parameters<typeof rowOf>[0] = {}): Promise<unknown> => {
    const { text, values } = rowStatements(table, get().dialect).insert(rowOf(rest));
    return client.query(text, values);
  };
  const named = (suffix = ''): string => quoteTable(get().dialect, table, suffix);
  const urlOf = (user: string, password: string): string =>
    Object.assign(new URL(url), { username: user, password: encodeURIComponent(password) }).href;
  const user = async (password = 'se/cr@et word'): Promise<{ name: string; url: string }> => {
    const name = `user_${newTable().slice(-8)}`;
    for (const statement of get().makeUser(name, password)) await query(statement);
    return { name, url: urlOf(name, password) };
  };
  const tooLong = async (work: Promise<unknown>, limitMs: number, error: object): Promise<void> => {
    const startMs = performance.now();
    await assert.rejects(work, error);
    const tookMs = performance.now() - startMs;
    assert.ok(tookMs < limitMs, `${Math.round(tookMs)} ms`);
  };

  before(async () => {
    url = await get().server.freshDatabase();
  });
  beforeEach(() => {
    table = newTable();
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((one) => one.close(500)));
  });

  describe('a user', () => {
    it('with a wrong password, or none of that name, is told without the password', async () => {
      const { name } = await user();
      for (const wrong of [urlOf(name, 'top-secret'), urlOf('nobody', 'top-secret')])
        await assert.rejects(open({ url: wrong }).prepare(), (error: Error & { code: string }) => {
          assert.equal(error.code, 'SVC_OUTBOX_SIGN_IN');
          assert.doesNotMatch(
            `${error.message}${error.stack}${JSON.stringify(error)}`,
            /top-secret|nobody|user_/,
          );
          return true;
        });
    });

    it('of a database that does not exist is told', async () => {
      const wrong = Object.assign(new URL(url), { pathname: '/not_there' }).href;
      await assert.rejects(open({ url: wrong }).prepare(), { code: 'SVC_OUTBOX_SIGN_IN' });
    });

    it('who has no connection left is told so, and what helps', async () => {
      const { name, url: theirs } = await user();
      const onMysql = [
        `GRANT ALL ON *.* TO '${name}'@'%'`,
        `ALTER USER '${name}'@'%' WITH MAX_USER_CONNECTIONS 1`,
      ];
      const onPostgres = [`ALTER ROLE ${name} CONNECTION LIMIT 1`];
      for (const statement of url.startsWith('postgres') ? onPostgres : onMysql) await query(statement);
      await connect(theirs);
      await assert.rejects(open({ url: theirs }).prepare(), {
        code: 'SVC_OUTBOX_UNREACHABLE',
        message: /has no connection left for the outbox .*let fewer processes relay/,
      });
    });

    it('who may not create tables is told with always, and what to do', async () => {
      const { url: theirs } = await user();
      const error = { code: /SVC_OUTBOX_NOT_ALLOWED|SVC_OUTBOX_SIGN_IN/, message: /grant|check user/ };
      await assert.rejects(open({ url: theirs }).prepare(), error);
    });

    it('who may read but not insert is told at the start', async () => {
      await open().prepare();
      const { name, url: theirs } = await user();
      for (const suffix of ['', '_shard', '_relay', '_schema'])
        await query(`GRANT SELECT ON ${named(suffix)} TO ${name}`);
      const store = open({ url: theirs, initializeSchema: 'never' });
      await assert.rejects(store.prepare(), {
        code: 'SVC_OUTBOX_NOT_ALLOWED',
        message: /grant SELECT, INSERT/,
      });
      await assert.rejects(store.insert([rowOf()]), { code: 'SVC_OUTBOX_NOT_ALLOWED' });
    });

    it('who may insert but not update, as a relay does, is told at the start', async () => {
      await open().prepare();
      const { name, url: theirs } = await user();
      for (const suffix of ['', '_shard', '_relay', '_schema'])
        await query(`GRANT SELECT, INSERT, DELETE ON ${named(suffix)} TO ${name}`);
      const store = open({ url: theirs, initializeSchema: 'never' });
      const error = { code: 'SVC_OUTBOX_NOT_ALLOWED', message: /grant SELECT, INSERT, UPDATE and DELETE/ };
      await assert.rejects(store.prepare(), error);
      await assert.rejects(store.claim('one', 1_000), error);
      await store.insert([rowOf()]);
      assert.equal(await open().countPending(), 1);
    });

    it('needs no more than the grants of the text of the tables; an application may insert, and no more', async () => {
      const relay = await user();
      const application = await user();
      const grants = { relay: relay.name, application: application.name };
      for (const statement of ddl(get().dialect, table, { grants }).split(/;\n+/).filter(Boolean))
        await query(statement);
      const client = await connect(application.url);
      await insertAs(client);
      await assert.rejects(client.query(`SELECT * FROM ${named()}`));
      const store = open({ url: relay.url, initializeSchema: 'never' });
      await store.prepare();
      await store.insert([rowOf(), rowOf()]);
      await store.claim('one', 1_000);
      const ids = (await store.pending(await store.claim('one', 60_000), { upToId: 0, ids: [] }, 10)).map(
        ({ id }) => id,
      );
      assert.equal((await store.ack('one', ids, true)).length, 3);
      assert.equal(await store.cleanup('PUBLISHED', -1_000, 10), 3);
      await store.release('one');
    });
  });

  it('a table in a schema of its own is used from anywhere', async () => {
    const place = `place_${newTable().slice(-8)}`;
    await query(get().makeSchema(place));
    table = `${place}.${table}`;
    const store = open();
    await store.prepare();
    const client = await connect();
    await insertAs(client);
    assert.equal(await store.countPending(), 1);
    assert.equal((await store.claim('one', 1_000)).length, 64);
    table = 'not_there.outbox';
    await assert.rejects(open({ initializeSchema: 'never' }).prepare(), { code: 'SVC_OUTBOX_TABLE_MISSING' });
  });

  it("a row that the application's transaction rolls back is not there, and one that it commits is", async () => {
    const store = open();
    await store.prepare();
    const client = await connect();
    for (const verb of ['ROLLBACK', 'COMMIT']) {
      await client.query('BEGIN');
      await insertAs(client, { eventId: verb });
      assert.equal(await store.countPending(), 0);
      await client.query(verb);
    }
    assert.deepEqual(
      (await store.read({}, 0, 10)).map(({ eventId }) => eventId),
      ['COMMIT'],
    );
  });

  it('an error holds no value of a row', async () => {
    const store = open();
    await store.prepare();
    const row = rowOf({
      eventId: null as unknown as string,
      key: 'jane@example.org',
      payload: Buffer.from('4111111111111111'),
    });
    await assert.rejects(store.insert([row, row]), (error: Error) => {
      assert.deepEqual(
        Object.keys(error),
        ['code', 'name'].filter((key) => Object.hasOwn(error, key)).sort(),
      );
      assert.doesNotMatch(`${error.message}${error.stack}${JSON.stringify(error)}`, /jane|4111|34313131/);
      return true;
    });
  });

  it('cleanup does nothing while another instance is at it', async () => {
    const store = open();
    await store.prepare();
    await store.insert([rowOf()]);
    await query(`UPDATE ${named()} SET status = 'PUBLISHED', published_at = created_at`);
    const other = await connect();
    await other.query('BEGIN');
    await other.query(lockStatement(get().dialect, `cleanup ${named()}`));
    assert.equal(await store.cleanup('PUBLISHED', -10_000, 10), 0);
    await other.close();
    // The server frees the lock shortly after the connection has ended.
    let cleaned = 0;
    for (const end = Date.now() + 5_000; cleaned === 0 && Date.now() < end; )
      cleaned = await store.cleanup('PUBLISHED', -10_000, 10);
    assert.equal(cleaned, 1);
  });

  it('what waits for a lock is given up in time, says who holds it, and works again afterwards', async () => {
    const { lines, logger } = collectLines();
    useLogger(logger);
    const store = open({ timeoutMs: 500 });
    await store.prepare();
    await store.insert([rowOf()]);
    const other = await connect();
    await other.query('BEGIN');
    await other.query(get().lockTable(named('_shard')));
    await tooLong(store.claim('one', 1_000), 1_500, { code: 'SVC_OUTBOX_UNREACHABLE', message: /in time/ });
    await tooLong(store.claim('one', 1_000), 1_500, { code: 'SVC_OUTBOX_UNREACHABLE', message: /in time/ });
    await other.query('ROLLBACK');
    assert.equal((await store.claim('one', 1_000)).length, 64);
    const said = lines.filter((line) => line.startsWith('error'));
    assert.equal(said.length, 1, lines.join('\n'));
    assert.match(
      said[0] as string,
      /waits for a lock in \w+ at [\w.:]+, which process \d+ \(.* for \d+ s\) holds/,
    );
  });

  it('tables that wait for a transaction of the application to be brought up to date hold up others for 2 s at most', async () => {
    const { lines, logger } = collectLines();
    useLogger(logger);
    const store = open({ timeoutMs: 20_000 });
    await store.prepare();
    await query(`ALTER TABLE ${named()} DROP CONSTRAINT ${table}_valid`);
    await query(`DELETE FROM ${named('_schema')} WHERE version = 2`);
    const long = await connect();
    await long.query('BEGIN');
    await long.query(`SELECT COUNT(*) FROM ${named()}`);
    const preparing = store.prepare().catch((error: Error) => error);
    await sleep(300);
    const sinceMs = performance.now();
    await query('SELECT 1');
    const other = await connect();
    await insertAs(other);
    const tookMs = performance.now() - sinceMs;
    assert.ok(tookMs < 3_000, `${tookMs} ms`);
    await long.query('ROLLBACK');
    await preparing;
    await store.prepare();
    assert.equal(await store.missingGuard(), undefined);
    if (get().namesTableLocks) assert.match(lines.join('\n'), /error .*which process \d+ \(.*\) holds/);
  }).timeout(30_000);

  it('processes that wait for another to make the tables say nothing of it', async () => {
    const { lines, logger } = collectLines();
    const other = await connect();
    await other.query('BEGIN');
    await other.query(lockStatement(get().dialect, `migrate ${named()}`));
    useLogger(logger);
    const preparing = open().prepare();
    await sleep(1_600);
    await other.close();
    await preparing;
    assert.deepEqual(
      lines.filter((line) => !line.startsWith('info')),
      [],
    );
  });

  it('what was given up leaves no connection behind that waits on the server', async () => {
    const store = open({ timeoutMs: 400 });
    await store.prepare();
    await store.insert([rowOf()]);
    const ids = (await store.pending(await store.claim('one', 60_000), { upToId: 0, ids: [] }, 10)).map(
      ({ id }) => id,
    );
    const other = await connect();
    await other.query('BEGIN');
    await other.query(get().lockTable(named()));
    for (let tries = 0; tries < 6; tries++)
      await assert.rejects(store.ack('one', ids, true), { code: 'SVC_OUTBOX_UNREACHABLE' });
    let found = 0;
    for (let tries = 0; tries < 30; tries++) {
      const [row] = await query(get().connectionsOfSvc);
      found = Number(row?.found);
      if (found <= 3) break;
      await sleep(100);
    }
    assert.ok(found <= 3, `${found} connections`);
    await other.query('ROLLBACK');
    assert.deepEqual(await store.ack('one', ids, true), ids);
  });

  it('has two connections at most', async () => {
    // On a busy machine the server takes a while to let go of those that tests before cut off.
    await until(async () => Number((await query(get().connectionsOfSvc))[0]?.found) === 0);
    const store = open();
    await store.prepare();
    await Promise.all(
      Array.from({ length: 30 }, (_, index) => (index % 2 ? store.statistics() : store.insert([rowOf()]))),
    );
    const [row] = await query(get().connectionsOfSvc);
    assert.ok(Number(row?.found) >= 1 && Number(row?.found) <= 2, `${row?.found}`);
    await store.close(1_000);
  });

  it('holds no process', async () => {
    const { file, name } = get().store;
    const source = new URL(`../../src/adapters/${file}`, import.meta.url);
    const script = `const { ${name} } = await import(${JSON.stringify(source.href)});
      const store = ${name}(${JSON.stringify({ url, table, initializeSchema: 'always' })});
      const alive = setInterval(() => {}, 1000);
      await store.prepare(); await Promise.all([store.claim('one', 1000), store.statistics()]);
      clearInterval(alive); console.log('done');`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
      cwd: new URL('../..', pathToFileURL(`${import.meta.dirname}/`)),
    });
    let doneMs = 0;
    child.stdout.on('data', () => {
      doneMs = performance.now();
    });
    const [code] = await once(child, 'exit');
    assert.equal(code, 0);
    assert.ok(performance.now() - doneMs < 1_000, 'it was held');
  });

  it('a server that says nothing is given up in time', async () => {
    const silent = await startSilentServer();
    try {
      const wrong = Object.assign(new URL(url), { host: silent.address }).href;
      await tooLong(open({ url: wrong, timeoutMs: 400 }).prepare(), 1_500, {
        code: 'SVC_OUTBOX_UNREACHABLE',
      });
    } finally {
      silent.close();
    }
  });

  it('nobody at that address is told at once', async () => {
    const wrong = Object.assign(new URL(url), { host: '127.0.0.1:1' }).href;
    const error = { code: 'SVC_OUTBOX_UNREACHABLE', message: /ECONNREFUSED.*datasource\.url/ };
    await tooLong(open({ url: wrong }).prepare(), 1_500, error);
  });

  it('a server that freezes is given up in time, and used again when it goes on', async () => {
    const store = open({ timeoutMs: 500 });
    await store.prepare();
    await get().server.pause();
    try {
      await tooLong(store.countPending(), 1_500, { code: 'SVC_OUTBOX_UNREACHABLE', message: /in time/ });
      await Promise.all(
        Array.from({ length: 5 }, () =>
          tooLong(store.insert([rowOf()]), 1_500, { code: 'SVC_OUTBOX_UNREACHABLE' }),
        ),
      );
    } finally {
      get().server.resume();
    }
    await sleep(100);
    await store.countPending();
  });

  it('a server that takes no writes any more is left for the one that its address leads to then', async () => {
    await open().prepare();
    const { server, setReadOnly } = get();
    const store = open();
    await server.query(server.url, setReadOnly(url, true));
    try {
      await assert.rejects(store.claim('one', 1_000), {
        code: 'SVC_OUTBOX_READ_ONLY',
        message: /read-only/,
      });
      await assert.rejects(store.insert([rowOf()]), { code: 'SVC_OUTBOX_READ_ONLY' });
    } finally {
      await server.query(server.url, setReadOnly(url, false));
    }
    assert.equal((await store.claim('one', 1_000)).length, 64);
    await store.insert([rowOf()]);
  });

  it('a server that died is told, and used again when it is back, without what was not committed', async () => {
    const store = open();
    await store.prepare();
    await store.insert([rowOf()]);
    await get().server.kill();
    await assert.rejects(store.insert([rowOf()]), { code: 'SVC_OUTBOX_UNREACHABLE' });
    await assert.rejects(store.claim('one', 1_000), { code: 'SVC_OUTBOX_UNREACHABLE' });
    await get().server.restart();
    assert.equal((await store.claim('one', 1_000)).length, 64);
    assert.equal(await store.countPending(), 1);
  }).timeout(60_000);
}
