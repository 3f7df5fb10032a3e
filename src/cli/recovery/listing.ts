import type { StoredEvent } from '../../start/commands/recovery.ts';
import { createColumns } from '../columns.ts';
import { listColumns, listed, listHead } from './recovery-output.ts';

/** So many lines are held to be put in order; of more, each so many are in order among themselves. */
export const mostSorted = 100_000;

/** The events of a list, as text or for a JSON document. */
export interface Listing {
  add(event: StoredEvent): void;
  /** Writes what is held. Gives what belongs in the JSON document. */
  end(): readonly object[];
}

/** @param isSorted by the time at which events were stored: a topic gives them partition by partition */
export function createListing(
  options: { readonly isJson: boolean; readonly isSorted: boolean },
  write: (text: string) => unknown,
): Listing {
  const { isJson, isSorted } = options;
  const documents: object[] = [];
  const table = createColumns(listHead, write);
  let held: StoredEvent[] = [];

  function flush(): void {
    // Stable: events of one time stay as they came.
    if (isSorted) held.sort((a, b) => a.storedAt - b.storedAt);
    for (const event of held) {
      if (isJson) documents.push(listed(event));
      else table.add(listColumns(event));
    }
    held = [];
  }

  return {
    add(event) {
      held.push(event);
      if (!isSorted || held.length >= mostSorted) flush();
    },
    end() {
      flush();
      if (!isJson) table.end();
      return documents;
    },
  };
}
