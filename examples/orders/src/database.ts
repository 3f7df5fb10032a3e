import { DatabaseSync } from 'node:sqlite';

export function openDatabase(file: string): DatabaseSync {
  const database = new DatabaseSync(file);
  database.exec(`
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS orders (
      id INTEGER PRIMARY KEY,
      customer TEXT NOT NULL,
      email TEXT NOT NULL,
      product TEXT NOT NULL,
      quantity INTEGER NOT NULL,
      status TEXT NOT NULL
    )`);
  return database;
}
