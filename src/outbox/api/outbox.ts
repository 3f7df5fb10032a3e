// api/: what applications call for transactions that svc does not detect.

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
   * Stores one event, or several in order, in the transaction of `executor`, protected and serialized like captured events. Await
   * it before the COMMIT.
   *
   * @throws SvcError `SVC_OUTBOX_…`, `SVC_PROTECT_…`: nothing is stored. Let the transaction fail with this error.
   */
  save(executor: OutboxExecutor, events: OutboxEvent | readonly OutboxEvent[]): Promise<void>;

  /**
   * Runs `work` with its events in the transaction of `executor`, which the application opens and ends. Events of captured
   * functions and of `save` inside `work` join that transaction, whatever svc detects. Rejects if an event could not be stored,
   * even if `work` continued after the error. Without a running svc it only calls `work()`.
   */
  withTransaction<R>(executor: OutboxExecutor, work: () => R | PromiseLike<R>): Promise<R>;

  /**
   * Opens a transaction on `dataSource`, runs `work`, and commits; rolls back if `work` fails. Events of the functions that called
   * it are written after `work` has returned, so `#result` in them is its result. Works without a running svc.
   */
  runInTransaction<Source extends OutboxDataSource, R>(
    dataSource: Source,
    work: (executor: TransactionOf<Source>) => R | PromiseLike<R>,
  ): Promise<R>;

  /** The transaction that an event made here and now would join: for tests and diagnosis. */
  current(): CurrentTransaction;

  /**
   * Follows a driver that svc does not see being loaded, because it is bundled: `import pg from 'pg'; outbox.watch(pg)`. Call it
   * before the driver's first connection. Does nothing without a running svc.
   *
   * @throws SvcError `SVC_OUTBOX_DRIVER` if svc does not support the driver
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
