import { DatabaseSync } from 'node:sqlite';

export function openDatabase(file: string): DatabaseSync {
  const database = new DatabaseSync(file);
  database.exec(`
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS parcels (
      id INTEGER PRIMARY KEY,
      recipient TEXT NOT NULL,
      grams INTEGER NOT NULL CHECK (grams <= 30000),
      status TEXT NOT NULL
    )`);
  return database;
}

export function inTransaction<T>(database: DatabaseSync, work: () => T): T {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    database.exec('ROLLBACK');
    throw error;
  }
}
