import { shared } from '../ground/lifecycle.ts';
import type { OutboxRow } from '../outbox/outbox-row.ts';
import { rowWatch } from '../outbox/row-watch.ts';
import type { TransactionEnd } from '../transaction/driver.ts';

/** Where the transaction of a row stands. `unknown`: its COMMIT was sent, and the answer never came. */
export type StoredState = 'open' | TransactionEnd;

export interface StoredRow {
  readonly row: OutboxRow;
  state: StoredState;
}

/** The rows that this process has stored, in the order of the calls. */
export interface StoredRows {
  all(): readonly StoredRow[];
  clear(): void;
  /** Calls `listener` when a row comes and when its transaction ends; the result stops it. */
  onChange(listener: () => void): () => void;
}

function watchRows(): StoredRows {
  let rows: StoredRow[] = [];
  const listeners = new Set<() => void>();
  const changed = (): void => {
    for (const listener of [...listeners]) listener();
  };
  rowWatch().onRow = (row) => {
    const stored: StoredRow = { row, state: 'open' };
    rows.push(stored);
    changed();
    return (how) => {
      stored.state = how;
      changed();
    };
  };
  return {
    all: () => [...rows],
    clear() {
      rows = [];
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Of this process, from the first call on. */
export function sharedStoredRows(): StoredRows {
  return shared('stored-rows', watchRows);
}
