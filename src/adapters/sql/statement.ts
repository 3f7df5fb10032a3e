import type { SqlValue } from '../../outbox/insert-row.ts';

/** One statement, its parameters written as `?`. */
export interface Statement {
  readonly sql: string;
  readonly values: readonly SqlValue[];
  /** Whether it gives rows; else it is counted what it changed. */
  readonly hasRows: boolean;
  /** Without values: read along an index, row by row, whatever the database has come to believe about the table. */
  readonly isInOrder?: boolean;
}

export type SqlRow = Readonly<Record<string, unknown>>;

export interface StatementResult {
  readonly rows: readonly SqlRow[];
  /** Rows that were changed. */
  readonly count: number;
}

/**
 * Statements that follow from each other's results. The logic stands once, and each database runs it its own way: servers with
 * an `await` per statement, SQLite in one go, as an application that is let in between would wait for our lock, and block
 * the thread that has to give it back.
 */
export type Work<T> = Generator<Statement, T, StatementResult>;

export function* query(sql: string, ...values: readonly SqlValue[]): Work<readonly SqlRow[]> {
  return (yield { sql, values, hasRows: true }).rows;
}

/**
 * The statistics of a queue are always those of another hour: with an empty table in mind, PostgreSQL would sort the whole
 * backlog for each batch, to take the first rows of it.
 */
export function* queryInOrder(sql: string): Work<readonly SqlRow[]> {
  return (yield { sql, values: [], hasRows: true, isInOrder: true }).rows;
}

/** Returns how many rows it changed. */
export function* command(sql: string, ...values: readonly SqlValue[]): Work<number> {
  return (yield { sql, values, hasRows: false }).count;
}

/** A piece of a condition, with its parameters. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

export async function runWork<T>(
  work: Work<T>,
  run: (statement: Statement) => Promise<StatementResult>,
): Promise<T> {
  let step = work.next();
  while (!step.done) {
    let result: StatementResult;
    try {
      result = await run(step.value);
    } catch (error) {
      step = work.throw(error);
      continue;
    }
    step = work.next(result);
  }
  return step.value;
}

export function runWorkAtOnce<T>(work: Work<T>, run: (statement: Statement) => StatementResult): T {
  let step = work.next();
  while (!step.done) {
    let result: StatementResult;
    try {
      result = run(step.value);
    } catch (error) {
      step = work.throw(error);
      continue;
    }
    step = work.next(result);
  }
  return step.value;
}
