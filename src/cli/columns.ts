import { printable } from '../observe/logger.ts';

/** Rows that are held to determine the column widths. Later rows keep these widths if they fit. */
const heldRows = 100;
/** Limit of a column's width. Longer texts stick out. */
const mostWidth = 60;

/** A table for people. Rows are held up to `heldRows`, then written at once. */
export interface Columns {
  add(row: readonly string[]): void;
  /** Writes the held rows, and the head of an empty table. */
  end(): void;
}

export function createColumns(head: readonly string[], write: (text: string) => unknown): Columns {
  let held: (readonly string[])[] | undefined = [head];
  let widths: readonly number[] = [];

  function writeRow(row: readonly string[]): void {
    const cells = row.map((cell, index) =>
      index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0),
    );
    write(`${cells.join('  ').trimEnd()}\n`);
  }

  function flush(): void {
    const rows = held ?? [];
    held = undefined;
    widths = head.map((_, index) =>
      Math.min(mostWidth, Math.max(...rows.map((row) => (row[index] ?? '').length))),
    );
    for (const row of rows) writeRow(row);
  }

  return {
    add(row) {
      const shown = row.map(printable);
      if (held === undefined) return writeRow(shown);
      held.push(shown);
      if (held.length > heldRows) flush();
    },
    end() {
      if (held !== undefined) flush();
    },
  };
}
