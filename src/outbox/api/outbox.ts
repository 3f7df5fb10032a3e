// api/: what applications call for transactions that svc does not find by itself.

import { SvcError } from '../../ground/errors.ts';
import {
  type OutboxDataSource,
  type OutboxExecutor,
  type TransactionOf,
  transactionsOf,
} from './executor.ts';
import type { OutboxEvent } from './outbox-event.ts';
import { type CurrentTransaction, runningOutbox } from './running-outbox.ts';

export interface Outbox {
  /**
   * Stores one event, or several in their order, in the transaction of `executor`: protected and serialized as captured ones are.
   * Await it before the COMMIT.
   *
   * @throws SvcError `SVC_OUTBOX_…`, `SVC_PROTECT_…`: nothing is stored; let the transaction fail with it.
   */
  save(executor: OutboxExecutor, events: OutboxEvent | readonly OutboxEvent[]): Promise<void>;

  /**
   * Runs `work` with its events in the transaction of `executor`, which the application has opened and ends itself: what captured
   * functions and `save` do in it belongs there, whatever else svc sees. Rejects where an event could not be stored, also where
   * `work` went on after it. Without a running svc it is just `work()`.
   */
  withTransaction<R>(executor: OutboxExecutor, work: () => R | PromiseLike<R>): Promise<R>;

  /**
   * Opens a transaction on `dataSource`, runs `work` in it, and commits, or rolls back where it fails. The events of the functions
   * that called it are written after `work` has returned: `#result` in them is what that was. Works without a running svc.
   */
  runInTransaction<Source extends OutboxDataSource, R>(
    dataSource: Source,
    work: (executor: TransactionOf<Source>) => R | PromiseLike<R>,
  ): Promise<R>;

  /** Which transaction an event would be stored in that is made here and now: for tests, and to find out. */
  current(): CurrentTransaction;

  /**
   * Follows the transactions of a driver that svc does not see being loaded, because a bundler has put it into the bundle:
   * `import pg from 'pg'; outbox.watch(pg)`, before its first connection. Does nothing without a running svc.
   *
   * @throws SvcError `SVC_OUTBOX_DRIVER` where it is none that svc follows.
   */
  watch(driver: object): void;
}

export const outbox: Outbox = {
  async save(executor, events) {
    const running = runningOutbox.current;
    if (running?.isEnabled !== true) throw notRunning(running !== undefined);
    return running.save(executor, Array.isArray(events) ? events : [events as OutboxEvent]);
  },
  async withTransaction(executor, work) {
    const running = runningOutbox.current;
    return running === undefined ? work() : running.withTransaction(executor, work);
  },
  async runInTransaction<Source extends OutboxDataSource, R>(
    dataSource: Source,
    work: (executor: TransactionOf<Source>) => R | PromiseLike<R>,
  ): Promise<R> {
    const run = transactionsOf(dataSource);
    const running = runningOutbox.current;
    const within = (executor: unknown) => work(executor as TransactionOf<Source>);
    return running === undefined
      ? run(async (executor) => within(executor))
      : running.runInTransaction(run, within);
  },
  current: () => runningOutbox.current?.current() ?? { joined: false, via: null, dialect: null, open: 0 },
  watch: (driver) => runningOutbox.current?.watch(driver),
};

function notRunning(isDisabled: boolean): SvcError {
  return new SvcError(
    'SVC_OUTBOX_NOT_RUNNING',
    isDisabled
      ? 'outbox.save() needs svc.outbox.enabled: true'
      : 'svc is not running: start the application with node --import svc/register',
  );
}
