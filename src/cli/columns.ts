import { printable } from '../observe/logger.ts';

/** So many rows are held to know how wide their columns are; those that come later keep to it where they can. */
const heldRows = 100;
/** A column of longer texts is not widened for them. */
const mostWidth = 60;

/** A table for people. What it is told is written at once, from the hundredth row on. */
export interface Columns {
  add(row: readonly string[]): void;
  /** Writes what is held, the head even without a row. */
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
