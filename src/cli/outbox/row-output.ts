import type { StoredRow } from '../../outbox/outbox-store.ts';

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
