import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { ddl, type Migration, migrations, schemaVersion } from '../../src/adapters/sql/schema.ts';
import type { SqlStoreOptions } from '../../src/adapters/sql/sql-store.ts';
import { type DialectName, quoteTable } from '../../src/outbox/insert-row.ts';
import type { OutboxStore } from '../../src/outbox/outbox-store.ts';
import { useLogger } from '../support/log.ts';
import { newTable, type OutboxStoreUnderTest, rowOf } from './outbox-store.ts';

/** Of this svc. */
const own = migrations.map(({ version }) => version);
const [second, third] = [schemaVersion + 1, schemaVersion + 2];

function hasColumn(dialect: DialectName, table: string, column: string): string {
  return {
    postgres: `SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = '${table}' AND column_name = '${column}'`,
    mysql: `SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = '${table}' AND column_name = '${column}'`,
    sqlite: `SELECT 1 FROM pragma_table_info('${table}') WHERE name = '${column}'`,
  }[dialect];
}

function addColumn(
  dialect: DialectName,
  table: string,
  column: string,
): ReturnType<Migration['steps']>[number] {
  const sql = `ALTER TABLE ${quoteTable(dialect, table)} ADD COLUMN ${column} integer NOT NULL DEFAULT 7`;
  return { sql, isDone: hasColumn(dialect, table, column) };
}

/** Versions as later ones may be: a column, and an index on another column. */
const later: readonly Migration[] = [
  ...migrations,
  { version: second, steps: (dialect, table) => [addColumn(dialect, table, 'second')] },
  {
    version: third,
    steps: (dialect, table) => [addColumn(dialect, table, 'third'), addColumn(dialect, table, 'fourth')],
  },
];

/** The second step of the last version fails. */
const broken: readonly Migration[] = [
  ...later.slice(0, -1),
  {
    version: third,
    steps: (dialect, table) => [
      ...(later.at(-1)?.steps(dialect, table, {}) ?? []).slice(0, 1),
      { sql: 'ALTER TABLE not_there_at_all ADD COLUMN x integer' },
    ],
  },
];

/** How tables go from one version to a later one, while processes of both are at work. Call it inside a `describe`. */
export function testOutboxMigrations(get: () => OutboxStoreUnderTest): void {
  const opened: OutboxStore[] = [];
  let table: string;
  let said: string[];
  const open = (rest: Partial<SqlStoreOptions> = {}): OutboxStore => {
    const say = (message: string): void => void said.push(message);
    const logger = { debug: say, info: say, warn: say, error: say };
    useLogger(logger);
    const made = get().open({ url: get().url, table, initializeSchema: 'always', ...rest });
    opened.push(made);
    return made;
  };
  const columns = async (): Promise<string[]> => {
    const names = ['second', 'third', 'fourth'];
    const found = await Promise.all(names.map((name) => get().query(hasColumn(get().dialect, table, name))));
    return names.filter((_, at) => found[at]?.length === 1);
  };
  const versions = async (): Promise<number[]> => {
    const schema = quoteTable(get().dialect, table, '_schema');
    const found = await get().query(`SELECT version FROM ${schema} ORDER BY version`);
    return found.map(({ version }) => Number(version));
  };
  const relayed = async (store: OutboxStore): Promise<number> => {
    const shards = await store.claim('one', 60_000);
    const rows = await store.pending(shards, { upToId: 0, ids: [] }, 1_000);
    const ids = rows.map(({ id }) => id);
    return (await store.ack('one', ids, true)).length;
  };

  beforeEach(() => {
    table = newTable();
    said = [];
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((one) => one.close(1_000)));
  });

  it('from no table, and from an older one, to the last version, noting each', async () => {
    await open().prepare();
    assert.deepEqual(await versions(), own);
    await open({ migrations: later }).prepare();
    assert.deepEqual(await versions(), [...own, second, third]);
    assert.deepEqual(await columns(), ['second', 'third', 'fourth']);
    await open({ migrations: later }).prepare();
    table = newTable();
    await open({ migrations: later }).prepare();
    assert.deepEqual(await versions(), [...own, second, third]);
  });

  it('an older one is told at the start with what to do, and nothing is made where it must not', async () => {
    await open().prepare();
    await assert.rejects(open({ migrations: later, initializeSchema: 'never' }).prepare(), {
      code: 'SVC_OUTBOX_SCHEMA_VERSION',
      message: new RegExp(
        `has version ${schemaVersion}, older .*\\(${third}\\).*ddl --from ${schemaVersion}"`,
      ),
    });
    assert.deepEqual(await columns(), []);
  });

  it('six at once, of three versions, do each step once', async () => {
    const all = [migrations, later.slice(0, -1), later].flatMap((known) => [known, known]);
    await Promise.all(all.map((known) => open({ migrations: known }).prepare()));
    assert.deepEqual(await versions(), [...own, second, third]);
    assert.deepEqual(await columns(), ['second', 'third', 'fourth']);
    assert.equal(
      said.filter((line) => line === 'the tables of the outbox were created').length,
      own.length + 2,
    );
  });

  it('what fails in between leaves the versions before it, and is done by the next try', async () => {
    await assert.rejects(open({ migrations: broken }).prepare(), /SVC_OUTBOX|not_there|has no table/);
    assert.deepEqual(await versions(), [...own, second]);
    // MySQL cannot roll back what makes tables.
    assert.deepEqual(await columns(), get().dialect === 'mysql' ? ['second', 'third'] : ['second']);
    await open({ migrations: later }).prepare();
    assert.deepEqual(await versions(), [...own, second, third]);
    assert.deepEqual(await columns(), ['second', 'third', 'fourth']);
  });

  it('an old process goes on while it happens, and another can start afterwards', async () => {
    const old = open({ initializeSchema: 'never' });
    await open().prepare();
    await old.prepare();
    let isDone = false;
    let stored = 0;
    let sent = 0;
    const working = (async () => {
      while (!isDone) {
        await old.insert([rowOf()]);
        stored++;
        sent += await relayed(old);
        // SQLite answers without a turn of the event loop.
        await turn();
      }
    })();
    await open({ migrations: later }).prepare();
    const before = stored;
    const someMore = async (): Promise<void> => {
      while (stored < before + 3 && !isDone) await new Promise((done) => setTimeout(done, 5));
    };
    await Promise.race([someMore(), working]).finally(() => {
      isDone = true;
    });
    await working;
    assert.ok(stored >= before + 3);
    assert.equal(sent + (await relayed(old)), stored);
    said = [];
    const another = open({ initializeSchema: 'never' });
    await another.prepare();
    assert.deepEqual(said, ['the tables of the outbox are from a newer svc, but this version can use them']);
    await another.insert([rowOf()]);
    const young = open({ migrations: later, initializeSchema: 'never' });
    await young.prepare();
    assert.equal(await relayed(young), 1, 'the row of an old process');
  });

  it('as text, from a version on, it is what is missing and no more', async () => {
    const { dialect } = get();
    const run = async (text: string): Promise<void> => {
      for (const statement of text.split(/;\n+/).filter(Boolean)) await get().query(statement);
    };
    await run(ddl(dialect, table));
    await run(ddl(dialect, table, { from: schemaVersion, migrations: later }));
    assert.deepEqual(await columns(), ['second', 'third', 'fourth']);
    await open({ migrations: later, initializeSchema: 'never' }).prepare();
    assert.equal(ddl(dialect, table, { from: third, migrations: later }), '');
    assert.doesNotMatch(ddl(dialect, table, { from: second, migrations: later }), /second|CREATE TABLE/);
  });
}
