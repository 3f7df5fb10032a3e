import type { Dialect } from '../../transaction/dialect.ts';

/** Drivers that applications use, and that svc cannot follow. */
export const foreignDrivers: readonly { readonly specifier: string; readonly dialect: Dialect }[] = [
  { specifier: 'postgres', dialect: 'postgres' },
  { specifier: 'mariadb', dialect: 'mysql' },
];

export function foreignText(specifier: string): string {
  return `svc does not follow transactions of the driver ${specifier}: run what makes events for the outbox within outbox.withTransaction(transaction, fn), or open it with outbox.runInTransaction`;
}
