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

const everyMs = 100;

/** One line on a terminal that is written over, where it is not known how much there is to do; nothing elsewhere. */
export function createCounter(stream: { readonly isTTY?: boolean; write(text: string): unknown }): {
  show(text: string): void;
  end(): void;
} {
  let shownAtMs = Number.NEGATIVE_INFINITY;
  let isShown = false;
  return {
    show(text) {
      if (stream.isTTY !== true || performance.now() - shownAtMs < everyMs) return;
      shownAtMs = performance.now();
      isShown = true;
      stream.write(`\r${text}\u001b[K`);
    },
    end() {
      if (isShown) stream.write('\r\u001b[K');
    },
  };
}
