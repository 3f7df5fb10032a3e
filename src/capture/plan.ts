import type { Phase } from '../config/schema/target-fields.ts';
import type { Severity } from '../ground/event-fields.ts';
import type { ExpressionScope } from './expression/scope.ts';

/** Where a target was written. A configured one wins over a decorator on the same function. */
export type PlanOrigin = 'configuration' | 'decorator' | 'publishEvent';

/** The outbox of a target, compiled. */
export interface OutboxPlan {
  readonly aggregateType: string;
  /** Never empty: throws `SvcError` `SVC_OUTBOX_AGGREGATE_ID` where a call has no id, and what a failed expression throws. */
  readonly aggregateId: (call: ExpressionScope) => string;
  /** `transaction`: `result` is what the transaction that the function opened gives back. */
  readonly result: 'transaction' | undefined;
}

/** One publish target, compiled: everything that can be known before the first call. */
export interface CapturePlan {
  /** `src/orders.ts#createOrder`, as reports and logs name it. */
  readonly id: string;
  readonly origin: PlanOrigin;
  readonly eventType: string;
  readonly severity: Severity;
  /** Overrides the default topic. */
  readonly topic?: string | undefined;
  readonly phase: Phase;
  /** The application's call fails with the event's error instead of going on without the event. Default: false; with an outbox always. */
  readonly failOnError: boolean;
  /** `last`: the function tells of its end through a callback in Node's form, its last argument. */
  readonly callback?: 'last' | undefined;
  /** Whether a call makes an event. Throws `SvcError`, and the event is refused. */
  readonly when?: ((call: ExpressionScope) => boolean) | undefined;
  /** The payload of a call. Throws `SvcError` (code `SVC_CAPTURE_EXPRESSION`) and never returns a value that a failed expression made up. */
  readonly payload: (call: ExpressionScope) => unknown;
  /** The event is stored in the transaction of the call. */
  readonly outbox?: OutboxPlan | undefined;
  /** The event waits for the commit of the transaction of the call, and is dropped with it. */
  readonly afterCommit: boolean;
  /** The record key of a call: that which was declared, else the aggregate id; `undefined` where there is neither. */
  readonly key?: ((call: ExpressionScope) => string | undefined) | undefined;
  /** Headers of the record, beside those of svc: texts. */
  readonly headers?: ((call: ExpressionScope) => Readonly<Record<string, string>>) | undefined;
  /** What a reader of the report should know about this plan and its function. */
  readonly notes?: readonly string[];
}
