import type { Dialect } from '../../transaction/dialect.ts';

export interface ForeignDriver {
  readonly specifier: string;
  readonly dialect: Dialect;
}

/** Drivers that applications use, and that svc cannot follow. */
export const foreignDrivers: readonly ForeignDriver[] = [
  { specifier: 'postgres', dialect: 'postgres' },
  { specifier: 'mariadb', dialect: 'mysql' },
  { specifier: 'sqlite3', dialect: 'sqlite' },
  { specifier: 'libsql', dialect: 'sqlite' },
];

export function foreignText(specifier: string): string {
  return `svc does not follow transactions of the driver ${specifier}: run what makes events for the outbox within outbox.withTransaction(transaction, fn), or open it with outbox.runInTransaction`;
}
