import type { Statement } from '../driver.ts';

/** One row that waits for the next statement of the application. */
export interface BufferedRow {
  readonly statement: Statement;
  /** What is undone with this undoes the row: the first write of its function, or its call. */
  readonly from: number;
  /** When it was buffered, in `nextSequence()`. */
  readonly at: number;
  /** Makes of the driver's error what the application may see. */
  readonly explain: (error: unknown) => unknown;
  /** A rollback to a savepoint has undone its function, whatever the database says of the row. */
  isUndone?: true;
}

/** More than these are not kept in memory: the call that brings the last one waits until the database has them. */
const mostRows = 50;

/** Rows that are written together, before the next statement of the application or in one write with its COMMIT. */
export class BufferedRows {
  private rows: BufferedRow[] = [];

  get size(): number {
    return this.rows.length;
  }

  get isFull(): boolean {
    return this.rows.length >= mostRows;
  }

  add(row: BufferedRow): void {
    this.rows.push(row);
  }

  take(): readonly BufferedRow[] {
    const { rows } = this;
    this.rows = [];
    return rows;
  }

  /** Those of functions since then are undone before they were written, and those that were written since then are gone. */
  dropSince(at: number): void {
    this.rows = this.rows.filter((row) => row.at < at);
  }
}
