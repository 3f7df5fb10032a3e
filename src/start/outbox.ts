import type { Config } from '../config/config.ts';
import { isolate } from '../observe/isolate.ts';
import type { Logger } from '../observe/logger.ts';
import { insertStatement, insertValues } from '../outbox/insert-row.ts';
import { createOutboxJoin, type OutboxJoin } from '../outbox/join.ts';
import type { OutboxStore } from '../outbox/outbox-store.ts';
import { type Dialect, dialects } from '../transaction/dialect.ts';
import { openOutboxStore } from './adapters.ts';

/** The outbox of a process: the way of events into the application's transactions, and out of the table. */
export interface StartedOutbox {
  readonly join: OutboxJoin;
  /** Events whose transaction has not ended. */
  pending(): number;
  /** COMMITs whose answer never came. */
  unconfirmed(): number;
  close(deadlineMs: number): Promise<void>;
}

export function startOutbox(config: Config, logger: Logger): StartedOutbox | undefined {
  const { enabled, datasource, table, initializeSchema, onNoTransaction } = config.outbox;
  if (!enabled || datasource.url === undefined) return undefined;
  const store: OutboxStore = openOutboxStore({ url: datasource.url, table, initializeSchema, logger });
  // Once per process: a driver prepares it by its text.
  const texts = new Map(
    dialects.map((dialect): [Dialect, string] => [dialect, insertStatement(table, dialect)]),
  );
  let unconfirmed = 0;
  isolate(() => store.prepare()).catch((error: Error) => logger.error(`outbox: ${error.message}`));
  const join = createOutboxJoin({
    insert: (dialect, row) => ({ text: texts.get(dialect) ?? '', values: insertValues(row) }),
    autocommit: onNoTransaction === 'autocommit' ? (row) => isolate(() => store.insert([row])) : undefined,
    onStored() {},
    onUnconfirmed: () => void unconfirmed++,
  });
  return {
    join,
    pending: join.pending,
    unconfirmed: () => unconfirmed,
    close: (deadlineMs) => store.close(deadlineMs),
  };
}
