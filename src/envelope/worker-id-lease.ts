/** A worker id that this process has for a while. Ids may carry it from the one instant until the other. */
export interface WorkerIdGrant {
  readonly workerId: number;
  readonly from: Instant;
  /** The first instant at which another process may have it. */
  readonly until: Instant;
}

/** On both clocks: one that stands still, or steps, must not make a lease longer. */
export interface Instant {
  /** Milliseconds since the epoch. */
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/**
 * PORT: worker ids that processes share out among them, wherever they run.
 *
 * - Two grants of one worker id never overlap, whatever becomes of a process: stopped, cut off, or killed. Clocks of two
 *   hosts may differ by less than the time between them.
 * - `start` returns at once and is called once. `onGrant` hears of every grant, of its prolongations, and with `undefined` of
 *   its end; a grant that is not prolonged ends without a call.
 * - `close` gives the worker id back, within `deadlineMs`. Nothing keeps the process alive until then.
 * - Nothing throws or rejects: what has to be said goes to the logger that the adapter is made with.
 */
export interface WorkerIdLease {
  start(onGrant: (grant: WorkerIdGrant | undefined) => void): void;
  close(deadlineMs: number): Promise<void>;
}
