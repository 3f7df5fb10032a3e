import { migrate, schemaVersion } from '../sql/schema.ts';
import { dialects, runWorkAtOnce, tablesOf } from '../sql/statement.ts';
import { loadNodeSqlite, pathOf } from './sqlite-handle.ts';

/** The longest that the start of a process waits for another one that has the file. */
const busyMs = 2_000;

/**
 * Makes the tables before the application's first turn, in which its first event may be stored. What is wrong with them, the
 * store tells when it is prepared.
 */
export function prepareSqliteAtOnce(url: string, table: string): void {
  const database = loadNodeSqlite().open(pathOf(url));
  try {
    database.exec(`PRAGMA busy_timeout = ${busyMs}`);
    database.exec('PRAGMA journal_mode = WAL');
    for (let version = 0; version < schemaVersion; ) {
      database.exec('BEGIN IMMEDIATE');
      const work = migrate(dialects.sqlite, table, tablesOf('sqlite', table), { limitMs: busyMs });
      version = runWorkAtOnce(work, (statement) => database.run(statement))?.after ?? schemaVersion;
      database.exec('COMMIT');
    }
  } finally {
    // Before the application opens it: two copies of SQLite in one process undo each other's locks.
    database.close();
  }
}
