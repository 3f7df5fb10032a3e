import { shared } from '../ground/lifecycle.ts';
import type { TransactionEnd } from '../transaction/driver.ts';
import type { OutboxRow } from './outbox-row.ts';

/** Called in the very moment that the end is known: also of a synchronous driver, whose application awaits nothing. */
export type OnRowEnd = (how: TransactionEnd) => void;

/** Who looks on as rows are stored: `svc/testing`, in a process that has loaded it; else nobody. */
export interface RowWatch {
  onRow?: (row: OutboxRow) => OnRowEnd;
}

export function rowWatch(): RowWatch {
  return shared('outbox-row-watch', () => ({}));
}
