import type { Dialect } from '../../transaction/dialect.ts';

/** The smallest thing that the outbox can write through: a function that sends a statement within an open transaction. */
export interface OutboxPort {
  readonly dialect: Dialect;
  /** `sql` has its parameters as the database wants them: `$1` (PostgreSQL), `?`. */
  execute(sql: string, params: unknown[]): unknown;
}

/** What the application gave, recognised. */
export interface Executor {
  readonly dialect: Dialect;
  /** The connection as its driver has it, where that is at hand. */
  readonly handle?: object | undefined;
  /** No driver that svc follows is below. */
  readonly isForeign?: boolean;
  /** What it is itself has said: it is in no transaction. */
  readonly isOutside?: boolean;
  /** `undefined` where the driver is synchronous and the answer is there. */
  execute(sql: string, params: readonly unknown[]): Promise<unknown> | undefined;
  /** How many rows a statement has changed: of drivers alone, as the answers of libraries are all different. */
  changed?(sql: string, params: readonly unknown[]): Promise<number>;
}
