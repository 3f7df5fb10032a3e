/** A publisher written by hand with one client, doing the work that svc does: the envelope, the same headers, the same key. */
export interface HandWritten {
  connect(): Promise<void>;
  /** Takes one event. `onAck`, of a few of them, is called when it is acknowledged. A failed send ends the measurement. */
  publish(onAck?: () => void): void;
  /** Events without acknowledgement. */
  readonly outstanding: number;
  close(): Promise<void>;
}

export interface Target {
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly partitionCount: number;
}

/** PORT: what a file in `clients/` exports as `client`, named as its `svc.broker.client`. The throughput bench finds it there. */
export interface BenchClient {
  /** The client as its README shows it: one send an event. */
  perEvent(target: Target): HandWritten;
  /** The client used the best way that we know. */
  best(target: Target): HandWritten;
}
