/**
 * PORT: how relays hear of rows that another process has committed, sooner than by their next look at the table. It goes over
 * svc's own connections, and never through a transaction of the application. A notice may be lost: the look at the table is what
 * finds every row.
 */
export interface Notices {
  /** Tells all that listen of rows in these shards. Rejects with an `SvcError`. */
  send(shards: readonly number[]): Promise<void>;
  /** Listens until `stopping`, through outages, and resolves then. `hear` without shards: notices may have been missed. */
  listen(hear: (shards?: readonly number[]) => void, stopping: AbortSignal): Promise<void>;
}
