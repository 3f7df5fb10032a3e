import type { PublishDurations } from '../../observe/durations.ts';
import type { Ledger } from '../../observe/outcomes.ts';
import type { QueueEntry } from './aggregate-order.ts';

/** Where a relay counts what it sends, and what it fails to send. */
export interface RelayCounters {
  readonly ledger: Pick<Ledger, 'relayed' | 'gaveUp' | 'brokerFailed'>;
  /** From when a row was taken in until the broker had it. */
  readonly durations: Pick<PublishDurations, 'record'>;
}

export interface Processed {
  readonly published: number;
  readonly failed: number;
}

/** Counts rows when their end is marked in the table: each is sent once then, whoever else has tried it. */
export interface RowCounts {
  sent(entry: QueueEntry | undefined): void;
  gaveUp(entry: QueueEntry | undefined): void;
  readonly processed: Processed;
}

export function createRowCounts({ ledger, durations }: RelayCounters): RowCounts {
  const processed = { published: 0, failed: 0 };
  return {
    sent(entry) {
      if (entry?.sentMs === undefined) return;
      const { eventType } = entry.row;
      processed.published++;
      ledger.relayed(eventType);
      durations.record(eventType, (entry.sentMs - entry.takenMs) / 1_000);
    },
    gaveUp(entry) {
      if (entry === undefined) return;
      processed.failed++;
      ledger.gaveUp(entry.row.eventType);
    },
    processed,
  };
}
