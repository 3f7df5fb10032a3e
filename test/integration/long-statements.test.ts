import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as nodeSqlite from 'node:sqlite';
import BetterSqlite3 from 'better-sqlite3';
import mysql from 'mysql2/promise';
import pg from 'pg';
import { mysql2Drivers } from '../../src/adapters/mysql/mysql2-driver.ts';
import { pgDriver } from '../../src/adapters/postgres/pg-driver.ts';
import { sqliteDrivers } from '../../src/adapters/sqlite/sqlite-driver.ts';
import { startOwnWork } from '../../src/ground/lifecycle.ts';
import { patchDriver } from '../contract/captured.ts';
import { startMariadb } from '../support/mariadb.ts';
import { startPostgres } from '../support/postgres.ts';
import { requiring } from '../support/requires.ts';

/** One driver with a connection of the application. */
interface Driver {
  /** Rejects as the driver does. */
  run(text: string, value?: string): Promise<unknown>;
  /** Whether it puts values into the text. */
  readonly placeholder?: string;
  close(): unknown;
}

const largest = 2 ** 25;
const parts = [
  ...['x', '漢', ' ', '\n', ';', "'", "''", '"', '`', '\\', "\\'", '$', '$$', '$a$', 'a$', '--', '#'],
  ...['/*', '*/', '/*!', ';COMMIT;', ';ROLLBACK', "E'", '1', ','],
];

/** Where the long part stands. */
const places: readonly ((long: string, length: string) => string)[] = [
  (long, length) => `SELECT ${length}('${long}')`,
  (long, length) => `SELECT ${length}('a') /* ${long} */`,
  (long, length) => `SELECT ${length}('a'); SELECT ${length}('${long}'), ${length}(';')`,
  (long) => `SELECT "${long}";`,
  (long) => `SELECT 1; ${long}`,
  (long, length) => `SELECT 1; -- ${long}\nSELECT ${length}('a')`,
  (long) => `SELECT 1; SELECT $b$${long}$b$`,
];
const largePlaces = 5;

/** The same ones for the same seed (mulberry32). */
function numbersOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** What a query gives, as far as it can be compared. */
async function outcomeOf(run: () => Promise<unknown>): Promise<string> {
  try {
    const given = JSON.stringify(await run()) ?? 'nothing';
    return given.length < 200 ? `gives ${given}` : `gives ${createHash('sha1').update(given).digest('hex')}`;
  } catch (error) {
    const { name, code, message } = error as NodeJS.ErrnoException;
    return `fails: ${name} ${code ?? message.slice(0, 100)}`;
  }
}

/** Call it inside a suite. The driver alone is svc's own work: the patched method lets it pass. */
function testLongTexts(length: string, open: () => Promise<Driver>): void {
  // The same texts each time in CI: what others find is repaired, and not met by chance.
  const seed = Number(process.env.SVC_TEST_SEED ?? (process.env.CI ? 20261123 : Date.now() % 2 ** 31));
  const random = numbersOf(seed);
  const longOf = (size: number): string => {
    const part = Array.from({ length: 1 + random(4) }, () => parts[random(parts.length)]).join('');
    return part.repeat(Math.floor(size / part.length));
  };

  async function compare(text: string, value?: string): Promise<void> {
    const [alone, followed] = [await open(), await open()];
    const expected = await startOwnWork(() => outcomeOf(() => alone.run(text, value)));
    const found = await outcomeOf(() => followed.run(text, value));
    await Promise.allSettled([alone.close(), followed.close()]);
    const shown = `SVC_TEST_SEED=${seed}, ${text.length} characters: ${text.slice(0, 80)}`;
    assert.equal(`${found} (${shown})`, `${expected} (${shown})`);
  }

  it('short ones, of all kinds of parts', async () => {
    for (let round = 0; round < 100; round++) {
      const place = places[random(places.length)] as (typeof places)[number];
      await compare(place(longOf(1 + random(2_000)), length));
    }
  });

  for (const [at, place] of places.slice(0, largePlaces).entries())
    it(`of 32 MB: ${place('…', length)}`, async () => {
      // One at least is a sound text.
      await compare(place(at === 2 ? `${'x'.repeat(largest)};` : longOf(largest), length));
    });

  it('of 32 MB, with a value that the driver may put into the text', async () => {
    const { placeholder = '?', close } = await open();
    await close();
    await compare(`SELECT ${length}(${placeholder})`, `${"it's; ".repeat(largest / 6)};`);
  });
}

requiring('postgres', 'long texts of statements with pg', function () {
  this.timeout(120_000);
  let connectionString: string;
  before(async () => {
    patchDriver(pgDriver, pg);
    connectionString = await (await startPostgres()).freshDatabase();
  });
  testLongTexts('length', async () => {
    const client = new pg.Client({ connectionString });
    client.on('error', () => {});
    await client.connect();
    return {
      placeholder: '$1::text',
      async run(text, value) {
        const results = await client.query(text, value === undefined ? undefined : [value]);
        return [results].flat().map(({ rows }) => rows.length && Object.values(rows[0] as object));
      },
      close: () => client.end(),
    };
  });
});

requiring('mariadb', 'long texts of statements with mysql2', function () {
  this.timeout(120_000);
  let uri: string;
  let usualSize: number | undefined;

  async function outside<Row>(text: string): Promise<readonly [readonly Row[], unknown]> {
    const connection = await mysql.createConnection(uri);
    const result = await connection.query(text);
    await connection.end();
    return result as never;
  }

  before(async () => {
    for (const driver of mysql2Drivers) patchDriver(driver, mysql);
    uri = (await (await startMariadb()).freshDatabase()).replace(/^mariadb:/, 'mysql:');
    const [[before]] = await outside<{ size: number }>('SELECT @@GLOBAL.max_allowed_packet AS size');
    usualSize = before?.size;
    await outside(`SET GLOBAL max_allowed_packet = ${4 * largest}`);
  });
  after(() => usualSize && outside(`SET GLOBAL max_allowed_packet = ${usualSize}`));
  testLongTexts('LENGTH', async () => {
    const connection = await mysql.createConnection({ uri, multipleStatements: true });
    connection.on('error', () => {});
    return {
      async run(text, value) {
        const [rows] = await connection.query(text, value === undefined ? undefined : [value]);
        return rows;
      },
      close: () => connection.destroy(),
    };
  });
});

describe('long texts of statements with better-sqlite3', function () {
  this.timeout(120_000);
  before(() => patchDriver(sqliteDrivers.betterSqlite3, BetterSqlite3));
  testLongTexts('length', async () => {
    const database = new BetterSqlite3(':memory:');
    return {
      async run(text, value) {
        if (value === undefined) return void database.exec(text);
        return Object.values(database.prepare(text).get(value) as object);
      },
      close: () => database.close(),
    };
  });
});

describe('long texts of statements with node:sqlite', function () {
  this.timeout(120_000);
  before(() => patchDriver(sqliteDrivers.nodeSqlite, nodeSqlite));
  testLongTexts('length', async () => {
    const database = new nodeSqlite.DatabaseSync(':memory:');
    return {
      async run(text, value) {
        if (value === undefined) return database.exec(text);
        return Object.values(database.prepare(text).get(value) as object);
      },
      close: () => database.close(),
    };
  });
});
