import type { Command } from 'commander';
import { type RowFilter, type RowStatus, rowStatuses, type StoredRow } from '../outbox/outbox-store.ts';
import { sinceText, timeOf } from './recovery.ts';
import { WrongUse } from './wrong-use.ts';

/** What a command of `svc outbox` is given. */
export interface OutboxOptions {
  readonly config?: string;
  readonly json?: true;
  readonly dryRun?: true;
  readonly all?: true;
  readonly broker?: string;
  readonly dialect?: string;
  readonly table?: string;
  readonly role?: readonly string[];
  /** The version that the tables have already. */
  readonly from?: number;
  readonly partitioned?: true;
  readonly type?: string;
  readonly topic?: string;
  readonly aggregateType?: string;
  readonly aggregateId?: string;
  readonly status?: readonly RowStatus[];
  readonly since?: number;
  readonly before?: number;
  /** Only rows with a larger id; default: all. */
  readonly after?: number;
  /** Rows at most. */
  readonly limit?: number;
}

/** Which rows are meant. */
export function withFilters(command: Command): Command {
  return command
    .option('--type <event type>', 'only these')
    .option('--topic <topic>', 'only events for this topic')
    .option('--aggregate-type <type>', 'only events of such aggregates')
    .option('--aggregate-id <id>', 'only events of this aggregate')
    .option(
      '--status <status>',
      'PENDING, PUBLISHED or FAILED; may be given several times',
      (text: string, before: readonly RowStatus[] = []) => [...before, statusOf(text)],
    )
    .option('--since <time>', sinceText, timeOf('since'))
    .option('--before <time>', 'only events stored before', timeOf('before'))
    .option('--limit <number>', 'so many at most (list and replay: 1000 by default)', limitOf);
}

/** @throws WrongUse */
export function filterOf(options: OutboxOptions): RowFilter {
  const { type: eventType, topic, aggregateType, aggregateId, status: statuses, since, before } = options;
  if (since !== undefined && before !== undefined && since >= before)
    throw new WrongUse('--since is not before --before');
  const all = { eventType, topic, aggregateType, aggregateId, statuses, since, before };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function statusOf(text: string): RowStatus {
  const status = rowStatuses.find((each) => each === text.toUpperCase());
  if (status === undefined) throw new WrongUse(`--status takes ${rowStatuses.join(', ')}`);
  return status;
}

export function versionOf(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text))
    throw new WrongUse('--from takes the version that the tables have, which svc outbox check says');
  return Number(text);
}

export function afterOf(text: string): number {
  const after = Number(text);
  if (!Number.isSafeInteger(after) || after < 0)
    throw new WrongUse('--after takes the number that a replay which was stopped has named');
  return after;
}

function limitOf(text: string): number {
  const limit = Number(text);
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw new WrongUse('--limit takes a number of events, an integer from 1');
  return limit;
}

/** A row in a list: what it is and what became of it, never what is in it. In the order of the columns. */
export function rowDocument(row: StoredRow): object {
  const { eventId, eventType, aggregateType, aggregateId, status, topic, retryCount, lastError } = row;
  return {
    occurredAt: new Date(row.occurredAt).toISOString(),
    ...{ eventId, status, retryCount, eventType, aggregateType, aggregateId, topic, lastError },
    nextRetryInMs: status === 'PENDING' && row.waitMs > 0 ? row.waitMs : null,
  };
}

export const rowHead = ['OCCURRED', 'EVENT', 'STATUS', 'TRIES', 'TYPE', 'AGGREGATE', 'TOPIC', 'REASON'];

export function rowColumns(row: StoredRow): readonly string[] {
  const { eventId, eventType, aggregateType, aggregateId, status, topic, retryCount, lastError } = row;
  const time = new Date(row.occurredAt).toISOString();
  const aggregate = `${aggregateType} ${aggregateId}`;
  return [time, eventId, status, String(retryCount), eventType, aggregate, topic, lastError ?? '-'];
}

export function eventsOf(count: number): string {
  return count === 1 ? '1 event' : `${count} events`;
}
