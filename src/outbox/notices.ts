/**
 * PORT: tells relays of rows that another process has committed, sooner than polling does. Uses svc's own connections, never the
 * application's transactions. Notices may be lost; polling finds every row.
 */
export interface Notices {
  /** Notifies all listeners about rows in these shards. Rejects with an `SvcError`. */
  send(shards: readonly number[]): Promise<void>;
  /** Listens until `stopping`, also through outages, and then resolves. `hear` without shards: notices may have been missed. */
  listen(hear: (shards?: readonly number[]) => void, stopping: AbortSignal): Promise<void>;
}
