import type { SvcError } from '../../ground/errors.ts';
import { type ErasureSettings, eraseSuffix, erasesRows, routeColumn } from '../../outbox/erase-row.ts';
import { besideTable, partsOfTable, quoteName, quoteTable } from '../../outbox/insert-row.ts';
import type { Senders } from '../../outbox/outbox-store.ts';
import { contradiction } from '../../outbox/store-error.ts';
import type { Dialect } from '../../transaction/dialect.ts';

export interface SenderSettings extends ErasureSettings {
  readonly dialect: Dialect;
  readonly table: string;
}

/** Rows that wait for so long have nobody who sends them, where no relay is alive either: one that is started again takes less. */
const waitingMs = 60_000;

/** Why events must not be stored: with these settings on this table they would be lost. */
export function refusalOf(
  settings: SenderSettings,
  { erases, isRouted, log }: Senders,
): SvcError | undefined {
  const { dialect, table } = settings;
  if (!isForDebezium(settings)) return erases ? contradiction(erasedText(table)) : undefined;
  if (dialect === 'mysql' && !isRouted)
    return contradiction(
      `the table ${table} has no column ${routeColumn}, without which Debezium sends no row of it: run what "npx --no svc outbox debezium --sql" prints, or set svc.outbox.publisher-enabled: true`,
    );
  if (log !== 'none' || (dialect === 'postgres' && !erases)) return undefined;
  const missing =
    dialect === 'postgres'
      ? 'its database has no logical replication slot (or one that has lost its log)'
      : 'its server keeps no binary log';
  return contradiction(
    `each row of ${table} is deleted in the transaction that wrote it (svc.outbox.publisher-enabled: false, retention-days: 0), and ${missing}, so that no connector can have it: create the connector first, or set svc.outbox.publisher-enabled: true and run what "npx --no svc outbox debezium --sql" prints then`,
  );
}

/** What somebody has to look at, though no event is lost by it. `isRelay`: this process has a relay itself. */
export function remarkOf(settings: SenderSettings, senders: Senders, isRelay: boolean): string | undefined {
  const { dialect, table } = settings;
  const { erases, isRouted, log, relays, oldestMs } = senders;
  if (isForDebezium(settings)) {
    if (relays > 0)
      return `this process leaves the rows of ${table} to Debezium and deletes them at once, and relays that send rows run beside it: stop them, or set svc.outbox.publisher-enabled: true here as well`;
    if (dialect === 'postgres' && !erases)
      return `svc.outbox.retention-days is 0 for Debezium, and the table ${table} keeps its rows: run what "npx --no svc outbox debezium --sql" prints`;
  }
  const isWaiting = oldestMs !== null && oldestMs > waitingMs;
  if (isRelay || relays > 0 || (!isWaiting && !erases)) return undefined;
  if (!isRouted)
    return `rows of ${table} wait for ${spanOf(oldestMs ?? 0)}, and no relay of it runs: start "npx --no svc relay", or a process with svc.outbox.publisher-enabled: true and this table`;
  // Who reads a binary log, nobody here knows.
  if (dialect !== 'postgres' || log === 'read') return undefined;
  return `no relay of ${table} runs, and at the moment no connector reads the log of its database: look at Kafka Connect (GET /connectors/<name>/status)`;
}

/** No connector reads SQLite: its rows stay, whatever is set. */
const isForDebezium = (settings: SenderSettings): boolean =>
  erasesRows(settings) && settings.dialect !== 'sqlite';

function spanOf(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}

function erasedText(table: string): string {
  const trigger = quoteName('postgres', besideTable(partsOfTable(table)?.name ?? table, eraseSuffix));
  return `a trigger of the table ${table} deletes each row in the transaction that wrote it, as for Debezium alone, and svc.outbox.publisher-enabled: false with retention-days: 0 is not what is set here: no relay would find an event. Run DROP TRIGGER ${trigger} ON ${quoteTable('postgres', table)}; or set both, if Debezium sends`;
}
