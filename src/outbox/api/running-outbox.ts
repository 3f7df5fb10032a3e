import { shared } from '../../ground/lifecycle.ts';
import type { RunTransaction } from './executor.ts';
import type { OutboxEvent } from './outbox-event.ts';

/** The transaction that an event would be stored in which is made here and now. */
export interface CurrentTransaction {
  /** There is one, and one only. */
  readonly joined: boolean;
  /** `executor`: named by `save`, `withTransaction` or `runInTransaction`; `driver`: found by what the application has sent. */
  readonly via: 'executor' | 'driver' | null;
  readonly dialect: 'postgres' | 'mysql' | 'sqlite' | null;
  /** Open transactions that the code here took part in: more than one, and nothing says which an event belongs to. */
  readonly open: number;
}

/** What the functions of `outbox` do in a process that svc runs in. */
export interface RunningOutbox {
  /** `svc.outbox.enabled`. */
  readonly isEnabled: boolean;
  save(executor: unknown, events: readonly OutboxEvent[]): Promise<void>;
  withTransaction<R>(executor: unknown, work: () => R | PromiseLike<R>): Promise<R>;
  runInTransaction<R>(run: RunTransaction, work: (executor: unknown) => R | PromiseLike<R>): Promise<R>;
  current(): CurrentTransaction;
  /** Throws where the exports are of no driver that svc follows. */
  watch(driver: unknown): void;
}

/** The one of this process, whichever copy of the package started it. */
export const runningOutbox: { current: RunningOutbox | undefined } = shared('running-outbox', () => ({
  current: undefined,
}));
