import assert from 'node:assert/strict';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadBetterSqlite, loadNodeSqlite } from '../../src/adapters/sqlite/sqlite-driver.ts';
import { createSqliteStore } from '../../src/adapters/sqlite/sqlite-store.ts';
import { temporaryFolder } from '../support/folders.ts';
import { testOutboxMigrations } from './outbox-migrations.ts';
import { testOutboxSchema } from './outbox-schema.ts';
import { type OutboxStoreUnderTest, rowOf, testOutboxStore } from './outbox-store.ts';
import { testOutboxStrays } from './outbox-strays.ts';

type SqliteDriver = ReturnType<typeof loadNodeSqlite>;

const drivers: readonly (readonly [name: string, load: () => SqliteDriver | Promise<SqliteDriver>])[] = [
  ['better-sqlite3', loadBetterSqlite],
  ['node:sqlite', loadNodeSqlite],
];

for (const [name, load] of drivers) {
  describe(`outbox store contract: sqlite with ${name}`, function () {
    this.timeout(20_000);
    let directory: string;
    let path: string;
    // By the same driver: two copies of SQLite in one process do not see each other's locks.
    let driver: SqliteDriver;
    let reader: ReturnType<SqliteDriver['open']>;

    before(async () => {
      directory = temporaryFolder('outbox');
      path = join(directory, 'app.db');
      driver = await load();
      reader = driver.open(path);
      reader.exec('PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 2000');
    });
    after(() => {
      reader.close();
    });

    const get = (): OutboxStoreUnderTest => ({
      dialect: 'sqlite',
      url: `sqlite:${path}`,
      open: (options) => createSqliteStore(options, load),
      query: async (statement) =>
        reader.run({ sql: statement, values: [], hasRows: /^SELECT/.test(statement) }).rows,
    });
    testOutboxStore(get);
    describe('schema', () => testOutboxSchema(get));
    describe('rows of somebody else', () => testOutboxStrays(get));
    describe('migrations', () => testOutboxMigrations(get));

    describe('a file', () => {
      const open = (url: string, timeoutMs = 5_000) =>
        createSqliteStore({ url, table: 'svc_outbox_events', initializeSchema: 'embedded', timeoutMs }, load);

      it('is in WAL mode and loses no commit with the power', async () => {
        const store = open(`sqlite:${join(directory, 'wal.db')}`);
        await store.prepare();
        const other = driver.open(join(directory, 'wal.db'));
        const [row] = other.run({ sql: 'PRAGMA journal_mode', values: [], hasRows: true }).rows;
        assert.equal(row?.journal_mode, 'wal');
        other.close();
        await store.close(1_000);
      });

      it('that somebody else has locked is waited for without holding up the event loop', async () => {
        const store = open(`sqlite:${path}`);
        await store.prepare();
        reader.exec('BEGIN IMMEDIATE');
        let turns = 0;
        const ticking = setInterval(() => turns++, 5);
        const inserting = store.insert([rowOf(), rowOf()]);
        await sleep(150);
        clearInterval(ticking);
        reader.exec('COMMIT');
        await inserting;
        assert.ok(turns > 10, `${turns} turns`);
        assert.equal(await store.countPending(), 2);
        await store.close(1_000);
      });

      it('that stays locked is given up in time, and used again afterwards', async () => {
        const store = open(`sqlite:${path}`, 100);
        await store.prepare();
        reader.exec('BEGIN IMMEDIATE');
        await assert.rejects(store.claim('one', 1_000), {
          code: 'SVC_OUTBOX_UNREACHABLE',
          message: /SQLITE_BUSY/,
        });
        reader.exec('COMMIT');
        assert.equal((await store.claim('one', 1_000)).length, 64);
        await store.close(1_000);
      });

      it('in no folder, one that is none, and one that does not exist are told', async () => {
        await assert.rejects(open(`sqlite:${join(directory, 'none', 'app.db')}`).prepare(), {
          code: 'SVC_OUTBOX_UNREACHABLE',
        });
        const text = join(directory, 'text.db');
        writeFileSync(text, 'no database at all, '.repeat(100));
        await assert.rejects(open(`sqlite:${text}`).prepare(), { code: 'SVC_OUTBOX_UNREACHABLE' });
        const missing = join(directory, 'missing.db');
        const store = createSqliteStore(
          { url: `sqlite:${missing}`, table: 't', initializeSchema: 'never' },
          load,
        );
        await assert.rejects(store.prepare(), { code: 'SVC_OUTBOX_TABLE_MISSING' });
        assert.equal(existsSync(missing), false);
      });

      it('that may only be read is told', async () => {
        const file = join(directory, 'read-only.db');
        driver.open(file).close();
        chmodSync(directory, 0o755);
        chmodSync(file, 0o444);
        const isRoot = process.getuid?.() === 0;
        // Root may write everything.
        if (isRoot) process.seteuid?.(65534);
        try {
          await assert.rejects(open(`sqlite:${file}`).prepare(), { code: 'SVC_OUTBOX_NOT_ALLOWED' });
        } finally {
          if (isRoot) process.seteuid?.(0);
        }
      });

      it('is named by sqlite: and its path', () => {
        for (const url of ['', 'sqlite:', 'postgres://host/db', '/a/path'])
          assert.throws(() => open(url), { code: 'SVC_OUTBOX_URL' });
      });
    });
  });
}
