import { SvcError } from '../ground/errors.ts';
import { fitsOutboxText, longestOutboxText } from '../ground/event-fields.ts';
import type { OutboxRow } from './outbox-row.ts';

const texts = [
  ['aggregateType', 'aggregate type'],
  ['aggregateId', 'aggregate id'],
  ['key', 'record key'],
  ['eventType', 'event type'],
  ['topic', 'topic'],
] as const;

/** Throws where a text of the row is too long for its column: some modes of MySQL would cut it, without a word. */
export function checkRow(row: OutboxRow): void {
  for (const [field, name] of texts) {
    if (fitsOutboxText(row[field])) continue;
    throw new SvcError(
      'SVC_OUTBOX_TOO_LONG',
      `the event is not stored: its ${name} has more than ${longestOutboxText} bytes in UTF-8, and the table of the outbox holds no longer one; use a shorter ${name}`,
    );
  }
}
