import { join } from 'node:path';
import * as nodeSqlite from 'node:sqlite';
import BetterSqlite3 from 'better-sqlite3';
import { sqliteDrivers } from '../../src/adapters/sqlite/sqlite-driver.ts';
import { runOwnWork } from '../../src/ground/lifecycle.ts';
import { temporaryFolder } from '../support/folders.ts';
import { patchDriver } from './captured.ts';
import { type DriverUnderTest, type TestConnection, testDriver } from './driver.ts';
import { testPrograms } from './programs.ts';
import { testUndone } from './undone.ts';
import { testUndoneAtRandom } from './undone-at-random.ts';

interface Handle {
  exec(text: string): unknown;
  prepare(text: string): { run(): unknown; all(): unknown[] };
  close(): unknown;
}

interface Case {
  readonly name: string;
  readonly open: (path: string) => Handle;
  readonly patch: () => void;
}

const cases: readonly Case[] = [
  {
    name: 'node:sqlite',
    open: (path) => new nodeSqlite.DatabaseSync(path),
    patch: () => patchDriver(sqliteDrivers.nodeSqlite, nodeSqlite),
  },
  {
    name: 'better-sqlite3',
    open: (path) => new BetterSqlite3(path),
    patch: () => patchDriver(sqliteDrivers.betterSqlite3, BetterSqlite3),
  },
];

type Run = (handle: Handle, text: string) => unknown;
const styles: Readonly<Record<string, Run>> = {
  'exec()': (handle, text) => void handle.exec(text),
  'prepare()': (handle, text) =>
    /^select/i.test(text) ? void handle.prepare(text).all() : void handle.prepare(text).run(),
};

for (const { name, open, patch } of cases) {
  for (const [style, run] of Object.entries(styles)) {
    describe(`the driver ${name}, ${style}`, () => {
      let folder: string;
      let count = 0;
      const paths: string[] = [];

      before(async () => {
        patch();
        folder = temporaryFolder('sqlite');
      });

      /** One writer at a time: those that write side by side have files of their own. */
      async function connect(): Promise<TestConnection> {
        const path = join(folder, `${count++}.db`);
        const handle = runOwnWork(() => {
          const made = open(path);
          made.exec(
            'PRAGMA synchronous = off; CREATE TABLE orders (id TEXT PRIMARY KEY); CREATE TABLE events (id TEXT PRIMARY KEY)',
          );
          return made;
        });
        paths.push(path);
        return {
          begin: () => run(handle, 'BEGIN'),
          commit: () => run(handle, 'COMMIT'),
          rollback: () => run(handle, 'ROLLBACK'),
          run: (text) => run(handle, text),
          close: () => handle.close(),
        };
      }

      const driver: DriverUnderTest = {
        isSync: true,
        holdsRows: false,
        hasCallbacks: false,
        connect,
        ids: async (table) =>
          runOwnWork(() =>
            paths.flatMap((path) => {
              const handle = open(path);
              const rows = handle.prepare(`SELECT id FROM ${table}`).all() as { id: string }[];
              handle.close();
              return rows.map(({ id }) => id);
            }),
          ),
        spellings: {
          begin: [
            'begin',
            'BEGIN IMMEDIATE',
            '-- it\nBegin Transaction;',
            '/* a */ begin exclusive',
            'SAVEPOINT whole',
          ],
          commit: ['commit', 'COMMIT TRANSACTION;', 'End', '/* a\n b */ end transaction'],
          rollback: ['rollback', 'ROLLBACK TRANSACTION', '-- no\nrollback'],
        },
      };
      testDriver(() => driver);
      if (style === 'exec()') {
        describe('what is undone', () => testUndone(() => driver));
        describe('at random', () => testUndoneAtRandom(() => driver, false));
        describe('programs', () => testPrograms(() => driver, {}));
      }
    });
  }
}
