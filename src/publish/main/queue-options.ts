import type { Clock } from '../../ground/clock.ts';
import type { Logger } from '../../observe/logger.ts';
import type { Broker, SendFailureKind } from '../broker.ts';
import type { NextTier } from '../tier.ts';
import type { BreakerSettings } from './breaker.ts';
import type { toRecord } from './record.ts';
import type { RetryPolicy } from './retry.ts';

export interface QueueOptions {
  /** Without `describe`, a cluster that hangs shows only when the time of its events is over. */
  readonly broker: Pick<Broker, 'send' | 'partitionsFor'> & Partial<Pick<Broker, 'describe' | 'letGo'>>;
  /** Topic of events that name none. */
  readonly topic: string;
  readonly batch: {
    readonly maxEvents: number;
    readonly maxBytes: number;
    /** How long the first event of a batch waits at most for others where its partition is busy, or was sent to within that time. */
    readonly lingerMs: number;
    /** Callers wait for the outcome of their events. Default: false. */
    readonly isAwaited?: boolean;
  };
  /** Over all topics. One event more goes to the next tier. */
  readonly buffer: { readonly maxEvents: number; readonly maxBytes: number };
  /** Sends at once, over all partitions. */
  readonly maxInFlight: number;
  /** An event that is not acknowledged in this time goes to the next tier. */
  readonly deliveryTimeoutMs: number;
  readonly retry: RetryPolicy;
  /** Left out: every event is sent, whatever became of those before. */
  readonly breaker?: BreakerSettings | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Runs a send as svc's own work: not captured, and without spans of the client's instrumentation. */
  readonly isolate: <T>(work: () => Promise<T>) => Promise<T>;
  /** Where an event goes that was not published. Called in the context of the event's call. */
  readonly next: NextTier;
  readonly onPublished?: () => void;
  /** A send failed, of any number of events. */
  readonly onSendFailed?: (kind: SendFailureKind) => void;
  /** An event is sent once more. */
  readonly onRetried?: (eventType: string) => void;
  /** Default: `toRecord`. */
  readonly makeRecord?: typeof toRecord;
}
