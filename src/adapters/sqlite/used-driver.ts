import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { isOwnWork, runOwnWork, shared } from '../../ground/lifecycle.ts';
import type { SqliteDriver } from './sqlite-handle.ts';

/**
 * Two copies of SQLite in one process undo each other's locks on a file, and damage it (sqlite.org/howtocorrupt.html, 2.2.1): svc
 * opens the application's file with the very driver that the application uses, and lets go of it as soon as that turns out
 * to be another one than it has taken.
 */
const used = shared('sqlite-driver', () => ({
  /** The first one that the application has loaded. */
  first: undefined as SqliteDriver | undefined,
  /** Files on which it uses another one. */
  onFile: new Map<string, SqliteDriver>(),
  /** One that svc has no patch for. */
  foreign: undefined as string | undefined,
  /** Of those who have a file open. */
  listeners: new Set<() => void>(),
}));

export function usedDriver(path: string): SqliteDriver | undefined {
  return used.onFile.get(realPath(path)) ?? used.first;
}

/** The name of a driver with a SQLite of its own, where svc would open the file beside it. */
export function foreignSqlite(path: string): string | undefined {
  return usedDriver(path) === undefined ? used.foreign : undefined;
}

/** Until the returned function is called. */
export function onOtherDriver(listener: () => void): () => void {
  used.listeners.add(listener);
  return () => void used.listeners.delete(listener);
}

/** Before the application can open a file with it. svc itself loads drivers, too: that counts for nothing. */
export function driverIsLoaded(driver: SqliteDriver): void {
  if (isOwnWork() || used.first !== undefined) return;
  used.first = driver;
  tell();
}

export function foreignSqliteIsLoaded(name: string): void {
  used.foreign = name;
  tell();
}

/** Before the first statement on a handle of the application. */
export function driverIsUsed(driver: SqliteDriver, path: string | null): void {
  if (isOwnWork() || path === null || path === '' || path === ':memory:' || usedDriver(path) === driver)
    return;
  used.onFile.set(realPath(path), driver);
  tell();
}

function tell(): void {
  for (const listener of used.listeners) runOwnWork(listener);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return resolve(path);
  }
}
