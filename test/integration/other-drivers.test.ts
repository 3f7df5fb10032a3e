import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire, Module } from 'node:module';
import { sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type BetterSqlite3 from 'better-sqlite3';
import type mysql from 'mysql2';
import type pg from 'pg';
import { mysql2Drivers } from '../../src/adapters/mysql/mysql2-driver.ts';
import { pgDriver } from '../../src/adapters/postgres/pg-driver.ts';
import { sqliteDrivers } from '../../src/adapters/sqlite/sqlite-driver.ts';
import { startOwnWork } from '../../src/ground/lifecycle.ts';
import { createConnections } from '../../src/transaction/connection.ts';
import type { DriverPatch } from '../../src/transaction/driver.ts';
import { startMariadb } from '../support/mariadb.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';

// Drivers as later versions might be: each part that svc uses has another name in them, here and there alike, so that the driver
// itself works as before.

/** In the files whose path ends so, what is replaced by what. */
type Edit = readonly [files: string, from: RegExp, to: string];

interface Other {
  readonly edits: readonly Edit[];
  /** What svc says of it, once. Without it, svc does without that part. */
  readonly says?: RegExp;
}

type Others = Readonly<Record<string, Other>>;
type Compiled = NodeModule & { _compile(source: string, file: string): void };

const require = createRequire(import.meta.url);
const extensions = (Module as unknown as { _extensions: NodeJS.RequireExtensions })._extensions;

/** Loads a copy of the package with these edits, and hands it over; meanwhile `require` finds it as well. */
async function withCopy<T>(
  name: string,
  edits: readonly Edit[],
  use: (copy: unknown) => Promise<T>,
): Promise<T> {
  const isOfPackage = (path: string): boolean => path.includes(`${sep}node_modules${sep}${name}${sep}`);
  const forget = (): (readonly [string, NodeModule | undefined])[] => {
    const kept = Object.entries(require.cache).filter(([path]) => isOfPackage(path));
    for (const [path] of kept) delete require.cache[path];
    return kept;
  };
  const kept = forget();
  const load = extensions['.js'];
  const unused = new Set(edits);
  extensions['.js'] = (module, file) => {
    const found = isOfPackage(file) ? edits.filter(([files]) => file.endsWith(files)) : [];
    if (found.length === 0) return load(module, file);
    let source = readFileSync(file, 'utf8');
    for (const edit of found) {
      const edited = source.replace(edit[1], edit[2]);
      if (edited !== source) unused.delete(edit);
      source = edited;
    }
    (module as Compiled)._compile(source, file);
  };
  try {
    const result = await use(require(name));
    assert.deepEqual([...unused], [], 'the package has no such part any more');
    return result;
  } finally {
    extensions['.js'] = load;
    forget();
    for (const [path, module] of kept) require.cache[path] = module;
  }
}

type Program = (copy: never) => Promise<unknown>;

/** What it gives, or how it fails; a call that is never answered fails as well. */
async function outcomeOf(program: Program, copy: unknown): Promise<unknown> {
  try {
    const late = sleep(5_000, 'no answer', { ref: false });
    return await Promise.race([program(copy as never), late]);
  } catch (error) {
    return String(error);
  }
}

/** Call it inside a suite. */
function testOthers(driver: DriverPatch, program: Program, others: Others): void {
  for (const [title, { edits, says }] of Object.entries({ nothing: { edits: [] } as Other, ...others })) {
    it(title, async () => {
      const alone = await withCopy(driver.specifier, edits, (copy) =>
        startOwnWork(() => outcomeOf(program, copy)),
      );
      const usual = await withCopy(driver.specifier, [], (copy) =>
        startOwnWork(() => outcomeOf(program, copy)),
      );
      assert.deepEqual(alone, usual, 'the driver alone does not work with it');
      const said: string[] = [];
      const followed = await withCopy(driver.specifier, edits, async (copy) => {
        const say = (error: unknown): void => void said.push((error as Error).message);
        try {
          driver.patch(
            copy,
            createConnections(() => said.push('a commit that was not seen'), say),
          );
        } catch (error) {
          say(error);
        }
        return outcomeOf(program, copy);
      });
      assert.deepEqual(followed, alone);
      const lines = [...new Set(said)];
      if (says === undefined) assert.deepEqual(lines, []);
      else {
        assert.equal(lines.length, 1, lines.join('\n'));
        assert.match(lines[0] as string, says);
      }
    });
  }
}

/** A method of pg's connection, and those who call it. */
const ofConnection = (name: string): readonly Edit[] => [
  ['pg/lib/connection.js', new RegExp(`^  ${name}\\(`, 'm'), `  other_${name}(`],
  ['pg/lib/query.js', new RegExp(`connection\\.${name}\\(`, 'g'), `connection.other_${name}(`],
];
const eventOf = (name: string): readonly Edit[] => [
  [
    'pg/lib/connection.js',
    /this\.emit\(eventName, msg\)/,
    `this.emit(eventName === '${name}' ? 'other' : eventName, msg)`,
  ],
  ['pg/lib/client.js', new RegExp(`con\\.on\\('${name}'`), "con.on('other'"],
];

requiring('postgres', 'the application goes on with another pg: without or with other', function () {
  this.timeout(60_000);
  let connectionString: string;
  before(async () => {
    connectionString = await (await startPostgres()).freshDatabase();
  });

  testOthers(
    pgDriver,
    async ({ Client, Pool }: typeof pg) => {
      const results: unknown[] = [];
      const client = new Client({ connectionString });
      // Before it is connected, too.
      const first = client.query('SELECT 1 AS early');
      await client.connect();
      results.push((await first).rows);
      await client.query('CREATE TABLE IF NOT EXISTS orders (id text)');
      for (const end of ['COMMIT', 'ROLLBACK']) {
        await client.query('BEGIN');
        await client.query('INSERT INTO orders VALUES ($1)', [end]);
        results.push((await client.query({ name: 'one', text: 'SELECT id FROM orders' })).rows);
        results.push((await client.query(end)).command);
      }
      results.push(await client.query('SELECT no_such_column').catch(({ code }) => code));
      await new Promise((resolve) =>
        client.query('SELECT 2 AS two', (_error, { rows }) => resolve(results.push(rows))),
      );
      await client.query('DROP TABLE orders');
      await client.end();
      const pool = new Pool({ connectionString, max: 1 });
      results.push((await pool.query('SELECT $1::text AS text', ['x'])).rows);
      await pool.end();
      return results;
    },
    {
      'the connection of a client': {
        edits: [['pg/lib/client.js', /(this|self|c)\.connection\b/g, '$1.wire']],
        says: /connection/,
      },
      'the stream of a connection': {
        edits: [
          ['pg/lib/connection.js', /(this|self)\.stream\b/g, '$1.socket'],
          ['pg/lib/query.js', /connection\.stream\b/g, 'connection.socket'],
          ['pg/lib/client.js', /\b(con|connection)\.stream\b/g, '$1.socket'],
        ],
        says: /stream/,
      },
      ...Object.fromEntries(
        ['parse', 'bind', 'execute', 'sync', 'close'].map((name) => [
          `${name}() of a connection`,
          { edits: ofConnection(name), says: new RegExp(name) },
        ]),
      ),
      ...Object.fromEntries(
        ['readyForQuery', 'commandComplete', 'errorMessage'].map((name) => [
          `the event ${name}`,
          { edits: eventOf(name), says: new RegExp(name) },
        ]),
      ),
      ...Object.fromEntries(
        ['handleReadyForQuery', 'handleCommandComplete'].map((name) => [
          `${name}() of a query`,
          {
            edits: ['client', 'query'].map(
              (file): Edit => [`pg/lib/${file}.js`, new RegExp(`\\b${name}\\b`, 'g'), `${name}Now`],
            ),
            says: /handleCommandComplete|native/,
          },
        ]),
      ),
      'the status in readyForQuery': {
        edits: [
          [
            'pg/lib/connection.js',
            /this\.emit\(eventName, msg\)/,
            "this.emit(eventName, eventName === 'readyForQuery' ? { name: eventName, state: msg.status } : msg)",
          ],
        ],
        says: /readyForQuery/,
      },
      'the tag in commandComplete': {
        edits: [
          [
            'pg/lib/connection.js',
            /this\.emit\(eventName, msg\)/,
            "this.emit(eventName, eventName === 'commandComplete' ? { name: eventName, tag: msg.text } : msg)",
          ],
          ['pg/lib/result.js', /msg\.text/g, 'msg.tag'],
        ],
        says: /commandComplete/,
      },
      'the event drain': { edits: [['pg/lib/client.js', /emit\('drain'\)/g, "emit('dry')"]] },
      'readyForQuery of a client': {
        edits: [['pg/lib/client.js', /this\.readyForQuery\b/g, 'this.isReady']],
      },
      'the process id of a client': { edits: [['pg/lib/client.js', /this\.processID\b/g, 'this.pid']] },
      'the names of prepared statements': {
        edits: ['client', 'connection', 'query'].map(
          (file): Edit => [`pg/lib/${file}.js`, /parsedStatements/g, 'prepared'],
        ),
      },
    },
  );
});

const everywhere = (from: RegExp, to: string): Other['edits'] => [['.js', from, to]];

requiring('mariadb', 'the application goes on with another mysql2: without or with other', function () {
  this.timeout(60_000);
  let uri: string;
  before(async () => {
    uri = (await (await startMariadb()).freshDatabase()).replace(/^mariadb:/, 'mysql:');
  });

  testOthers(
    mysql2Drivers[0] as DriverPatch,
    async ({ createConnection, createPool }: typeof mysql) => {
      const results: unknown[] = [];
      const connection = createConnection({ uri });
      connection.on('error', () => {});
      const query = (text: string): Promise<unknown> =>
        new Promise((resolve, reject) => {
          connection.query(text, (error, rows) =>
            error ? reject(error) : resolve(Array.isArray(rows) && rows),
          );
        });
      try {
        await query('CREATE TABLE IF NOT EXISTS orders (id VARCHAR(9))');
        for (const end of ['COMMIT', 'ROLLBACK']) {
          await query('BEGIN');
          await query(`INSERT INTO orders VALUES ('${end}')`);
          await new Promise((resolve) =>
            connection.execute('SELECT id FROM orders', (_error, rows) => resolve(results.push(rows))),
          );
          results.push(await query(end));
        }
        results.push(await query('SELECT no_such_column').catch(({ code }) => code));
        results.push(await new Promise((resolve) => connection.query('SELECT 1 AS a').on('result', resolve)));
        await query('DROP TABLE orders');
      } finally {
        connection.destroy();
      }
      const pool = createPool({ uri, connectionLimit: 1 });
      results.push(
        await new Promise((resolve) => pool.query('SELECT 2 AS b', (_error, rows) => resolve(rows))),
      );
      await new Promise((resolve) => pool.end(resolve));
      return results;
    },
    {
      'addCommand()': { edits: everywhere(/\b(_?)addCommand\b/g, '$1pushCommand'), says: /addCommand/ },
      'doneInsert() of a command': { edits: everywhere(/\bdoneInsert\b/g, 'insertDone'), says: /doneInsert/ },
      'row() of a command': {
        edits: ['query', 'execute'].map(
          (file): Edit => [`commands/${file}.js`, /(\.|^ {2})row\b/gm, '$1oneRow'],
        ),
        says: /row/,
      },
      'start() of a command': { edits: [['.js', /(\.|^ {2})start\b/gm, '$1begins']], says: /start/ },
      'onResult of a command': { edits: everywhere(/\bonResult\b/g, 'onAnswer'), says: /onResult/ },
      'the text of a command': {
        edits: [
          ['commands/query.js', /this\.sql\b/g, 'this.words'],
          ['commands/execute.js', /this\.sql\b/g, 'this.words'],
          ['base/connection.js', /cmdQuery\.sql\b/g, 'cmdQuery.words'],
        ],
        says: /text/,
      },
      'the flags in an OK packet': { edits: everywhere(/\bserverStatus\b/g, 'state'), says: /transactions/ },
      'isEOF() of a packet': { edits: everywhere(/\bisEOF\b/g, 'isLast'), says: /transactions/ },
      'eofStatusFlags() of a packet': {
        edits: everywhere(/\beofStatusFlags\b/g, 'lastFlags'),
        says: /transactions/,
      },
      'all connections of a pool': {
        edits: everywhere(/\b_allConnections\b/g, '_every'),
        says: /_allConnections/,
      },
      'the packet of the handshake': { edits: everywhere(/\b_handshakePacket\b/g, '_greeting') },
    },
  );
});

describe('the application goes on with another better-sqlite3: without or with other', function () {
  this.timeout(60_000);

  testOthers(
    sqliteDrivers.betterSqlite3,
    async (Database: typeof BetterSqlite3) => {
      const database = new Database(':memory:');
      database.exec('CREATE TABLE orders (id TEXT)');
      const results: unknown[] = [];
      for (const end of ['COMMIT', 'ROLLBACK']) {
        database.exec('BEGIN');
        database.prepare('INSERT INTO orders VALUES (?)').run(end);
        results.push(database.prepare('SELECT id FROM orders').all());
        database.prepare(end).run();
      }
      const write = database.transaction((id: string) =>
        database.prepare('INSERT INTO orders VALUES (?)').run(id),
      );
      results.push(write('x').changes);
      results.push([...database.prepare('SELECT id FROM orders').iterate()]);
      database.close();
      return results;
    },
    {
      'inTransaction of a database': {
        edits: everywhere(/\binTransaction: \{/g, 'isWithin: {'),
        says: /transactions/,
      },
      'the kinds of a transaction': {
        edits: [['transaction.js', /(\t\t|properties\.)immediate(: \{|\.)/g, '$1instant$2']],
      },
    },
  );

  it('says what its statements do not tell, once, and patches none of them', () => {
    const said: string[] = [];
    class Database {
      readonly inTransaction = false;
      readonly name = ':memory:';
      exec(): void {}
      close(): void {}
      transaction(): void {}
      prepare(): object {
        return new (class Statement {
          run(): string {
            return 'ran';
          }
        })();
      }
    }
    sqliteDrivers.betterSqlite3.patch(
      Database,
      createConnections(
        () => {},
        (error) => said.push((error as Error).message),
      ),
    );
    const database = new Database();
    for (let call = 0; call < 2; call++) assert.equal((database.prepare() as { run(): string }).run(), 'ran');
    assert.deepEqual(said, ['its statements do not report their connection']);
    assert.throws(
      () =>
        sqliteDrivers.betterSqlite3.patch(
          class {},
          createConnections(() => {}),
        ),
      /prototype\.exec/,
    );
  });
});
