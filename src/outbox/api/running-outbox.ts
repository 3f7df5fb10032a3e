import { shared } from '../../ground/lifecycle.ts';
import type { RunTransaction } from './executor.ts';
import type { OutboxEvent } from './outbox-event.ts';

/** The transaction that an event made here and now would join. */
export interface CurrentTransaction {
  /** There is exactly one. */
  readonly joined: boolean;
  /**
   * `executor`: named by `save`, `withTransaction` or `runInTransaction`; `driver`: detected from the application's statements.
   */
  readonly via: 'executor' | 'driver' | null;
  readonly dialect: 'postgres' | 'mysql' | 'sqlite' | null;
  /** Open transactions that this code took part in. With more than one, the event's transaction is ambiguous. */
  readonly open: number;
}

/** The functions of `outbox` while svc runs. */
export interface RunningOutbox {
  /** `svc.outbox.enabled`. */
  readonly isEnabled: boolean;
  save(executor: unknown, events: readonly OutboxEvent[]): Promise<void>;
  withTransaction<R>(executor: unknown, work: () => R | PromiseLike<R>): Promise<R>;
  runInTransaction<R>(run: RunTransaction, work: (executor: unknown) => R | PromiseLike<R>): Promise<R>;
  current(): CurrentTransaction;
  /** Throws if svc does not support the driver. */
  watch(driver: unknown): void;
}

/** Shared by all copies of this package in the process. */
export const runningOutbox: { current: RunningOutbox | undefined } = shared('running-outbox', () => ({
  current: undefined,
}));
